"""GET endpoints: models, voices, health, readiness, metrics, the page."""

import asyncio
import json
import re
import time
from typing import Any
from urllib.parse import parse_qs

from omnitts_cli.server.body import Receive, Scope, Send
from omnitts_cli.server.fields import TASKS
from omnitts_cli.server.models import OPENAI as OPENAI_MODELS
from omnitts_cli.server.models import ServedModel
from omnitts_cli.server.page import page
from omnitts_cli.server.problems import unknown
from omnitts_cli.server.state import ServerState
from omnitts_cli.server.voices import OPENAI, alias
from omnitts_cli.speech import voice_files
from omnitts_cli.text.language import LANGUAGES

BEGAN = int(time.time())


async def send_json(send: Send, values: Any, status: int = 200, *, head: bool = False) -> None:
    """A JSON answer; `head`: without its body."""
    body = json.dumps(values, ensure_ascii=False).encode("utf-8", "backslashreplace")
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": b"" if head else body})


def model_entry(model: ServedModel) -> dict[str, Any]:
    """One model in OpenAI's list, and more about it."""
    entry: dict[str, Any] = {"id": model.name, "object": "model", "created": BEGAN, "owned_by": "omnitts"}
    entry["tasks"] = [task for kind, task in TASKS.items() if kind in (model.kinds or ())]
    entry["state"] = model.state
    if model.tts is not None:
        speech = model.speech
        entry |= {
            "languages": [code for code, name in LANGUAGES.items() if name in speech.languages],
            "sample_rate": speech.facts.sample_rate,
            "sha256": speech.sha256,
            "dtype": speech.precision,
            "device": model.tts.engine.device.name,
            "slots": model.tts.engine.plan.slots,
            "longest_piece": speech.longest_piece,
        }
        if model.card is not None:
            entry["omnitts"] = model.card
    return entry


async def list_models(state: ServerState, scope: Scope, receive: Receive, send: Send) -> dict[str, Any]:
    """GET /v1/models: OpenAI's list; the aliases come last."""
    return {"object": "list", "data": entries(state)}


def entries(state: ServerState) -> list[dict[str, Any]]:
    """The models, and OpenAI's names for them."""
    listed = [model_entry(model) for model in state.models.all]
    aliases = [{"id": name, "object": "model", "created": BEGAN, "owned_by": "omnitts",
                "alias_of": state.models.all[0].name} for name in OPENAI_MODELS]  # fmt: skip
    return [*listed, *aliases]


async def get_model(state: ServerState, scope: Scope, receive: Receive, send: Send) -> dict[str, Any]:
    """GET /v1/models/NAME: its entry of the list; a name may contain slashes."""
    name, known = scope["path_params"]["name"], entries(state)
    found = next((entry for entry in known if entry["id"] == name), None)
    if found is None:
        raise unknown(404, "model", name, [entry["id"] for entry in known])
    return found


async def list_voices(state: ServerState, scope: Scope, receive: Receive, send: Send) -> dict[str, Any]:
    """GET /v1/audio/voices: the voices of the loaded models, the saved ones, and OpenAI's names."""
    found = await known_voices(state)
    return {**found, "voices": [one["name"] for one in found["data"]] if legacy(scope) else found["data"]}


async def known_voices(state: ServerState) -> dict[str, Any]:
    """The same without what the request says."""
    names = list(state.saved.names())
    own: dict[str, str] = {}
    details: dict[str, Any] = {}
    for model in state.models.loaded:
        for name, about in model.speech.speakers.items():
            own.setdefault(name, model.name)
            details.setdefault(name, {"model": model.name, "about": about})
    uploaded = await asyncio.to_thread(lambda: [uploaded_entry(state, name) for name in names])
    for entry, name in zip(uploaded, names, strict=True):
        details.setdefault(name, {"model": entry.pop("model", None), "language": entry.pop("language", None)})
    known = {name: details[name]["about"] for name in own}
    aliases = {name: alias(name, known) for name in sorted(OPENAI) if name not in own and known}
    names = [*own, *(entry["name"] for entry in uploaded if entry["name"] not in own)]
    listed = [{"id": name, "name": name, **shown(details[name])} for name in names]
    return {"data": listed, "uploaded_voices": uploaded, "aliases": aliases, "details": details}


def shown(details: dict[str, Any]) -> dict[str, Any]:
    """The entry of a voice in the list, without empty fields."""
    return {"object": "voice", **{key: value for key, value in details.items() if value is not None}}


def legacy(scope: Scope) -> bool:
    """Whether a client asks for names instead of objects."""
    return parse_qs(scope["query_string"]).get(b"legacy", [b""])[-1].lower() in (b"true", b"1")


def uploaded_entry(state: ServerState, name: str) -> dict[str, Any]:
    """A saved voice with the fields of vLLM-Omni."""
    path = voice_files.folder() / f"{name}{voice_files.SUFFIX}"
    entry: dict[str, Any] = {"name": name, "mime_type": "application/octet-stream"}
    try:
        found, about = state.saved.about(name), path.stat()
    except Exception as error:  # one broken file does not hide the others
        return entry | {"error": str(error)[:200]}
    entry |= {"created_at": int(about.st_mtime), "file_size": clip_size(found, about.st_size),
              "consent": found.get("consent", ""), "model": found.get("model"), "language": found.get("language"),
              "mime_type": found.get("mime_type", entry["mime_type"])}  # fmt: skip
    entry |= {"embedding_source": "audio" if "clip_sha256" in found else "direct",
              "embedding_dim": int(found["embedding_dim"])}  # fmt: skip
    if transcript := found.get("transcript"):
        entry["ref_text"] = transcript
    if description := found.get("source", ""):
        entry["speaker_description"] = description
    return entry


def clip_size(found: dict[str, str], otherwise: int) -> int:
    """Bytes of the clip that a voice was made from, where its file says so."""
    kept = found.get("file_size", "")
    return int(kept) if re.fullmatch("[0-9]{1,12}", kept) else otherwise


async def plain(send: Send, status: int, text: bytes, media: bytes = b"text/plain; charset=utf-8") -> None:
    """A short answer."""
    headers = [(b"content-type", media), (b"content-length", str(len(text)).encode()), (b"cache-control", b"no-store")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": text})


async def health(state: ServerState, scope: Scope, receive: Receive, send: Send) -> None:
    """GET /health: 503 when an engine's thread is dead or stuck."""
    healthy = state.models.healthy
    await plain(send, 200 if healthy else 503, b"ok\n" if healthy else b"unhealthy\n")


async def ready(state: ServerState, scope: Scope, receive: Receive, send: Send) -> None:
    """GET /ready: 503 before the models of the start are warm, while draining, and when an engine has failed."""
    good = state.models.warm and not state.draining and state.models.healthy
    await plain(send, 200 if good else 503, b"ready\n" if good else b"not ready\n")


async def show_page(state: ServerState, scope: Scope, receive: Receive, send: Send) -> None:
    """GET /: the page, with a fresh nonce."""
    body, given = page()
    headers = [(name.lower().encode(), value.encode()) for name, value in given.items()]
    headers.append((b"content-length", str(len(body)).encode()))
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})


async def prometheus(state: ServerState, scope: Scope, receive: Receive, send: Send) -> None:
    """GET /metrics: the text format."""
    await plain(send, 200, state.metrics.text(state), b"text/plain; version=0.0.4; charset=utf-8")
