"""GET /openapi.json: the endpoints as an OpenAPI document. The fields of a request are those of the table."""

from collections.abc import Iterable, Mapping
from typing import Any

from omnitts_cli.server.body import Receive, Scope, Send
from omnitts_cli.server.encode import MEDIA
from omnitts_cli.server.fields import FIELDS, RequestField
from omnitts_cli.server.state import ServerState
from omnitts_cli.server.uploads import WRITABLE
from omnitts_cli.settings.environment import own_version

ELSEWHERE = {"items", "stream_audio"}  # fields of the batch and of the WebSocket
KEYS: list[dict[str, list[str]]] = [{"bearer": []}, {"xi-api-key": []}, {}]
BINARY = {"schema": {"type": "string", "format": "binary"}}
SOUND = {media: BINARY for media in dict.fromkeys(MEDIA.values())}
JSON: dict[str, Any] = {"application/json": {"schema": {"type": "object"}}}
TEXT: dict[str, Any] = {"text/plain": {"schema": {"type": "string"}}}
FAILED = {
    "description": "An error",
    "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}},
}
STRING = {"type": "string"}
ERROR = {"type": "object", "required": ["error"], "properties": {"error": {
    "type": "object", "required": ["message", "type"],
    "properties": {"message": STRING, "type": STRING, "param": {"type": ["string", "null"]},
                   "code": {"type": ["string", "null"]}},
}}}  # fmt: skip
UPLOAD = {"type": "object", "required": ["name"], "properties": {
    "name": STRING, **{file: BINARY["schema"] for file in WRITABLE},
    **{field: STRING for field in ("design", "ref_text", "consent", "speaker_description", "model", "seed", "replace")},
}}  # fmt: skip


def schema_of(field: RequestField) -> dict[str, Any]:
    """A field as JSON schema."""
    return {**field.kind.schema, **({"description": field.note} if field.note else {})}


def body_of(fields: Iterable[RequestField], required: list[str]) -> dict[str, Any]:
    """Fields as the schema of an object. Others are ignored."""
    return {"type": "object", "properties": {one.name: schema_of(one) for one in fields}, "required": required,
            "additionalProperties": True}  # fmt: skip


def spoken(of: str, required: list[str]) -> dict[str, Any]:
    """The schema of a request: the fields with an effect that a server knows; \"\": ours and those of all of them."""
    known = (one for one in FIELDS if one.use in ("used", "mapped") and one.name not in ELSEWHERE)
    return body_of((one for one in known if not of or of in one.of), required)


def operation(
    about: str, name: str, answer: Mapping[str, Any] = JSON, *, body: str = "", kind: str = "application/json",
    path: Iterable[str] = (), query: Iterable[str] = (),
) -> dict[str, Any]:  # fmt: skip
    """One method of an endpoint."""
    found: dict[str, Any] = {
        "summary": about, "operationId": name,
        "responses": {"200": {"description": about, "content": dict(answer)} if answer else {"description": about},
                      "default": FAILED},
    }  # fmt: skip
    places = [*((one, "path") for one in path), *((one, "query") for one in query)]
    if places:
        found["parameters"] = [
            {"name": one, "in": place, "required": place == "path", "schema": STRING} for one, place in places
        ]
    if body:
        reference = {"schema": {"$ref": f"#/components/schemas/{body}"}}
        found["requestBody"] = {"required": True, "content": {kind: reference}}
    return found


def paths(*, web: bool, metrics: bool) -> dict[str, dict[str, Any]]:
    """The endpoints, but for the WebSocket, which OpenAPI cannot describe."""
    events = {"text/event-stream": {"schema": STRING}}
    found = {
        "/v1/audio/speech": {"post": operation("Speaks a text", "speak", SOUND | events, body="Speech")},
        "/v1/audio/speech/batch": {"post": operation("Speaks several texts", "speak_batch", body="Batch")},
        "/v1/models": {"get": operation("Lists the models", "list_models")},
        "/v1/models/{name}": {"get": operation("Describes a model", "get_model", path=["name"])},
        "/v1/audio/voices": {
            "get": operation("Lists the voices", "list_voices", query=["legacy"]),
            "post": operation("Saves a voice", "save_voice", body="Upload", kind="multipart/form-data"),
        },
        "/v1/audio/voices/{name}": {"delete": operation("Deletes a voice", "delete_voice", path=["name"])},
        "/v1/text-to-speech/{voice}": {
            "post": operation("Speaks a text (ElevenLabs)", "text_to_speech", SOUND, body="TextToSpeech",
                              path=["voice"], query=["output_format"]),
        },
        "/v1/text-to-speech/{voice}/stream": {
            "post": operation("Streams the speech of a text (ElevenLabs)", "text_to_speech_stream", SOUND,
                              body="TextToSpeech", path=["voice"], query=["output_format"]),
        },
        "/v1/voices": {"get": operation("Lists the voices (ElevenLabs)", "list_voices_elevenlabs")},
        "/openapi.json": {"get": operation("This document", "openapi")},
        "/health": {"get": operation("Says whether the engines work", "health", TEXT)},
        "/ready": {"get": operation("Says whether the models are ready", "ready", TEXT)},
    }  # fmt: skip
    if metrics:
        found["/metrics"] = {"get": operation("Metrics for Prometheus", "metrics", TEXT)}
    if web:
        found["/"] = {"get": operation("The web page", "page", {"text/html": {"schema": STRING}})}
    return found


async def document(state: ServerState, scope: Scope, receive: Receive, send: Send) -> dict[str, Any]:
    """GET /openapi.json"""
    batch = spoken("", [])
    batch["properties"] |= {"items": {"type": "array", "items": {"$ref": "#/components/schemas/Speech"}}}
    return {
        "openapi": "3.1.0",
        "info": {"title": "omnitts", "version": own_version(), "license": {"name": "Apache-2.0"}},
        "security": KEYS,
        "paths": paths(web=state.options.web, metrics=state.options.metrics),
        "components": {
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "xi-api-key": {"type": "apiKey", "in": "header", "name": "xi-api-key"},
            },
            "schemas": {
                "Speech": spoken("", []), "Batch": {**batch, "required": ["items"]}, "Upload": UPLOAD,
                "TextToSpeech": spoken("E", ["text"]), "Error": ERROR,
            },
        },
    }  # fmt: skip
