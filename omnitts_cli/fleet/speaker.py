"""RowSpeaker: one row to a finished sound file, with its figures; takes that fail verification are made again."""

import secrets
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np

from omnitts_cli.audio.pcm import silence
from omnitts_cli.errors import Notice, OutputError
from omnitts_cli.fleet.content import Keys, try_seed, with_overrides
from omnitts_cli.fleet.journal import DONE, UNVERIFIED
from omnitts_cli.fleet.part import SoundFigures, SoundRecipe, Writers, make
from omnitts_cli.fleet.rows import Row, VoiceChoice
from omnitts_cli.fleet.runner import OpenStreams
from omnitts_cli.fleet.store import PARTS, Made
from omnitts_cli.fleet.verify import TakeCheck, Verdict, Verifier
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
BLOCK = 16  # chunks that are encoded together
KEPT_S = 30.0  # of a row's sound in memory, before it is written in this process
SILENCE_S = 0.2  # of an empty row
MOST_NOTICES = 20  # of one row


@dataclass
class RowTake:
    """One finished take of a row."""

    path: Path
    figures: SoundFigures
    seed: int
    number: int  # from 0
    seconds: float
    frames: int
    stopped: str
    guard_hits: int
    codes: np.ndarray
    notices: tuple[str, ...] = ()
    verdict: Verdict | None = None

    @property
    def rank(self) -> tuple[float, int, int, int]:
        """Sort key; the best take has the smallest: word error rate, other reasons, guard hits, number."""
        verdict = self.verdict or Verdict(0.0, "")
        return verdict.wer, len(verdict.reasons), self.guard_hits, self.number


def voice_of(tts: TTS, speaker: VoiceChoice, tell: Callable[[Notice], None], seed: int | None = None) -> Voice:
    """Opens the voice of a row or of a character."""
    if speaker.kind == "design":
        return tts.design(speaker.name, seed=seed)
    if speaker.kind == "clip":
        return tts.clone(reference([speaker.name], speaker.transcript, tell=tell))
    return voices.voice_for(speaker.name or None, tts.engine.model)


@dataclass
class RowSpeaker:
    """Speaks rows through one model, from any number of threads."""

    tts: TTS
    keys: Keys
    text: TextIn
    speech: Speech
    recipe: SoundRecipe
    work: Path
    tell: Callable[[Notice], None]
    tries: int = 1  # where there is a verifier
    verifier: Verifier | None = None
    empty: str = "fail"
    codes: bool = False
    writers: Writers | None = None

    def __post_init__(self) -> None:
        self.streams, self.slots = OpenStreams(), self.tts.engine.plan.slots
        self._voices: OrderedDict[VoiceChoice, Voice] = OrderedDict()
        self._voice_lock = threading.Lock()
        self._run = secrets.token_hex(4)  # a process of a run that was killed may still hold a file
        model = self.tts.engine.model
        self._about = {
            "format": self.recipe.form.name,
            "sample_rate": self.recipe.form.rate,
            "model": model.name,
            "model_sha256": model.sha256,
            "device": self.tts.engine.device.name,
            "dtype": model.precision,
        }

    def voice(self, speaker: VoiceChoice) -> Voice:
        """The voice of a row. A clip is encoded once, however many rows it has."""
        speaker = self.keys.speaker(speaker)
        with self._voice_lock:
            found = self._voices.get(speaker)
            if found is None:
                found = self._voices[speaker] = voice_of(self.tts, speaker, self.tell)
                if len(self._voices) > KNOWN_VOICES:
                    self._voices.popitem(last=False)
            self._voices.move_to_end(speaker)
            return found

    # ---- one row

    def speak(self, index: int, row: Row, seed: int, first_try: int = 0) -> Made:
        """The finished row, in a temporary file. Raises OmniError if it cannot be spoken."""
        made = Made(index, row.id, "", (0, 0), DONE, {}, text=row.text)
        if self.empty == "silence" and not has_speech(row.text):
            return self._finished(made, row, self._silence(index, seed), 1)
        takes: list[RowTake] = []
        best: RowTake | None = None
        try:
            for number in range(first_try, first_try + (self.tries if self.verifier else 1)):
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

    def _take(self, index: int, row: Row, seed: int, number: int) -> RowTake:
        notices: list[Notice] = []
        stream = self._stream(row, seed, notices.append)
        path = self.work / PARTS / f"{self._run}-{index}-{number}"
        try:
            with self.streams.under_way(stream):
                take = self._written(stream, path, row, seed, number)
        except OSError as error:
            raise OutputError(str(error)) from error
        take.notices = tuple(dict.fromkeys(map(str, notices)))
        return take

    def _written(self, stream: Stream, path: Path, row: Row, seed: int, number: int) -> RowTake:
        check = None
        if self.verifier is not None:
            check = TakeCheck(
                self.verifier,
                self.tts.sample_rate,
                self._language(stream),
                longest_pause_s=self._longest_pause_s(row.text) / stream.manner.speed,
                speed=stream.manner.speed,
                clip_words=row.speaker.transcript,
            )
        figures = self._file(path, self._blocks(stream, check))
        account = stream.account
        codes = np.concatenate(account.codes) if account.codes else np.zeros((0, 0), np.int64)
        return RowTake(
            path, figures, seed, number, stream.seconds, len(codes), account.stopped, account.guard_hits, codes,
            verdict=check.verdict() if check else None,
        )  # fmt: skip

    def _blocks(self, stream: Stream, check: TakeCheck | None) -> Iterator[np.ndarray]:
        """The sound of a row. Few large blocks cost less than many small ones."""
        block: list[np.ndarray] = []
        for chunk in stream:
            block.append(chunk.samples)
            if check:
                check.write(chunk.samples)
                if chunk.sentence is not None:
                    check.sentence(chunk.sentence.text)
            if len(block) >= BLOCK or chunk.sentence is not None:
                yield np.concatenate(block)
                block = []
        self.streams.check()
        yield from block

    def _file(self, path: Path, blocks: Iterator[np.ndarray]) -> SoundFigures:
        """Makes the sound file of a row: a short one in another process, if there are some for it."""
        if self.writers is None:
            return make(path, self.recipe, blocks)
        held, samples = [], 0
        for block in blocks:
            held.append(block)
            samples += block.size
            if samples > KEPT_S * self.recipe.rate:
                return make(path, self.recipe, chain(held, blocks))
        return self.writers.make(path, held)

    def _stream(self, row: Row, seed: int, tell: Callable[[Notice], None]) -> Stream:
        most = row.max_frames or self.speech.max_frames
        speech = with_overrides(self.speech, row, max_frames=most, seed=seed)
        known = speech.language if speech.language in LANGUAGES else None
        options = inputs.TextOptions(self.text.split, known, None, self.keys.lexicon)  # type: ignore[arg-type]
        pieces = inputs.pieces_of_text(row.text, options, row.form)  # type: ignore[arg-type]
        script = Written(inputs.require_speech(pieces, row.text), len(row.text), options.notices)
        return self.tts.open(
            script, self.voice(row.speaker), self.text, speech,
            safe=True, keep_codes=True, whole_pieces=True, tell=tell,
        )  # fmt: skip

    def _language(self, stream: Stream) -> str | None:
        code = code_of(stream.manner.request.language, self.tts.engine.model)
        return None if code == "auto" else code

    def _longest_pause_s(self, text: str) -> float:
        asked = [float(found[1]) / (1000 if found[2] == "ms" else 1) for found in PAUSE.finditer(text)]
        return max([self.text.sentence_gap / 1000, self.text.paragraph_gap / 1000, *asked])

    def _silence(self, index: int, seed: int) -> RowTake:
        path = self.work / PARTS / f"{self._run}-{index}-0"
        figures = make(path, self.recipe, [silence(SILENCE_S, self.tts.sample_rate)])
        return RowTake(path, figures, seed, 0, SILENCE_S, 0, "end", 0, np.zeros((0, 0), np.int64))

    def _finished(self, made: Made, row: Row, take: RowTake, tries: int) -> Made:
        figures = take.figures
        made.part, made.length, made.sha256, made.seconds = take.path, figures.length, figures.sha256, take.seconds
        made.codes = take.codes if self.codes else None
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
            "loudness_lufs": None if figures.lufs is None else round(figures.lufs, 1),
            "peak_dbfs": round(figures.peak_dbfs, 1),
        }
        if take.notices:
            made.details["notices"] = list(take.notices[:MOST_NOTICES])
        if take.verdict is not None:
            made.details |= {"wer": take.verdict.wer, "asr_text": take.verdict.transcript}
            if take.verdict.reasons:
                made.details |= {"code": "unverified", "message": ", ".join(take.verdict.reasons)}
        return made

    def _voice_name(self, speaker: VoiceChoice) -> str:
        found = self.voice(speaker)
        shown = {"clip": Path(speaker.name).name, "design": speaker.name}.get(speaker.kind)
        return shown or found.name or str(getattr(found.identity, "speaker", ""))
