"""ElevenLabs' shape: POST /v1/text-to-speech/VOICE[/stream] and GET /v1/voices, for programs that know nothing else.

Its fields are in the table of all fields; the voice is in the path, and the format of the sound in the query.
"""

from typing import Any
from urllib.parse import parse_qs

from omnitts_cli.server.body import Receive, Scope, Send, read_json
from omnitts_cli.server.catalogue import known_voices
from omnitts_cli.server.speech import answer
from omnitts_cli.server.state import ServerState

FORMAT = "mp3_44100_128"  # the default there


async def text_to_speech(
    state: ServerState, scope: Scope, receive: Receive, send: Send, *, streamed: bool = False
) -> None:
    """POST /v1/text-to-speech/VOICE"""
    values = await read_json(scope, receive)
    form = parse_qs(scope["query_string"].decode("latin-1")).get("output_format", [""])[-1]
    values["voice_id"] = scope["path_params"]["voice"]
    values["output_format"] = form or values.get("output_format") or FORMAT
    values |= {"stream": streamed, "stream_format": "audio" if streamed else None}
    await answer(state, values, scope, receive, send)


async def text_to_speech_stream(state: ServerState, scope: Scope, receive: Receive, send: Send) -> None:
    """POST /v1/text-to-speech/VOICE/stream: the sound as it is made."""
    await text_to_speech(state, scope, receive, send, streamed=True)


async def list_as_elevenlabs(state: ServerState, scope: Scope, receive: Receive, send: Send) -> dict[str, Any]:
    """GET /v1/voices: the voices of the loaded models and the saved ones."""
    found = await known_voices(state)
    saved = {entry["name"] for entry in found["uploaded_voices"]}
    return {"voices": [entry_of(voice, voice["name"] in saved) for voice in found["data"]], "has_more": False}


def entry_of(voice: dict[str, Any], saved: bool) -> dict[str, Any]:
    """A voice in ElevenLabs' words."""
    language = voice.get("language")
    return {
        "voice_id": voice["id"], "name": voice["name"], "category": "cloned" if saved else "premade",
        "description": voice.get("about"), "labels": {"language": language} if language else {}, "preview_url": None,
    }  # fmt: skip
