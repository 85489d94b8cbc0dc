"""Cast: which voice speaks, from what the person typed and what the model can."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from omnitts_cli.errors import UsageError, VoiceError
from omnitts_cli.settings.kinds import nearest
from omnitts_cli.speech import voice_files
from omnitts_cli.terminal.console import console

POLL_S = 0.25

if TYPE_CHECKING:
    from omnitts_cli.models.roles import SpeechModel
    from omnitts_cli.speech.script import Script
    from omnitts_cli.speech.voice_files import SavedVoice
    from omnitts_cli.voices import Voice


def saved_voice(name: str | None) -> SavedVoice | None:
    """The saved voice, file or blend behind -v; None where only the model can know the name.

    Looked up before a model is opened, because a saved voice brings its own model along.
    """
    if name is None:
        return None
    if ":" in name or "," in name:
        return voice_files.blend(voice_files.load_parts(voice_files.parse_blend(name)), name)
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
    if Path(name).is_file():
        raise VoiceError(f"{name} is a file and no voice", hint=f'omnitts clone -r {name} "text" speaks like a clip')
    known = [*model.speakers, *voice_files.names()]
    close = nearest(name.lower(), known)
    hint = "omnitts voices list" + (f"      (closest: '{close}')" if close else "")
    raise VoiceError(f"voice '{name}' not found", cause=f"{model.name} has {listed(model)}", hint=hint)


def listed(model: SpeechModel) -> str:
    return ", ".join(model.speakers) if model.speakers else "no voices of its own"


def require(kind: str, model: SpeechModel) -> None:
    """Whether the model speaks with voices of that kind at all."""
    if kind not in model.kinds:
        able = {"cloned": "clone; -m 0.6b and -m 1.7b", "designed": "design a voice from words; -m 1.7b"}[kind]
        what, _, others = able.partition("; ")
        raise UsageError(f"{model.name} cannot {what}", hint=f"{others} can")


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


def language_of(code: str, script: Script, model: SpeechModel) -> tuple[str | None, str | None]:
    """The model's word for the language, None to leave the choice to the model; and the code of the text's.

    Only `detect` passes on what the text looks like; but a language that the model lacks is refused
    either way, before it is babbled.
    """
    from omnitts_cli.text.language import LANGUAGES

    if code in ("auto", "detect"):
        seen = looks_like(script, patient=code == "detect")
        if seen is None:
            return None, None
        refuse_foreign(LANGUAGES[seen], model)
        return (LANGUAGES[seen] if code == "detect" else None), seen
    refuse_foreign(LANGUAGES[code], model)
    return LANGUAGES[code], code


def code_of(language: str | None, model: SpeechModel) -> str:
    """The code of the language that is spoken; auto where the model chose among several, and does not tell."""
    from omnitts_cli.text.language import LANGUAGES

    if language is None and len(model.languages) == 1:
        language = next(iter(model.languages))
    return next((code for code, name in LANGUAGES.items() if name == language), "auto")


def looks_like(script: Script, *, patient: bool) -> str | None:
    """The code of the language that the first piece is in; None where that is not clear.

    Who did not ask is not refused by a guess that may be wrong.
    """
    from omnitts_cli.text.language import CERTAIN, FLOOR, detect

    first = script.peek(0.0)
    while first is None and patient and not script.ended:
        first = script.peek(POLL_S)
    guess = detect(first.text) if first is not None else None
    floor = CERTAIN if guess is not None and guess.script == "latin" and not patient else FLOOR
    if guess is None or guess.language is None or guess.confidence < floor:
        if patient:
            console.note("the language of the text is not clear; the model decides")
        return None
    return guess.language


def refuse_foreign(language: str, model: SpeechModel) -> None:
    if language not in model.languages:
        raise UsageError(
            f"{model.name} does not speak {language}",
            cause="it speaks " + ", ".join(model.languages),
            hint="-m 0.6b or -m 1.7b speak ten languages",
        )
