"""Speech from text: `import omnitts_cli as omnitts`, `omnitts.load("tiny").speak("Hello.").save("hello.wav")`.

Importing this costs next to nothing; the heavy parts are imported with the first name that needs them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from omnitts_cli.errors import Notice, OmniError
    from omnitts_cli.speech.assistant import Assistant, load_assistant
    from omnitts_cli.speech.clip import Chunk, Clip
    from omnitts_cli.speech.reply import Answer
    from omnitts_cli.speech.speaking import Stream
    from omnitts_cli.speech.tts import TTS, load
    from omnitts_cli.speech.voices import Voice
    from omnitts_cli.tuning.run import Tuned, tune

__all__ = [
    "TTS", "Answer", "Assistant", "Chunk", "Clip", "Notice", "OmniError", "Stream", "Tuned", "Voice", "load",
    "load_assistant", "tune",
]  # fmt: skip

_PLACES = {
    "TTS": "speech.tts",
    "Answer": "speech.reply",
    "Assistant": "speech.assistant",
    "load_assistant": "speech.assistant",
    "Chunk": "speech.clip",
    "Clip": "speech.clip",
    "Notice": "errors",
    "OmniError": "errors",
    "Stream": "speech.speaking",
    "Tuned": "tuning.run",
    "Voice": "speech.voices",
    "load": "speech.tts",
    "tune": "tuning.run",
}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
