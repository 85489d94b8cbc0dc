"""Asked: a JSON request for speech, checked with the table of fields, as the types of `speech/`."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from omnitts_cli.errors import OmniError
from omnitts_cli.server.fields import FASTEST, FIELDS, KINDS, PARTLY, SLOWEST, TABLE
from omnitts_cli.server.problems import invalid, shown
from omnitts_cli.settings.table import Speech, TextIn
from omnitts_cli.text.language import language_code

SPEECH = ("speed", "seed", "temperature", "top_k", "top_p", "repetition_penalty", "loudness", "volume", "retries",
          "text_mode", "safe")  # fmt: skip
TEXT = ("split", "normalize", "unreadable", "sentence_gap", "paragraph_gap", "input_format")
WITHOUT_LENGTH = ("flac",)
"""Formats whose common readers need the length in the header, which a stream cannot have: whole unless streaming is
asked for."""
TAGS = re.compile(r"\[(?:voice|rate):", re.IGNORECASE)
MAPPED = [one for one in FIELDS if one.use == "mapped"]


@dataclass(frozen=True)
class RequestedClip:
    """The clip to clone: a data URL, base64, or an https URL; and its transcript."""

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
    clip: RequestedClip | None = None
    vector: np.ndarray | None = None  # a voice as its values
    whole: bool = False  # answer when everything is made
    sse: bool = False
    chunks: bool = False  # with the events of SGLang-Omni
    sentences: bool = False  # report the times of sentences
    words: bool = False  # and of their words
    sample_rate: int | None = None
    ignore_end: bool = False
    lexicon: tuple[tuple[str, str], ...] = ()
    how: TextIn = field(default_factory=TextIn)
    speech: Speech = field(default_factory=Speech)
    ignored: tuple[str, ...] = ()
    sent: Mapping[str, str] = field(default_factory=dict)  # a field -> the one that the client sent for it
    prepared: bool = False  # from `--via`: one piece, split and normalised already; the command retries it
    urgent: bool = True  # a client is waiting for the first sound

    @property
    def describes(self) -> bool:
        """Whether the instructions describe the voice."""
        return self.task == "designed"


def asked_of(values: Mapping[str, Any], most_chars: int, *, live: bool = False) -> Asked:
    """The request in a JSON object. With `live` its text arrives later."""
    reader = FieldReader(values)
    text = "" if live else reader.text(most_chars)
    stream, events = reader.take("stream"), reader.word("stream_format")
    form = reader.word("response_format") or "mp3"
    sse = events == "sse" or (bool(stream) and events is None)
    clip, vector = reader.clip(), reader.vector()
    times = reader.word("timestamps") or "none"
    ignore_end = bool(reader.take("ignore_eos"))
    asked = Asked(
        text=text,
        model=reader.take("model"),
        voice=reader.voice(),
        form=form,
        task=reader.task() or ("cloned" if clip or vector is not None else None),
        clip=clip,
        vector=vector,
        whole=not sse and (stream is False or (form in WITHOUT_LENGTH and not stream and events is None)),
        sse=sse,
        chunks="references" in reader.given,
        sentences=times != "none",
        words=times == "word",
        sample_rate=reader.take("sample_rate"),
        ignore_end=ignore_end,
        lexicon=tuple((word.strip(), spoken) for word, spoken in (reader.take("lexicon") or {}).items()),
        prepared=bool(reader.take("prepared")),
        urgent=reader.take("urgent") is not False,
        sent=reader.sent,
        how=reader.how(ignore_end),
        speech=reader.speech(),
    )
    return checked(replace(asked, ignored=reader.ignored(asked)), bool(stream))


def checked(asked: Asked, stream: bool) -> Asked:
    """The request, if its fields go together."""
    if asked.speech.loudness != "off":  # it needs the whole sound
        if stream or asked.sse:
            raise invalid("loudness", "loudness needs the whole sound, so it cannot be used with streaming")
        asked = replace(asked, whole=True)
    if asked.describes and not asked.prepared and not (asked.speech.style or "").strip():
        raise invalid("instructions", "VoiceDesign needs a description of the voice in instructions")
    if asked.clip and asked.task != "cloned":
        raise invalid("task_type", "ref_audio is for task_type Base")
    if asked.vector is not None and asked.task != "cloned":
        raise invalid("task_type", "speaker_embedding is for task_type Base")
    if asked.ignore_end and asked.speech.max_frames is None:
        raise invalid("ignore_eos", "ignore_eos needs max_new_tokens")
    return asked


class FieldReader:
    """Takes fields out of a JSON object, checked and mapped, and remembers which. An empty string or null is absent."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self.given = {name: value for name, value in values.items() if present(name, value)}
        self.sent: dict[str, str] = {}  # the field that a value was mapped from
        self._taken: set[str] = set()
        self._partly: list[str] = []
        self._values = {name: TABLE[name].read(value) if name in TABLE else value for name, value in self.given.items()}
        for one in MAPPED:
            if one.name in self._values:
                self._map(one.name, self._values[one.name])

    def _map(self, name: str, value: Any) -> None:
        self._taken.add(name)
        self._partly += [f"{name}.{key}" for key in value if key not in PARTLY[name]] if name in PARTLY else []
        found = self._aliased(value) if (to := TABLE[name].to) is None else to(value)
        for target, meant in found.items():
            if meant is None:
                continue
            if target in self._values and not alike(self._values[target], meant) and name != "voice_aliases":
                raise invalid(name, f"{name} and {self.sent.get(target, target)} have different values")
            try:
                self._values[target] = TABLE[target].read(meant)
            except OmniError as error:
                raise invalid(name, error.message) from None
            self.sent.setdefault(target, name)

    def _aliased(self, aliases: Mapping[str, Any]) -> dict[str, Any]:
        """Kokoro's short names of voices, with a speed of their own."""
        name = named(self._values.get("voice", ""))
        found = next((meant for alias, meant in aliases.items() if alias.lower() == name.lower()), None)
        if found is None or not name:
            return {}
        voice, rate = (found.get("voice"), found.get("rate")) if isinstance(found, dict) else (found, None)
        if not isinstance(voice, str) or (rate is not None and not TABLE["speed"].kind.accepts(rate)):
            raise invalid("voice_aliases", f"voice_aliases: {shown(found)} has no voice, or a wrong rate")
        if rate is None:
            return {"voice": voice}
        speed = self._values.get("speed", 1.0) * rate
        return {"voice": voice, "speed": min(max(speed, SLOWEST), FASTEST)}

    def take(self, name: str) -> Any:
        """The value of a field, or None."""
        self._taken.add(name)
        return self._values.get(name)

    def word(self, name: str) -> str | None:
        """A word in lower case, or None."""
        value = self.take(name)
        return None if value is None else value.lower()

    def ignored(self, asked: Asked) -> tuple[str, ...]:
        """Unknown fields, and known ones without effect."""
        unused = [self.sent.get(name, name) for name in self._values if name not in self._taken]
        if asked.voice is not None and (asked.clip or asked.vector is not None or asked.describes):
            unused.append(self.sent.get("voice", "voice"))
        return (*unused, *self._partly)

    def text(self, most: int) -> str:
        """The text to speak."""
        text = self.take("input")
        if text is None:
            raise invalid("input", "input is missing")
        if len(text) > most:
            raise invalid("input", f"input has {len(text):,} characters; at most {most:,} are allowed")
        if self._values.get("allow_voice_tags") and TAGS.search(text):
            raise invalid(
                "allow_voice_tags", "tags of Kokoro-FastAPI such as [voice:NAME] and [rate:2] are not supported"
            )
        return str(text)

    def voice(self) -> str | None:
        """The name of a voice, alone or as {"id": name}."""
        return named(self.take("voice")) or None

    def task(self) -> str | None:
        """The kind of voice that the task type selects, or None."""
        value = self.take("task_type")
        return None if value is None else KINDS[value.lower().replace("_", "")]

    def language(self) -> str:
        """A code, auto or detect."""
        value = self.take("language")
        if value is None or value.lower() == "detect":
            return (value or "auto").lower()
        try:
            return language_code(value, "detect") or "auto"
        except OmniError as error:
            raise invalid(self.sent.get("language", "language"), error.message, error.hint) from None

    def clip(self) -> RequestedClip | None:
        """The clip to clone."""
        source, text, only = self.take("ref_audio"), self.take("ref_text"), bool(self.take("x_vector_only_mode"))
        if source is not None:
            return RequestedClip(source, None if only or not (text or "").strip() else text)
        if (text is not None or only) and "speaker_embedding" not in self._values:
            raise invalid("ref_audio", "ref_text and x_vector_only_mode need ref_audio")
        return None

    def vector(self) -> np.ndarray | None:
        """A voice as its values."""
        values = self.take("speaker_embedding")
        if values is None:
            return None
        for other in ("ref_audio", "ref_text"):
            if other in self._values:
                raise invalid("speaker_embedding", f"give speaker_embedding or {other}, not both")
        return np.array(values, np.float32)

    def how(self, ignore_end: bool) -> TextIn:
        """How the text is read and split."""
        found = {name: value for name in TEXT if (value := self.take(name)) is not None}
        if found.get("input_format") == "epub":
            raise invalid("input_format", "an EPUB book is a file, not text")
        if found.get("input_format") == "article":
            raise invalid("input_format", "this server does not look for the article of a page", "html")
        if ignore_end:  # a fixed length, for benchmarks
            found["split"] = "none"
        return TextIn(**found)

    def speech(self) -> Speech:
        """How it is spoken."""
        found = {name: value for name in SPEECH if (value := self.take(name)) is not None}
        if found.get("seed") == -1:
            del found["seed"]
        mode = self.take("non_streaming_mode")
        if mode is not None:
            found["text_mode"] = "whole" if mode else "streamed"
        style, most = self.take("instructions"), self.take("max_new_tokens")
        return Speech(**found, language=self.language(), style=style, max_frames=most)


def present(name: str, value: Any) -> bool:
    """Whether a field has a value."""
    return value is not None and (value != "" or name in ("input", "text"))


def named(value: Any) -> str:
    """The name in the value of `voice`."""
    return str(value.get("id", "") if isinstance(value, dict) else value or "")


def alike(one: Any, other: Any) -> bool:
    """Whether two fields have the same meaning."""
    return bool(one == other) or (named(one) == named(other) and isinstance(one, str | dict))
