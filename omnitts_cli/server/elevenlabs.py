"""ElevenLabs' shape: POST /v1/text-to-speech/VOICE[/stream] and GET /v1/voices, for programs that know nothing else.

Its fields are in the table of all fields; the voice is in the path, and the format of the sound in the query.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs

from omnitts_cli.server.body import Receive, Scope, Send, read_json
from omnitts_cli.server.catalogue import Voices
from omnitts_cli.server.speech import SpeechEndpoint
from omnitts_cli.server.state import ServerState

FORMAT = "mp3_44100_128"  # the default there


@dataclass
class TextToSpeech(SpeechEndpoint):
    """POST /v1/text-to-speech/VOICE, and with /stream the sound as it is made."""

    streamed: bool = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request."""
        values = await read_json(scope, receive)
        form = parse_qs(scope["query_string"].decode("latin-1")).get("output_format", [""])[-1]
        values["voice_id"] = scope["path_params"]["voice"]
        values["output_format"] = form or values.get("output_format") or FORMAT
        values |= {"stream": self.streamed, "stream_format": "audio" if self.streamed else None}
        await self.answer(values, scope, receive, send)


@dataclass
class ListVoices:
    """GET /v1/voices"""

    state: ServerState

    async def __call__(self, scope: Scope, receive: Receive) -> dict[str, Any]:
        """The voices of the loaded models and the saved ones."""
        found = await Voices(self.state).found()
        saved = {entry["name"] for entry in found["uploaded_voices"]}
        return {"voices": [entry_of(voice, voice["name"] in saved) for voice in found["data"]], "has_more": False}


def entry_of(voice: dict[str, Any], saved: bool) -> dict[str, Any]:
    """A voice in ElevenLabs' words."""
    language = voice.get("language")
    return {
        "voice_id": voice["id"], "name": voice["name"], "category": "cloned" if saved else "premade",
        "description": voice.get("about"), "labels": {"language": language} if language else {}, "preview_url": None,
    }  # fmt: skip
