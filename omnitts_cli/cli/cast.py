"""Cast: which voice speaks, from what the person typed and what the model can."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from omnitts_cli import voice_files
from omnitts_cli.errors import UsageError, VoiceError
from omnitts_cli.presets import nearest

if TYPE_CHECKING:
    from omnitts_cli.models.roles import SpeechModel
    from omnitts_cli.voice_files import SavedVoice
    from omnitts_cli.voices import Voice


def saved_voice(name: str | None) -> SavedVoice | None:
    """The saved voice, file or blend behind -v; None where only the model can know the name.

    Looked up before a model is opened, because a saved voice brings its own model along.
    """
    if name is None:
        return None
    if ":" in name or "," in name:
        parts = voice_files.parse_blend(name)
        return voice_files.blend([(voice_files.load(part), weight) for part, weight in parts], name)
    if name.endswith(voice_files.SUFFIX):
        return voice_files.read(Path(name))
    return voice_files.load(name) if name in voice_files.names() else None


def named_voice(name: str | None, model: SpeechModel) -> Voice:
    """A voice of the model by name; without one its first."""
    from omnitts_cli.voices import Named

    if name is None:
        return Named(next(iter(model.speakers), ""))
    if name.lower() in (speaker.lower() for speaker in model.speakers):
        return Named(name)
    known = [*model.speakers, *voice_files.names()]
    close = nearest(name.lower(), known)
    hint = "omnitts voices list" + (f"      (closest: '{close}')" if close else "")
    raise VoiceError(f"voice '{name}' not found", cause=f"{model.name} has {listed(model)}", hint=hint)


def listed(model: SpeechModel) -> str:
    return ", ".join(model.speakers) if model.speakers else "no voices of its own"


def check_match(saved: SavedVoice, model: SpeechModel) -> None:
    """A voice speaks only through the model that it was made with."""
    width = saved.voice.embedding.size
    if width != model.facts.hidden and "cloned" in model.kinds:
        made = saved.about.get("model", "another model")
        raise VoiceError(
            f"voice '{saved.name}' was made with {made}; {model.name} cannot speak it",
            cause=f"its vector has {width} numbers, the model takes {model.facts.hidden}",
            hint=f"-m {made}" if saved.about.get("model") else "make the voice again with this model",
        )


def language_of(code: str, model: SpeechModel) -> str | None:
    """The model's word for a language code; None leaves the choice to the model."""
    from omnitts_cli.cli.options import LANGUAGES

    if code == "auto":
        return None
    language = LANGUAGES[code]
    if language not in model.languages:
        able = ", ".join(short for short, long in LANGUAGES.items() if long in model.languages)
        raise UsageError(
            f"{model.name} does not speak {language}", cause=f"it speaks {able}", hint="-m 1.7b speaks ten languages"
        )
    return language
