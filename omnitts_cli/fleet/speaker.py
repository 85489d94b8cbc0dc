"""RowSpeaker: one row to a finished sound file, with its figures; takes that fail verification are made again."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace
from math import isfinite
from pathlib import Path

import numpy as np

from omnitts_cli.audio.encode import SoundFormat
from omnitts_cli.audio.loudness import LoudnessSink, Meter
from omnitts_cli.audio.outlet import Outlet
from omnitts_cli.audio.pcm import dbfs, silence
from omnitts_cli.audio.sinks import BaseSink, Sink, Track
from omnitts_cli.errors import Notice, OutputError
from omnitts_cli.fleet import disk
from omnitts_cli.fleet.content import Keys, try_seed
from omnitts_cli.fleet.journal import DONE, UNVERIFIED
from omnitts_cli.fleet.rows import Row, Speaker
from omnitts_cli.fleet.store import PARTS, Made
from omnitts_cli.fleet.verify import Verdict, Verifier
from omnitts_cli.settings.table import Speech, TextIn
from omnitts_cli.speech import voices
from omnitts_cli.speech.reference import reference
from omnitts_cli.speech.script import Written
from omnitts_cli.speech.speaking import Stream
from omnitts_cli.speech.tts import TTS
from omnitts_cli.speech.voices import Voice, code_of
from omnitts_cli.text import inputs
from omnitts_cli.text.clean import has_speech
from omnitts_cli.text.language import LANGUAGES
from omnitts_cli.text.split import PAUSE

KNOWN_VOICES = 1024
SILENCE_S = 0.2  # of an empty row


class Stopping(Exception):
    """The run is ending; the row under way is dropped."""


class PartSink(BaseSink):
    """A sound file that is being made. Nothing is left of one that was discarded."""

    def __init__(self, path: Path, form: SoundFormat, rate: int, sync: bool) -> None:
        super().__init__()
        self.path, self._sync = path, sync
        self._file = disk.File(path)
        try:
            self._track = Track(Outlet(self._file, str(path)), form, rate)  # type: ignore[arg-type]
        except BaseException:
            self.discard()
            raise

    def write(self, samples: np.ndarray) -> None:
        self._track.write(samples)

    def finish(self) -> None:
        self._track.close()
        if self._sync:
            self._file.sync()
        self._file.close()

    def interrupt(self) -> Path | None:
        self.discard()
        return None

    def discard(self) -> None:
        self._file.close()
        self.path.unlink(missing_ok=True)


@dataclass
class Take:
    """One finished take of a row."""

    path: Path
    seed: int
    number: int  # from 0
    seconds: float
    frames: int
    stopped: str
    guard_hits: int
    peak: float
    lufs: float | None
    codes: np.ndarray
    verdict: Verdict | None = None

    @property
    def rank(self) -> tuple[float, int, int, int]:
        """Sort key; the best take has the smallest: word error rate, other reasons, guard hits, number."""
        verdict = self.verdict or Verdict(0.0, "")
        return verdict.wer, len(verdict.reasons), self.guard_hits, self.number


class RowSpeaker:
    """Speaks rows through one model, from any number of threads."""

    def __init__(
        self,
        tts: TTS,
        keys: Keys,
        text: TextIn,
        speech: Speech,
        form: SoundFormat,
        work: Path,
        *,
        tries: int = 1,
        verifier: Verifier | None = None,
        empty: str = "fail",
        codes: bool = False,
        sync: bool = True,
        tell: Callable[[Notice], None],
    ) -> None:
        self.tts, self.stopping, self.slots = tts, False, tts.engine.plan.slots
        self._keys, self._text, self._speech, self._form = keys, text, speech, form
        self._parts, self._tries, self._verifier = work / PARTS, tries if verifier else 1, verifier
        self._empty, self._codes, self._sync, self._tell = empty, codes, sync, tell
        self._voices: OrderedDict[Speaker, Voice] = OrderedDict()
        self._voice_lock, self._streams_lock = threading.Lock(), threading.Lock()
        self._streams: set[Stream] = set()
        model = tts.engine.model
        self._about = {
            "format": form.name,
            "sample_rate": form.rate,
            "model": model.name,
            "model_sha256": model.sha256,
            "device": tts.engine.device.name,
            "dtype": str(model.dtype).removeprefix("torch."),
        }

    def stop(self) -> None:
        """Ends all rows that are under way; their threads get Stopping."""
        self.stopping = True
        with self._streams_lock:
            for stream in self._streams:
                stream.close()

    def voice(self, speaker: Speaker) -> Voice:
        """The voice of a row. A clip is encoded once, however many rows it has."""
        speaker = self._keys.speaker(speaker)
        with self._voice_lock:
            found = self._voices.get(speaker)
            if found is None:
                found = self._voices[speaker] = self._open(speaker)
                if len(self._voices) > KNOWN_VOICES:
                    self._voices.popitem(last=False)
            self._voices.move_to_end(speaker)
            return found

    def _open(self, speaker: Speaker) -> Voice:
        if speaker.kind == "design":
            return self.tts.design(speaker.name)
        if speaker.kind == "clip":
            return self.tts.clone(reference([speaker.name], speaker.transcript, tell=self._tell))
        return voices.voice_for(speaker.name or None, self.tts.engine.model)

    # ---- one row

    def speak(self, index: int, row: Row, seed: int, first_try: int = 0) -> Made:
        """The finished row, in a temporary file. Raises OmniError if it cannot be spoken."""
        made = Made(index, row.id, "", (0, 0), DONE, {}, text=row.text)
        if self._empty == "silence" and not has_speech(row.text):
            return self._finished(made, row, self._silence(index, seed), 1)
        takes: list[Take] = []
        best: Take | None = None
        try:
            for number in range(first_try, first_try + self._tries):
                takes.append(self._take(index, row, try_seed(seed, number), number))
                if takes[-1].verdict is None or takes[-1].verdict.passed:
                    break
            best = min(takes, key=lambda take: take.rank)
        finally:
            for take in takes:
                if take is not best:
                    take.path.unlink(missing_ok=True)
        if best.verdict is not None and not best.verdict.passed:
            made.state = UNVERIFIED
        return self._finished(made, row, best, first_try + len(takes))

    def _take(self, index: int, row: Row, seed: int, number: int) -> Take:
        stream = self._stream(row, seed)
        voice = self.voice(row.speaker)
        sink = PartSink(self._parts / f"{index}-{number}", self._form, self.tts.sample_rate, self._sync)
        outer: Sink = sink
        if self._speech.loudness != "off":
            outer = LoudnessSink(sink, float(self._speech.loudness), self.tts.sample_rate)
        with self._streams_lock:
            self._streams.add(stream)
        try:
            if self.stopping:
                raise Stopping
            return self._written(stream, outer, sink.path, row, seed, number, voice)
        except OSError as error:
            outer.discard()
            raise OutputError(str(error)) from error
        except BaseException:
            outer.discard()
            raise
        finally:
            stream.close()
            with self._streams_lock:
                self._streams.discard(stream)

    def _written(self, stream: Stream, sink: Sink, path: Path, row: Row, seed: int, number: int, voice: Voice) -> Take:
        meter, heard = Meter(self.tts.sample_rate), None
        if self._verifier is not None:
            heard = self._verifier.take(
                self.tts.sample_rate,
                self._language(stream, row),
                longest_pause_s=self._longest_pause_s(row.text) / stream.manner.speed,
                speed=stream.manner.speed,
                clip_words=row.speaker.transcript,
            )
        for chunk in stream:
            if chunk.samples.size:
                meter.feed(chunk.samples)
                sink.write(chunk.samples)
                if heard:
                    heard.write(chunk.samples)
            if heard and chunk.sentence is not None:
                heard.sentence(chunk.sentence.text)
        if self.stopping:
            raise Stopping
        sink.finish()
        account, louder = stream.account, getattr(sink, "applied_db", 0.0)
        lufs = meter.lufs()
        codes = np.concatenate(account.codes) if account.codes else np.zeros((0, 0), np.int64)
        return Take(
            path, seed, number, stream.seconds, len(codes), account.stopped, account.guard_hits,
            dbfs(meter.peak) + louder if meter.peak else -120.0, lufs + louder if isfinite(lufs) else None, codes,
            heard.verdict() if heard else None,
        )  # fmt: skip

    def _stream(self, row: Row, seed: int) -> Stream:
        language = row.language or self._speech.language
        known = language if language in LANGUAGES else None
        options = inputs.TextOptions(self._text.split, known, None, self._keys.lexicon)  # type: ignore[arg-type]
        pieces = inputs.pieces_of_text(row.text, options, row.form, [])  # type: ignore[arg-type]
        script = Written(inputs.require_speech(pieces, row.text), len(row.text))
        speech = replace(
            self._speech,
            language=language,
            style=self._speech.style if row.style is None else row.style,
            speed=row.speed or self._speech.speed,
            max_frames=row.max_frames or self._speech.max_frames,
            seed=seed,
        )
        return self.tts.open(script, self.voice(row.speaker), self._text, speech, safe=True, keep_codes=True)

    def _language(self, stream: Stream, row: Row) -> str | None:
        code = code_of(stream.manner.request.language, self.tts.engine.model)
        return None if code == "auto" else code

    def _longest_pause_s(self, text: str) -> float:
        asked = [float(found[1]) / (1000 if found[2] == "ms" else 1) for found in PAUSE.finditer(text)]
        return max([self._text.sentence_gap / 1000, self._text.paragraph_gap / 1000, *asked])

    def _silence(self, index: int, seed: int) -> Take:
        sink = PartSink(self._parts / f"{index}-0", self._form, self.tts.sample_rate, self._sync)
        try:
            sink.write(silence(SILENCE_S, self.tts.sample_rate))
            sink.finish()
        except BaseException:
            sink.discard()
            raise
        return Take(sink.path, seed, 0, SILENCE_S, 0, "end", 0, -120.0, None, np.zeros((0, 0), np.int64))

    def _finished(self, made: Made, row: Row, take: Take, tries: int) -> Made:
        with take.path.open("rb") as file:
            made.sha256 = hashlib.file_digest(file, "sha256").hexdigest()
        made.part, made.length, made.seconds = take.path, take.path.stat().st_size, take.seconds
        made.codes = take.codes if self._codes else None
        made.details = {
            "bytes": made.length,
            "sha256": made.sha256,
            **self._about,
            "audio_s": round(take.seconds, 3),
            "frames": take.frames,
            "stopped": take.stopped,
            "seed": take.seed,
            "tries": tries,
            "guard_hits": take.guard_hits,
            "voice": self._voice_name(row.speaker),
            "loudness_lufs": None if take.lufs is None else round(take.lufs, 1),
            "peak_dbfs": round(take.peak, 1),
        }
        if take.verdict is not None:
            made.details |= {"wer": take.verdict.wer, "asr_text": take.verdict.heard}
            if take.verdict.reasons:
                made.details |= {"code": "unverified", "message": ", ".join(take.verdict.reasons)}
        return made

    def _voice_name(self, speaker: Speaker) -> str:
        found = self.voice(speaker)
        shown = {"clip": Path(speaker.name).name, "design": speaker.name}.get(speaker.kind)
        return shown or found.name or str(getattr(found.identity, "speaker", ""))
