"""BookJob: one book or dialogue, from the document to the finished file.

All units are known before a model is loaded. Those that the cache lacks are spoken, many at a time; the sound goes to
the output in order, as soon as the next unit is there.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from omnitts_cli.audio.loudness import Meter, level_for
from omnitts_cli.audio.pcm import silence
from omnitts_cli.audio.resample import resample
from omnitts_cli.books.cache import SpokenUnit, UnitCache
from omnitts_cli.books.cast import Cast, Member
from omnitts_cli.books.marks import Mark
from omnitts_cli.books.speaker import SAMPLE, UnitSpeaker
from omnitts_cli.books.units import BookUnit, key_of, units_of
from omnitts_cli.errors import InputError, Notice, OmniError
from omnitts_cli.fleet import content
from omnitts_cli.fleet.rows import VoiceChoice
from omnitts_cli.settings.environment import EMBEDDED
from omnitts_cli.settings.table import Speech, TextIn
from omnitts_cli.speech import voice_files, voices
from omnitts_cli.speech.script import Written
from omnitts_cli.speech.speaking import estimated_s
from omnitts_cli.speech.tts import TTS
from omnitts_cli.speech.voices import code_of, looks_like
from omnitts_cli.speech.words import Times, with_words
from omnitts_cli.text.formats.block import Section
from omnitts_cli.text.inputs import TextOptions
from omnitts_cli.text.language import LANGUAGES
from omnitts_cli.text.lexicon import load_lexicon
from omnitts_cli.text.subtitles import Sentence, Word
from omnitts_cli.weights.released import SIZES

Opener = Callable[[str, str, str | None], AbstractContextManager[TTS]]
"""From the name of a model, its variant and a tuned voice to the open model."""


class Place(Protocol):
    """Where the sound of a book goes."""

    def begin(self, rate: int) -> None:
        """The sample rate is known; no sound has been written."""

    def chapter(self, number: int, title: str, at: int) -> None:
        """A chapter begins at this sample. The sound before it may not have been written."""

    def write(self, samples: np.ndarray) -> None:
        """More sound."""


@dataclass
class Chapter:
    """A chapter that will be spoken."""

    number: int
    title: str
    units: list[BookUnit]
    keys: list[str] = field(default_factory=list)

    @property
    def chars(self) -> int:
        return sum(unit.chars for unit in self.units)

    @property
    def expected_s(self) -> float:
        pieces = (piece for unit in self.units for piece in unit.pieces)
        return sum(piece.pause_s or estimated_s(piece.text) for piece in pieces)


@dataclass
class BookPace:
    """How far a job is."""

    chars: int = 0  # of units to speak in this run
    done_chars: int = 0
    spoken_s: float = 0.0  # of sound, in this run
    chapter: int = 0  # that is being written
    chapters: int = 0
    began: float = field(default_factory=time.perf_counter)

    @property
    def wall_s(self) -> float:
        return max(time.perf_counter() - self.began, 1e-9)


@dataclass
class BookResult:
    """What was made."""

    rate: int = 0
    samples: int = 0
    marks: list[Mark] = field(default_factory=list)
    sentences: list[Sentence] = field(default_factory=list)
    units: int = 0
    spoken: int = 0  # units, in this run
    spoken_s: float = 0.0
    models: list[str] = field(default_factory=list)
    wall_s: float = 0.0

    @property
    def seconds(self) -> float:
        return self.samples / self.rate if self.rate else 0.0


@dataclass
class BookJob:
    """What the command was asked for. `machine`: fields of EngineSettings."""

    chapters: Sequence[tuple[int, Section]]
    cast: Cast
    text: TextIn
    speech: Speech
    machine: Mapping[str, Any]
    language: str = ""  # that the book says it is in
    subtype: str = "pcm16"
    chapter_gap_s: float = 1.5
    times: Times | None = None  # what finds words, if the result has their times
    tell: Callable[[Notice], None] = lambda notice: None
    look: Callable[[BookPace], None] = lambda pace: None

    def plan(self) -> list[Chapter]:
        """The chapters in units. Unknown characters are refused here."""
        known = self.speech.language if self.speech.language in LANGUAGES else self.book_language()
        self.cast.is_voice = self._is_voice
        lexicon = load_lexicon([Path(name) for name in self.text.lexicon])
        notices: list[str] = []
        options = TextOptions(self.text.split, known, None, lexicon, notices=notices)  # type: ignore[arg-type]
        found = []
        for number, section in self.chapters:
            where = f"chapter {number}" + (f" ({section.title})" if section.title else "")
            units = units_of(self.cast.words(section.blocks, where), options, self.text.sentence_gap / 1000)
            if units:
                found.append(Chapter(number, section.title or f"Chapter {number}", units))
        for notice in dict.fromkeys(notices):
            self.tell(Notice(notice))
        if not found:
            raise InputError("nothing to speak in these chapters", hint="--list-chapters   shows the others")
        return found

    def book_language(self) -> str | None:
        """The language that the book says it is in, as one of our codes."""
        code = self.language.lower().partition("-")[0]
        return code if code in LANGUAGES else None

    def run(self, chapters: list[Chapter], cache: UnitCache, open_model: Opener, place: Place) -> BookResult:
        """Speaks what the cache lacks, and writes everything in order."""
        masks = {model: self._mask(model) for model in dict.fromkeys(map(self._model, members_of(chapters)))}
        shared = self._shared()
        digest = lru_cache(None)(self._digest)
        for chapter in chapters:
            chapter.keys = [key_of(unit, f"{shared} {masks[self._model(unit.member)]}", digest)
                            for unit in chapter.units]  # fmt: skip
        todo: dict[str, BookUnit] = {}
        for chapter in chapters:
            for key, unit in zip(chapter.keys, chapter.units, strict=True):
                if key not in todo and not cache.has(key):
                    todo[key] = unit
        for member in dict.fromkeys(unit.member for unit in todo.values()):
            self._check_voice(member)
        pace = BookPace(sum(unit.chars for unit in todo.values()), chapters=len(chapters))
        writer = BookWriter(self, chapters, cache, set(todo), place, pace)
        by_model: dict[tuple[str, str, str | None], list[tuple[str, BookUnit]]] = {}
        for key, unit in todo.items():
            tuned = content.tuned_voice(self._who(unit.member))
            by_model.setdefault((*self._model(unit.member), tuned), []).append((key, unit))
        for model, units in by_model.items():
            with open_model(*model) as tts:
                writer.result.models.append(tts.engine.model.name)
                self._speak(tts, units, writer)
        writer.write()
        result = writer.result
        result.wall_s, result.spoken_s = pace.wall_s, pace.spoken_s
        if self.speech.loudness == "off":
            return result
        return self._levelled(chapters, place, writer)

    def _levelled(self, chapters: list[Chapter], place: Place, writer: "BookWriter") -> BookResult:
        """Writes everything at its level, which is known only now."""
        result, meter, notices = writer.result, writer.meter, list[str]()
        assert meter is not None
        sound = partial(sound_of, chapters, writer.cache, result.rate, self.chapter_gap_s)
        level = level_for(meter, float(self.speech.loudness), sound, notices)
        for notice in notices:
            self.tell(Notice(notice))
        place.begin(result.rate)
        for samples in level.of(sound(), result.rate):
            place.write(samples)
        result.wall_s = writer.pace.wall_s
        return result

    def _speak(self, tts: TTS, units: list[tuple[str, BookUnit]], writer: "BookWriter") -> None:
        speech = replace(self.speech, language=self._language(tts, units[0][1]))
        speaker = UnitSpeaker(tts, writer.cache, self.text, speech, self.subtype, self.tell)
        speaker.open_voices(list(dict.fromkeys(unit.member for _, unit in units)))
        chars = {key: unit.chars for key, unit in units}
        before = writer.pace.spoken_s
        writer.pace.began = time.perf_counter() if not before else writer.pace.began

        def done(key: str) -> None:
            writer.pace.spoken_s = before + speaker.made_s
            writer.pace.done_chars += chars[key]
            writer.write()
            self.look(writer.pace)

        speaker.speak(units, done)

    def _language(self, tts: TTS, first: BookUnit) -> str:
        """One language for the whole book; a quotation in another one does not stop it."""
        model = tts.engine.model
        if self.speech.language in LANGUAGES:
            return self.speech.language
        seen = self.book_language()
        if seen is None:
            seen = looks_like(Written(iter(first.pieces), None), self.tell, patient=self.speech.language == "detect")
        if seen is not None:
            voices.refuse_foreign(LANGUAGES[seen], model)
            return seen
        return code_of(None, model)

    # ---- what the sound depends on

    def _shared(self) -> str:
        own = ("language", "style", "speed", "seed", "max_frames")
        rest = {"loudness": "off", "book": self.book_language(), "subtype": self.subtype}
        return content.shared_of(self.text, self.speech, *own, **rest)

    def _who(self, member: Member) -> VoiceChoice:
        return content.with_voice(member.speaker, self.speech.voice)

    def _digest(self, member: Member) -> str:
        """What the voice of a member is made of."""
        who = self._who(member)
        return f"{content.digest_of(who)} {SAMPLE}" if who.kind == "design" else content.digest_of(who)

    def _model(self, member: Member) -> tuple[str, str]:
        """The model of a member, and the variant that completes a bare size."""
        speaker = self._who(member)
        saved = content.is_saved(speaker.name) if speaker.kind == "voice" else False
        name = member.model or self.speech.model
        if name is None and saved and not voice_files.is_blend(speaker.name):
            found = voices.saved_voice(speaker.name)
            name = voice_files.model_of(found.about, found.name) if found else None
        name = name or EMBEDDED
        return name, content.variant_for(speaker, saved) if name in SIZES else "custom_voice"

    def first_model(self, chapters: Sequence[Chapter]) -> tuple[str, str]:
        """The model that speaks first, and its variant. Its sample rate is that of the book."""
        return self._model(members_of(chapters)[0])

    def _check_voice(self, member: Member) -> None:
        """Refuses a voice that is not saved and that the model's configuration lacks. Loads no weights."""
        name, model = self._who(member).name, self._model(member)
        known = self._voices(model)
        if self._who(member).kind == "voice" and not content.is_saved(name) and known is not None:
            voices.known_voice(name, known, model[0])

    def _is_voice(self, name: str) -> bool:
        """Whether the model has a voice of that name, or it is saved."""
        if content.is_saved(name):
            return True
        try:
            known = self._voices(self._model(Member(name, VoiceChoice("voice", name)))) or {}
        except OmniError:  # a model that is missing is an error of its own, later
            return False
        return name.lower() in (one.lower() for one in known)

    def _voices(self, model: tuple[str, str]) -> Mapping[str, str] | None:
        """The voices that a model's configuration has; None without a folder."""
        folder, _ = self._stored(model)
        if folder is None:
            return None
        from omnitts_cli.families.known import family_of

        family = family_of(folder)
        known: dict[str, str] = family.read_config(folder).voices
        return known

    def _mask(self, model: tuple[str, str]) -> str:
        folder, dtype = self._stored(model)
        return content.model_mask(folder, model[0], dtype).tobytes().hex()

    def _stored(self, model: tuple[str, str]) -> tuple[Path | None, str]:
        """The folder of a model, if it has one, and the precision that it will run in."""
        from omnitts_cli.speech.load import known_before

        folder, dtype, _ = known_before(model[0], variant=model[1], **self.machine)
        return folder, dtype


def members_of(chapters: Sequence[Chapter]) -> list[Member]:
    return list(dict.fromkeys(unit.member for chapter in chapters for unit in chapter.units))


def moved(sentence: Sentence, by_s: float) -> Sentence:
    """The sentence, moved later by an offset."""
    words = tuple(Word(one.start_s + by_s, one.end_s + by_s, one.text) for one in sentence.words)
    return Sentence(sentence.start_s + by_s, sentence.end_s + by_s, sentence.text, words)


class BookWriter:
    """Writes finished units in order. With a loudness it only measures them."""

    def __init__(
        self, job: BookJob, chapters: list[Chapter], cache: UnitCache, spoken: set[str], place: Place, pace: BookPace
    ) -> None:
        self.result, self.pace, self.cache = BookResult(), pace, cache
        self._job, self._place = job, place
        self.meter: Meter | None = None
        self._spoken = spoken
        self._order = ((chapter, number) for chapter in chapters for number in range(len(chapter.units)))
        self._next = next(self._order, None)

    def write(self) -> None:
        """Writes what is there, up to the first unit that is not."""
        while self._next is not None:
            chapter, number = self._next
            found = self.cache.get(chapter.keys[number])
            if found is None:
                return
            self.cache.used(chapter.keys[number])
            self._unit(chapter, number, found)
            self._next = next(self._order, None)

    def _unit(self, chapter: Chapter, number: int, found: SpokenUnit) -> None:
        result = self.result
        if not result.rate:
            result.rate = found.rate
            if self._job.speech.loudness != "off":
                self.meter = Meter(found.rate)
            else:
                self._place.begin(found.rate)
        if not number:
            self._begin_chapter(chapter)
        times = self._job.times
        sentences = self._timed(chapter.keys[number], found, times) if times else found.sentences
        result.sentences += [moved(one, result.seconds) for one in sentences]
        for samples in at_rate(found, result.rate):
            self._put(samples)
        mark = result.marks[-1]
        new = chapter.keys[number] in self._spoken
        result.units, result.spoken = result.units + 1, result.spoken + new
        result.marks[-1] = replace(mark, end_s=result.seconds, units=mark.units + 1, spoken=mark.spoken + new)
        self.pace.chapter = len(result.marks)

    def _timed(self, key: str, found: SpokenUnit, times: Times) -> list[Sentence]:
        """The sentences with the times of their words, which are found once."""
        known = self.cache.words(key, times.by)
        if known is None:
            sound, rate = found.sound(), found.rate
            timed = [with_words(one, sound[round(one.start_s * rate) : round(one.end_s * rate)], rate, times)
                     for one in found.sentences]  # fmt: skip
            known = [one.words for one in timed]
            self.cache.put_words(key, known, times.by)
        return [replace(one, words=words) for one, words in zip(found.sentences, known, strict=False)]

    def _begin_chapter(self, chapter: Chapter) -> None:
        result = self.result
        if result.marks:
            self._put(silence(self._job.chapter_gap_s, result.rate))
            result.marks[-1] = replace(result.marks[-1], end_s=result.seconds)
        result.marks.append(Mark(chapter.title, result.seconds, result.seconds, chapter.number))
        self._place.chapter(chapter.number, chapter.title, result.samples)

    def _put(self, samples: np.ndarray) -> None:
        self.result.samples += samples.size
        if self.meter is not None:
            self.meter.feed(samples)
        else:
            self._place.write(samples)


def sound_of(chapters: Sequence[Chapter], cache: UnitCache, rate: int, gap_s: float) -> Iterator[np.ndarray]:
    """All that was spoken, in order."""
    for number, chapter in enumerate(chapters):
        if number:
            yield silence(gap_s, rate)
        for key in chapter.keys:
            found = cache.get(key)
            assert found is not None, "everything has been spoken"
            yield from at_rate(found, rate)


def at_rate(found: SpokenUnit, rate: int) -> Iterator[np.ndarray]:
    """The sound of a unit at the rate of the book, which the first unit decides."""
    if found.rate == rate:
        yield from found.blocks()
        return

    yield resample(found.sound(), found.rate, rate)  # of another model
