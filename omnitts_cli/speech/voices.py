"""Voices: named, saved, blended, cloned or designed. Unknown voices and languages are refused here."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING

from omnitts_cli.errors import Notice, UsageError, VoiceError
from omnitts_cli.settings.setting import nearest
from omnitts_cli.speech import voice_files
from omnitts_cli.speech.script import Script
from omnitts_cli.speech.voice_files import SavedVoice
from omnitts_cli.text.language import CERTAIN, FLOOR, LANGUAGES, codes_of, detect, likeliest
from omnitts_cli.text.reading import Read
from omnitts_cli.voices import Adapter, Cloned, Designed, Named

if TYPE_CHECKING:
    from omnitts_cli.models.roles import SpeechModel

POLL_S = 0.25
SURE_WORDS = 4
"""A shorter text says too little about its language."""


@dataclass(frozen=True, eq=False, repr=False)
class Voice:
    """Who speaks. `about` holds the fields of a voice file; a designed voice keeps its seed."""

    identity: Named | Cloned | Designed
    name: str = ""
    about: Mapping[str, str] = field(default_factory=dict)
    seed: int | None = None
    clip: bytes | None = None  # FLAC; kept where a later version of the model needs it to make the voice again
    adapter: Adapter | None = None  # of a tuned voice: only a model into which it was merged speaks it

    def __repr__(self) -> str:
        kind = type(self.identity).__name__.lower()
        words = self.identity.description if isinstance(self.identity, Designed) else self.name
        return f"<Voice: {kind}{f' {words!r}' if words else ''}>"

    def save(self, name: str, *, replace: bool = False, consent: str | None = None) -> Path:
        """Saves a cloned voice for `voice=name` and `omnitts say -v NAME`. Returns the path of its file."""
        if not isinstance(self.identity, Cloned):
            what = "a designed voice" if isinstance(self.identity, Designed) else "a voice of the model"
            hint = 'tts.clone(tts.speak("some sentences", voice=voice)).save(name)'
            raise UsageError(f"{what} has no clip to save", hint=hint)
        about = {**self.about, "made": time.strftime("%Y-%m-%d", time.gmtime()), "consent": consent or ""}
        about = {key: value for key, value in about.items() if value}
        kept = voice_files.SavedVoice(name, self.identity, about, self.clip, self.adapter)
        return voice_files.save(kept, replace=replace)


VoiceLike = str | PathLike[str] | Voice


def saved_voice(name: str | None) -> Voice | None:
    """The saved voice, the voice file or the blend of that name; None where only the model can know it.

    A saved voice names its model, so it is looked up before a model is opened.
    """
    if name is None:
        return None
    if voice_files.is_blend(name):
        parts = voice_files.parse_blend(name)
        if not {part for part, _ in parts} <= {*voice_files.names()}:
            return None
        found = voice_files.blend(voice_files.load_parts(parts), name)
    elif name.endswith(voice_files.SUFFIX):
        found = voice_files.read(Path(name))
    elif name in voice_files.names():
        found = voice_files.load(name)
    else:
        return None
    return Voice(found.voice, found.name, found.about, clip=found.clip, adapter=found.adapter)


def voice_for(voice: VoiceLike | None, model: SpeechModel) -> Voice:
    """The voice, if this model supports it. None: the model's first voice."""
    if isinstance(voice, PathLike):
        voice = fspath(voice)
    if isinstance(voice, str):
        own = blended_voice if voice_files.is_blend(voice) else named_voice
        voice = saved_voice(voice) or own(voice, model)
    elif voice is None:
        voice = named_voice(None, model)
    elif not isinstance(voice, Voice):
        raise UsageError(f"voice = {voice!r} is not a name, a path or a Voice", hint="tts.voices lists the names")
    if isinstance(voice.identity, Cloned):
        check_match(voice, voice.identity, model)
    elif isinstance(voice.identity, Designed):
        require("designed", model)
    return voice


def named_voice(name: str | None, model: SpeechModel) -> Voice:
    """A voice of the model by name; without one its first."""
    if name is None:
        first = next(iter(model.speakers), "")
        return Voice(Named(first), first)
    return known_voice(name, model.speakers, model.name)


def known_voice(name: str, speakers: Mapping[str, str], model: str) -> Voice:
    """One of the voices of the model called `model`."""
    if name.lower() in (speaker.lower() for speaker in speakers):
        return Voice(Named(name), name)
    if Path(name).is_file():
        raise VoiceError(f"{name} is an audio file, not a voice", hint=f'omnitts clone -r {name} "text"')
    close = nearest(name.lower(), [*speakers, *voice_files.names()])
    hint = f"did you mean '{close}'? All voices: omnitts voices list" if close else "omnitts voices list"
    raise VoiceError(f"voice '{name}' not found", cause=f"{model} has {listed(speakers)}", hint=hint)


def blended_voice(name: str, model: SpeechModel) -> Voice:
    """A blend in which voices of the model take part."""
    found = voice_files.blend(parts_of_blend(voice_files.parse_blend(name), model), name)
    return Voice(found.voice, found.name, found.about)


def parts_of_blend(parts: Sequence[tuple[str, float]], model: SpeechModel) -> list[tuple[SavedVoice, float]]:
    """The voices of a blend: saved ones, and the model's own."""

    def own(name: str) -> SavedVoice | None:
        known_voice(name, model.speakers, model.name)
        return own_voice(model, name)

    return voice_files.load_parts(parts, own)


def own_voice(model: SpeechModel, name: str) -> SavedVoice | None:
    """A voice of the model as one that could be saved; None where it has no such voice, or cannot clone."""
    if model.vector_of is None or name.lower() not in (speaker.lower() for speaker in model.speakers):
        return None
    about = {"model": model.name, "revision": model.sha256 or "", "source": f"voice of {model.name}"}
    return SavedVoice(name, Cloned(model.vector_of(name)), {k: v for k, v in about.items() if v})


def listed(speakers: Mapping[str, str]) -> str:
    """A model's voices, for messages."""
    return ", ".join(speakers) if speakers else "no voices of its own"


def require(kind: str, model: SpeechModel) -> None:
    """Whether the model speaks with voices of that kind at all."""
    if kind not in model.kinds:
        able = {"cloned": "clone a voice; -m 0.6b   or   -m 1.7b", "designed": "design a voice; -m 1.7b"}[kind]
        what, _, others = able.partition("; ")
        raise UsageError(f"{model.name} cannot {what}", hint=others)


def check_match(voice: Voice, cloned: Cloned, model: SpeechModel) -> None:
    """A cloned voice speaks only through the model that it was made with.

    Our own model has an encoder of its own in each version, so there the sum of the weights counts too.
    """
    width, made = cloned.embedding.size, voice.about.get("model", "another model")
    name = voice.name if voice.name in voice_files.names() else "NAME"
    renew = (
        f"omnitts voices renew {name}{f' -m {model.name}' * (made != model.name)}   makes the voice again from its clip"
    )
    if width != model.facts.hidden and "cloned" in model.kinds:
        if made == model.name:
            raise VoiceError(
                f"voice '{voice.name}' was made with another version of {model.name}",
                cause=f"its embedding has {width} values; the model needs {model.facts.hidden}",
                hint=renew,
            )
        raise VoiceError(
            f"voice '{voice.name}' was made for {made}; {model.name} cannot use it",
            cause=f"its embedding has {width} values; the model needs {model.facts.hidden}",
            hint=f"-m {made}"
            if voice.about.get("model")
            else "omnitts voices save   with this model makes the voice again",
        )
    refuse_other_adapter(voice, model)
    made_with = voice.about.get("revision")
    if model.plain_letters and made_with and model.sha256 and made_with != model.sha256:
        raise VoiceError(
            f"voice '{voice.name}' was made with another version of {model.name}",
            cause=f"the checksum of the weights was {made_with[:12]}…, now it is {model.sha256[:12]}…",
            hint=renew,
        )


def refuse_other_adapter(voice: Voice, model: SpeechModel) -> None:
    """A tuned voice speaks only through the model that was opened for it."""
    if voice.adapter is not None and voice.adapter.sha256 != model.adapter:
        raise VoiceError(
            f"voice '{voice.name}' is tuned, and {model.name} was opened without it",
            hint=f'omnitts say -v {voice.name}   or   omnitts.load(voice="{voice.name}")',
        )


class Foreign:
    """Tells, once a language, that a model of plain letters reads a text in another language as its own."""

    def __init__(self, model: SpeechModel, tell: Callable[[Notice], None]) -> None:
        self._model, self._tell = model, tell
        self._told: set[str] = set()

    def lacks(self, code: str) -> bool:
        """Whether the language of this code is such a one. The notice goes out the first time."""
        if not self._model.plain_letters or LANGUAGES[code] in self._model.languages:
            return False
        if code not in self._told:
            self._told.add(code)
            *others, last = map(str.title, self._model.languages)
            does = f"speaks {', '.join(others)} and {last} only" if others else f"reads it as {last}"
            what = f"the text looks like {LANGUAGES[code].title()}; {self._model.name} {does}"
            self._tell(Notice(what, hint="-m 0.6b   or   -m 1.7b"))
        return True

    def watched(self, read: Read | None) -> Read | None:
        """The same reader; it looks at the language of each text first, as a pipe may turn to another one."""
        if read is None or not self._model.plain_letters:
            return read

        def watching(text: str) -> str:
            guess = detect(text) if text.count(" ") >= SURE_WORDS - 1 and not text.isupper() else None
            if guess is not None and guess.language is not None and guess.confidence >= CERTAIN:
                self.lacks(guess.language)
            return read(text)

        return watching


def language_of(
    code: str, script: Script, model: SpeechModel, tell: Callable[[Notice], None]
) -> tuple[str | None, str | None, Foreign]:
    """The model's name for the language, or None to let the model choose; the code of the text's language; and what
    watches for texts in other ones.

    Only `detect` passes the detected language on; but with `auto` too, a language that the model lacks is refused,
    unless it reads plain letters: then it speaks what it can read. A model of plain letters that has several languages
    needs one, by whose rules letters become sounds: that of the first piece.
    """
    foreign = Foreign(model, tell)
    if code in ("auto", "detect"):
        seen = looks_like(script, tell, patient=code == "detect")
        unspoken = code == "auto" and seen is not None and foreign.lacks(seen)
        if one_of_several(model) and (seen is None or unspoken):
            first = script.peek(0.0)
            seen = name_code(likely_language(first.text if first else "", model))
        elif seen is None or unspoken:
            return None, None, foreign
        refuse_foreign(LANGUAGES[seen], model, detected=True)
        return (LANGUAGES[seen] if one_of_several(model) or code == "detect" else None), seen, foreign
    refuse_foreign(LANGUAGES[code], model)
    return LANGUAGES[code], code, foreign


def one_of_several(model: SpeechModel) -> bool:
    """Whether letters become sounds by the rules of one language of several, which must be known."""
    return model.plain_letters and len(model.languages) > 1


def likely_language(text: str, model: SpeechModel) -> str:
    """The model's name for the language that a text is most likely in, of those that it speaks."""
    return LANGUAGES[likeliest(text, codes_of(model.languages), "en")]


def code_of(language: str | None, model: SpeechModel) -> str:
    """The code of the language that is spoken; auto where the model chose among several, and does not say which."""
    if language is None and len(model.languages) == 1:
        language = next(iter(model.languages))
    return name_code(language)


def name_code(language: str | None) -> str:
    """The code of a language; auto for None."""
    return next((code for code, name in LANGUAGES.items() if name == language), "auto")


def looks_like(script: Script, tell: Callable[[Notice], None], *, patient: bool) -> str | None:
    """The code of the language that the first piece is in; None where that is not clear.

    Never fails on a guess unless the user asked for detection.
    """
    first = script.peek(0.0)
    while first is None and patient and not script.ended:
        first = script.peek(POLL_S)
    if first is not None and first.language:
        return first.language
    guess = detect(first.text) if first is not None else None
    floor = CERTAIN if guess is not None and guess.script == "latin" and not patient else FLOOR
    if guess is None or guess.language is None or guess.confidence < floor:
        if patient:
            tell(Notice("cannot detect the language of the text; the model decides", plain=True))
        return None
    return guess.language


def refuse_foreign(language: str, model: SpeechModel, *, detected: bool = False) -> None:
    """Raise UsageError for a language that the model does not speak. `detected`: nothing but the text shows it."""
    if language not in model.languages:
        error = UsageError(
            f"{model.name} does not support {language.title()}",
            cause="it speaks " + ", ".join(map(str.title, model.languages)),
            hint="-m 0.6b   or   -m 1.7b",
        )
        error.param = "input" if detected else "language"
        raise error
