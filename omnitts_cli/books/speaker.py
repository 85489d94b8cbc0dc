"""UnitSpeaker: speaks units into the cache, several at a time, so that sentences of many units share the engine."""

import threading
from collections.abc import Callable, Sequence

from omnitts_cli.audio.encode import SoundFormat
from omnitts_cli.books.cache import UnitCache
from omnitts_cli.books.cast import Member
from omnitts_cli.books.units import BookUnit, seed_of
from omnitts_cli.errors import GuardError, Notice
from omnitts_cli.fleet.content import try_seed, with_overrides, with_voice
from omnitts_cli.fleet.part import PartSink, SoundRecipe
from omnitts_cli.fleet.runner import OpenStreams, Runner
from omnitts_cli.fleet.speaker import voice_of
from omnitts_cli.settings.table import Speech, TextIn
from omnitts_cli.speech.script import Written
from omnitts_cli.speech.speaking import Stream
from omnitts_cli.speech.tts import TTS
from omnitts_cli.speech.voices import Voice
from omnitts_cli.text.subtitles import joined

WAITING = 12  # sentences under way beyond the engine's slots
MOST_OPEN = 64  # units
TRIES = 3  # of a unit in which a sentence runs away, beyond the retries of the sentence
SAMPLE = "The birch canoe slid on the smooth planks, and the box was thrown beside the parked truck."
"""The sentence of which a described character is cloned."""


class UnitSpeaker:
    """Speaks units through one model."""

    def __init__(
        self, tts: TTS, cache: UnitCache, text: TextIn, speech: Speech, subtype: str, tell: Callable[[Notice], None]
    ) -> None:
        self.tts, self.cache = tts, cache
        self._text, self._speech, self._tell = text, speech, tell
        form = SoundFormat("flac", tts.sample_rate, "pcm16" if subtype == "pcm16" else "pcm24")
        self._recipe = SoundRecipe(form, tts.sample_rate)
        self._limit = tts.engine.plan.slots + WAITING
        self._open = 0  # sentences under way
        self._room = threading.Condition()
        self._voices: dict[Member, Voice] = {}
        self.streams = OpenStreams()
        self.made_s = 0.0

    def open_voices(self, members: Sequence[Member]) -> None:
        """Opens every voice, so that one that is missing is an error before any work."""
        for member in members:
            if member not in self._voices:
                self._voices[member] = self._voice(member)

    def _voice(self, member: Member) -> Voice:
        speaker = with_voice(member.speaker, self._speech.voice)
        voice = voice_of(self.tts, speaker, self._tell, member.seed)
        return self._person(member, voice) if speaker.kind == "design" else voice

    def _person(self, member: Member, described: Voice) -> Voice:
        """The clone of one sentence in the described voice, because a description alone gives another voice in every
        sentence. If the model cannot clone, the described voice itself.
        """
        if self.tts.engine.model.cloner is None:
            return described
        seed = self._speech.seed if member.seed is None else member.seed
        try:
            take = self.tts.speak(SAMPLE, voice=described, seed=seed or 0, max_frames=self._speech.max_frames)
        except GuardError:
            return described
        return self.tts.clone(take, SAMPLE, check=False)

    # ---- all units

    def speak(self, units: Sequence[tuple[str, BookUnit]], done: Callable[[str], None]) -> None:
        """Speaks the units, each with its key. `done` is called in this thread with the key of each finished one."""
        order = iter(units)
        threads = min(MOST_OPEN, self._limit, len(units))
        with Runner(self.streams, lambda: self._next(next(order, None)), self._speak, threads, "unit") as runner:
            try:
                while runner.left:
                    if (key := runner.next()) is not None:
                        done(key)
            finally:
                self.streams.stop()
                with self._room:
                    self._room.notify_all()

    def _next(self, found: tuple[str, BookUnit] | None) -> tuple[str, BookUnit] | None:
        """Waits until so few sentences are under way that the next unit's are needed. A killed run loses only these."""
        if found is not None:
            with self._room:
                self._room.wait_for(lambda: self._open < self._limit or self.streams.stopping)
                self.streams.check()
                self._open += len(found[1].pieces)
        return found

    def _leave(self, sentences: int) -> None:
        with self._room:
            self._open -= sentences
            self._room.notify_all()

    # ---- one unit, in a thread of its own

    def _speak(self, found: tuple[str, BookUnit]) -> str:
        key, unit = found
        given = self._speech.seed if unit.member.seed is None else unit.member.seed
        seed = seed_of(unit, given or 0)
        for number in range(TRIES):
            try:
                self._take(key, unit, try_seed(seed, number))
                break
            except GuardError:
                if number == TRIES - 1:
                    raise
                with self._room:
                    self._open += len(unit.pieces)
        return key

    def _take(self, key: str, unit: BookUnit, seed: int) -> None:
        left = len(unit.pieces)
        part = self.cache.work / f"{key}.{threading.get_ident()}"
        stream = self._stream(unit, seed)
        sink = PartSink(part, self._recipe)
        try:
            with self.streams.under_way(stream):
                for chunk in stream:
                    sink.write(chunk.samples)
                    if chunk.sentence is not None and left > 1:
                        left -= 1
                        self._leave(1)
                self.streams.check()
                sink.finish()
        except BaseException:
            sink.discard()
            raise
        finally:
            self._leave(left)
        account = stream.account
        details = {"retries": account.retries, "guard_hits": account.guard_hits, "frames": account.frames}
        self.cache.put(key, part, self.tts.sample_rate, stream.seconds, joined(account.sentences), **details)
        self.made_s += stream.seconds

    def _stream(self, unit: BookUnit, seed: int) -> Stream:
        speech, script = with_overrides(self._speech, unit.member, seed=seed), Written(iter(unit.pieces), unit.chars)
        return self.tts.open(script, self._voices[unit.member], self._text, speech, safe=True, tell=self._tell)
