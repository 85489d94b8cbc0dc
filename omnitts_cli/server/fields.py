"""Fields: a JSON request for speech, checked, in the words of `speech/`.

A field that OpenAI defines means what OpenAI says, any other what vLLM-Omni says; `stream: true` alone means raw audio.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from omnitts_cli.errors import OmniError
from omnitts_cli.server.problems import Problem, invalid
from omnitts_cli.settings.setting import Kind, fields_of, nearest, number, whole
from omnitts_cli.settings.table import Speech, TextIn
from omnitts_cli.text.language import language_code

FORMATS = ("mp3", "wav", "pcm", "flac", "opus", "ogg", "aac", "pcm_f32")
TASKS = {"customvoice": "named", "base": "cloned", "voicedesign": "designed"}
LONGEST_STYLE = 2000
MOST_FRAMES = 24_000
LONGEST_NAME = 200
MOST_SHOWN = 60  # characters of a wrong value

OURS = {f.name: f.setting.kind for group in (TextIn, Speech) for f in fields_of(group)}
KINDS: dict[str, Kind] = {
    "speed": number(0.25, 4),
    "seed": OURS["seed"],
    "max_new_tokens": whole(1, MOST_FRAMES),
    "initial_codec_chunk_frames": whole(1, 100),
    "sample_rate": whole(8000, 192_000),
    **{
        name: OURS[name]
        for name in (
            "temperature",
            "top_k",
            "top_p",
            "repetition_penalty",
            "loudness",
            "volume",
            "split",
            "normalize",
            "sentence_gap",
            "paragraph_gap",
            "input_format",
            "retries",
            "text_mode",
            "safe",
        )
    },
}
"""Fields with the rules of the option of that name."""
SPEECH = ("speed", "seed", "temperature", "top_k", "top_p", "repetition_penalty", "loudness", "volume", "retries",
          "text_mode", "safe")  # fmt: skip
TEXT = ("split", "normalize", "sentence_gap", "paragraph_gap", "input_format")
ACCEPTED = ("initial_codec_chunk_frames",)
"""Fields of other servers that change nothing here."""


@dataclass(frozen=True)
class Clip:
    """The clip to clone: a data URL, base64, or an https URL; and what is said in it."""

    source: str
    transcript: str | None


@dataclass(frozen=True)
class Asked:
    """A request for speech. None: the server's choice."""

    text: str
    model: str | None = None
    voice: str | None = None
    form: str = "mp3"
    task: str | None = None  # named, cloned or designed
    clip: Clip | None = None
    whole: bool = False  # answer when everything is made
    sse: bool = False
    sentences: bool = False  # report the times of sentences
    words: bool = False  # and of their words
    sample_rate: int | None = None
    ignore_end: bool = False
    lexicon: tuple[tuple[str, str], ...] = ()
    how: TextIn = field(default_factory=TextIn)
    speech: Speech = field(default_factory=Speech)
    ignored: tuple[str, ...] = ()
    prepared: bool = False  # from `--via`: one piece, split and normalised already; the command retries it
    urgent: bool = True  # a client is waiting for the first sound

    @property
    def describes(self) -> bool:
        """Whether the instructions describe the voice."""
        return self.task == "designed"


def asked_of(values: Mapping[str, Any], most_chars: int, *, live: bool = False) -> Asked:
    """The request in a JSON object. With `live` its text arrives later."""
    reader = Reader(values)
    text = "" if live else reader.text(most_chars)
    form = reader.one_of("response_format", FORMATS, "mp3")
    sse = reader.one_of("stream_format", ("audio", "sse"), "audio") == "sse"
    stream = reader.switch("stream")
    clip = reader.clip()
    task = reader.task()
    times = reader.one_of("timestamps", ("sentence", "word", "none"), "none")
    speech = {name: value for name in SPEECH if (value := reader.number(name)) is not None}
    style = reader.string("instructions", LONGEST_STYLE)
    mode = reader.switch("non_streaming_mode")
    if mode is not None:
        speech["text_mode"] = "whole" if mode else "streamed"
    how = {name: value for name in TEXT if (value := reader.number(name)) is not None}
    if how.get("input_format") == "epub":
        raise invalid("input_format", "an EPUB book is a file, not text")
    ignore_end = bool(reader.switch("ignore_eos"))
    if ignore_end:  # a fixed length, for benchmarks
        how["split"] = "none"
    asked = Asked(
        text=text,
        model=reader.string("model", LONGEST_NAME),
        voice=reader.voice(),
        form=form,
        task=task or ("cloned" if clip else None),
        clip=clip,
        whole=stream is False and not sse,
        sse=sse,
        sentences=times != "none",
        words=times == "word",
        sample_rate=reader.number("sample_rate"),
        ignore_end=ignore_end,
        lexicon=reader.lexicon(),
        prepared=bool(reader.switch("prepared")),
        urgent=reader.switch("urgent") is not False,
        how=TextIn(**how),
        speech=Speech(**speech, language=reader.language(), style=style, max_frames=reader.number("max_new_tokens")),
    )
    return checked(replace(asked, ignored=reader.ignored()), stream)


def checked(asked: Asked, stream: bool | None) -> Asked:
    """The request, if its fields go together."""
    if asked.speech.loudness != "off":  # it needs the whole sound
        if stream or asked.sse:
            raise invalid("loudness", "loudness needs the whole sound, so it cannot be used with streaming")
        asked = replace(asked, whole=True)
    if asked.describes and not asked.prepared and not (asked.speech.style or "").strip():
        raise invalid("instructions", "VoiceDesign needs a description of the voice in instructions")
    if asked.clip and asked.task != "cloned":
        raise invalid("task_type", "ref_audio is for task_type Base")
    if asked.ignore_end and asked.speech.max_frames is None:
        raise invalid("ignore_eos", "ignore_eos needs max_new_tokens")
    return asked


def shown(value: object) -> str:
    """The beginning of a value of a request, for a message."""
    text = json.dumps(value)
    return text if len(text) <= MOST_SHOWN else text[:MOST_SHOWN] + " ..."


class Reader:
    """Takes fields out of a JSON object and remembers which."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values
        self._known: set[str] = set()

    def _take(self, name: str) -> Any:
        self._known.add(name)
        return self._values.get(name)

    def ignored(self) -> tuple[str, ...]:
        """Unknown fields, and known ones without effect."""
        without = [name for name in ACCEPTED if self.number(name) is not None]
        return (*without, *(name for name in self._values if name not in self._known))

    def text(self, most: int) -> str:
        """The text to speak."""
        text = self._take("input")
        if not isinstance(text, str):
            missing = "input is missing" + "; the text belongs in input" * ("text" in self._values)
            raise invalid("input", missing if text is None else "input is not a string")
        if len(text) > most:
            raise invalid("input", f"input has {len(text):,} characters; at most {most:,} are allowed")
        return text

    def string(self, name: str, longest: int) -> str | None:
        """A string, or None."""
        value = self._take(name)
        if value is None:
            return None
        if not isinstance(value, str) or len(value) > longest:
            raise invalid(name, f"{name} is not a string of at most {longest:,} characters")
        return value

    def switch(self, name: str) -> bool | None:
        """True, false or None."""
        value = self._take(name)
        if value is not None and not isinstance(value, bool):
            raise invalid(name, f"{name} = {shown(value)} is not true or false")
        return value

    def one_of(self, name: str, words: tuple[str, ...], default: str) -> str:
        """One of several words."""
        value = self._take(name)
        if value is None:
            return default
        if not isinstance(value, str) or value.lower() not in words:
            raise invalid(name, f"{name} = {shown(value)} is not one of {', '.join(words)}")
        return value.lower()

    def number(self, name: str) -> Any:
        """A field of KINDS, or None."""
        value, kind = self._take(name), KINDS[name]
        if value is None:
            return None
        if isinstance(value, float) and value.is_integer() and not kind.accepts(value):
            value = int(value)
        if not kind.accepts(value):
            raise invalid(name, f"{name} = {shown(value)} is not {kind.words}")
        return value

    def voice(self) -> str | None:
        """The name of a voice, alone or as {"id": name}."""
        value = self._take("voice")
        if isinstance(value, dict):
            value = value.get("id") or ""
        if value is not None and (not isinstance(value, str) or not 0 < len(value) <= LONGEST_NAME):
            raise invalid("voice", 'voice is neither a name nor {"id": name}')
        return value

    def task(self) -> str | None:
        """What the task type says about the kind of voice."""
        value = self._take("task_type")
        if value is None:
            return None
        word = value.lower().replace("_", "") if isinstance(value, str) else ""
        if word not in TASKS:
            raise invalid("task_type", f"task_type = {shown(value)} is not one of CustomVoice, Base, VoiceDesign")
        return TASKS[word]

    def language(self) -> str:
        """A code, auto or detect."""
        value = self.string("language", LONGEST_NAME)
        if value is None or value.lower() == "detect":
            return (value or "auto").lower()
        try:
            return language_code(value, "detect") or "auto"
        except OmniError as error:
            raise invalid("language", error.message, error.hint) from None

    def clip(self) -> Clip | None:
        """The clip to clone."""
        source, text = self._take("ref_audio"), self.string("ref_text", 10_000)
        only = bool(self.switch("x_vector_only_mode"))
        if source is None:
            if text is not None or only:
                raise invalid("ref_audio", "ref_text and x_vector_only_mode need ref_audio")
            return None
        if not isinstance(source, str) or not source:
            raise invalid("ref_audio", "ref_audio is not a data URL, base64, or an https URL")
        return Clip(source, None if only or not (text or "").strip() else text)

    def lexicon(self) -> tuple[tuple[str, str], ...]:
        """Words and how to speak them, as an object."""
        value = self._take("lexicon")
        if value is None:
            return ()
        if not isinstance(value, dict) or not all(w.strip() and isinstance(s, str) for w, s in value.items()):
            raise invalid("lexicon", "lexicon is not an object of words and spoken forms")
        return tuple((word.strip(), spoken) for word, spoken in value.items())


def nearest_of(word: str, known: list[str]) -> str:
    """A hint with the nearest known word, or with the first of them."""
    close = nearest(word.lower(), known)
    return f"did you mean '{close}'?" if close else "known: " + ", ".join(list(dict.fromkeys(known))[:20])


def unknown(status: int, what: str, name: str, known: list[str]) -> Problem:
    """404 or 400 for a name."""
    code = f"{what}_not_found" if status == 404 else "invalid_value"
    return Problem(status, f"{what} '{name[:80]}' not found", code=code, param=what, hint=nearest_of(name, known))
