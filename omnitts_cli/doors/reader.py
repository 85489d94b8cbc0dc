"""What a screen reader asks for as sound: messages between their index marks, characters and keys, in the modes of its
user. The server's words for them are those of Speech Dispatcher.
"""

import html
import re
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from omnitts_cli.audio.pcm import silence
from omnitts_cli.audio.tape import Tape
from omnitts_cli.errors import OmniError, TextError
from omnitts_cli.settings.table import Speech, TextIn
from omnitts_cli.speech.speaking import Stream
from omnitts_cli.speech.tts import TTS, script_of
from omnitts_cli.text import screen
from omnitts_cli.text.formats.ssml import ssml_blocks

FASTEST = 3.0
"""The speed at rate 100; at rate -100 it is the same factor slower."""
QUIET, LEAD_S = 0.004, 0.01
"""Samples below this level before a character are left out, but for the last of them."""
MOST_KEPT = 512  # characters and keys whose sound is kept
AHEAD = 2  # sentences in progress: with more, the first of them would be slower
SEED = 1  # a key sounds the same each time
MARK = re.compile(r"<mark\s+name\s*=\s*(?:\"([^\"]*)\"|'([^']*)')\s*(?:/>|>\s*</mark\s*>)")
OUTER = re.compile(r"\A\s*<speak\b[^>]*>|</speak\s*>\s*\Z")
TAG = re.compile(r"(<[^>]*>)")
SEXES = {"female": {"woman", "female", "girl", "lady"}, "male": {"man", "male", "boy"}}
VOICE_TYPE = re.compile(r"(?:child_)?(female|male)(\d?)")

Settings = Mapping[str, str]


@dataclass(frozen=True)
class MarkedWords:
    """Words, and the index mark that follows them."""

    text: str
    mark: str = ""
    tagged: bool = False  # SSML


@dataclass
class Utterance:
    """What is being spoken, and the event with which it was ended early."""

    end: str = ""
    streams: list[Stream] = field(default_factory=list)

    def cut(self, event: str) -> None:
        """Ends it, from another thread."""
        self.end = self.end or event
        for stream in list(self.streams):
            stream.close()


class Reader:
    """Speaks with one open model. `settings` are those of the server, and may change between messages."""

    def __init__(self, tts: TTS, speech: Speech, settings: Settings) -> None:
        self.tts, self._speech, self._settings = tts, speech, settings
        self._kept: OrderedDict[tuple[str, str, str], np.ndarray] = OrderedDict()

    def message(self, now: Utterance, text: str) -> Iterator[np.ndarray | str]:
        """The sound of a message and its index marks. A part is begun once the one before it has sound."""
        parts, streams = parts_of(text), dict[int, Stream | None]()

        def begun(number: int) -> Stream | None:
            if number not in streams and number < len(parts):
                part = parts[number]
                streams[number] = self._open(now, self._words(part), part.tagged, self._speed)
            return streams.get(number)

        gap = 0.0
        for number, part in enumerate(parts):
            for chunk in begun(number) or ():
                if gap and number - 1 in streams:
                    yield silence(gap, chunk.sample_rate)
                    del streams[number - 1]
                yield chunk.samples
                begun(number + 1)
            gap = TextIn().sentence_gap / 1000 / self._speed
            if part.mark:
                yield part.mark

    def name(self, now: Utterance, text: str) -> Iterator[np.ndarray]:
        """The sound of a character or a key, without the silence before it. It is kept, for every rate."""
        place, tape = self._place(text), Tape(self.tts.sample_rate, speed=self._speed)
        kept = self._kept.pop(place, None)
        if kept is not None:
            self._kept[place] = kept  # at the end: it was used last
        for samples in [kept] if kept is not None else self._named(now, place, urgent=True):
            yield tape.write(samples)
        yield tape.end_piece()

    def prepare(self, now: Utterance) -> None:
        """Makes and keeps the sound of usual characters and keys, in the current voice, until `now` is ended."""
        for text in screen.USUAL:
            if not now.end and (place := self._place(text)) not in self._kept:
                for _ in self._named(now, place, urgent=False):
                    pass

    def _place(self, text: str) -> tuple[str, str, str]:
        """The name of a character or a key, and what else its sound depends on."""
        return screen.key(text, capitals=self._capitals), str(self._voice), self._language

    def _named(self, now: Utterance, place: tuple[str, str, str], *, urgent: bool) -> Iterator[np.ndarray]:
        """The new sound of a name. It is kept if it was not ended early."""
        made = list[np.ndarray]()
        for chunk in self._open(now, place[0], False, 1.0, urgent=urgent) or ():
            samples = chunk.samples if made else without_lead(chunk.samples, self.tts.sample_rate)
            if samples.size:
                made.append(samples)
                yield samples
        if made and not now.end:
            self._kept[place] = np.concatenate(made)
            if len(self._kept) > MOST_KEPT:
                self._kept.popitem(last=False)

    def _words(self, part: MarkedWords) -> str:
        """The words of a part in the modes of spelling and punctuation; tags stay."""
        if not part.tagged:
            return self._read(part.text)
        return "".join(
            one if number % 2 else html.escape(self._read(html.unescape(one)), quote=False)
            for number, one in enumerate(TAG.split(part.text))
        )

    def _read(self, text: str) -> str:
        if self._settings.get("spelling_mode") == "on":
            return screen.spelled(text, capitals=self._capitals)
        return screen.with_signs(text, screen.LEVELS[self._settings.get("punctuation_mode", "none")])

    def _open(self, now: Utterance, text: str, tagged: bool, speed: float, *, urgent: bool = True) -> Stream | None:
        """The speech of a text; None if the model can read nothing of it."""
        how = TextIn(unreadable="skip", input_format="ssml" if tagged else "text")
        speech = replace(self._speech, speed=speed, language=self._language, seed=SEED)
        try:
            script = script_of(text, how, self._language)
            stream = self.tts.open(script, self._voice, how, speech, safe=False, urgent=urgent, ahead=AHEAD)
        except TextError:
            return None
        now.streams.append(stream)
        if now.end:
            stream.close()
        return stream

    @property
    def _capitals(self) -> bool:
        """Whether capital letters are named as such."""
        return self._settings.get("cap_let_recogn", "none") != "none"

    @property
    def _speed(self) -> float:
        return FASTEST ** (int(self._settings.get("rate", 0)) / 100)

    @property
    def _language(self) -> str:
        """The language, if the model speaks it."""
        code = self._settings.get("language", "").split("-")[0].lower()
        return code if code in self.tts.languages else "auto"

    @property
    def _voice(self) -> str | None:
        """The voice: by its name, the user's, or by its type."""
        chosen = self._settings.get("synthesis_voice", "")
        if chosen in self.tts.voices:
            return chosen
        kind = VOICE_TYPE.fullmatch(self._settings.get("voice", "").lower())
        if self._speech.voice or kind is None:
            return self._speech.voice
        about = self.tts.engine.model.speakers
        alike = [one for one in about if SEXES[kind[1]] & set(re.findall(r"\w+", about[one].lower()))]
        return alike[(int(kind[2] or 1) - 1) % len(alike)] if alike else None


def parts_of(text: str) -> list[MarkedWords]:
    """The parts of a message between its index marks. SSML that is cut within a tag is read without its tags."""
    if not text.lstrip().startswith("<speak"):
        return [MarkedWords(text)]
    pieces = MARK.split(OUTER.sub("", text))
    parts = []
    for start in range(0, len(pieces), 3):
        words, mark = pieces[start], "".join(one or "" for one in pieces[start + 1 : start + 3])
        parts.append(MarkedWords(html.unescape(words), mark) if "<" not in words else tagged(words, mark))
    return parts


def tagged(words: str, mark: str) -> MarkedWords:
    """A part with tags, or without if they are not whole or unknown."""
    whole = f"<speak>{words}</speak>"
    try:
        list(ssml_blocks(whole, "the message", []))
    except OmniError:
        return MarkedWords(html.unescape(TAG.sub(" ", words)), mark)
    return MarkedWords(whole, mark, tagged=True)


def without_lead(samples: np.ndarray, rate: int) -> np.ndarray:
    """The samples from shortly before the first that can be heard; none if there is none."""
    loud = np.flatnonzero(np.abs(samples) > QUIET)
    return samples[max(0, int(loud[0]) - round(LEAD_S * rate)) :] if loud.size else samples[:0]
