"""Tuning from recordings to a saved voice: `omnitts tune`, and `tune` of the Python API."""

from __future__ import annotations

import hashlib
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from dataclasses import replace as changed
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import numpy as np
import torch

from omnitts_cli.audio.resample import resample
from omnitts_cli.devices.cpu import CPUDevice
from omnitts_cli.errors import DeviceError, ModelError, Notice, UsageError
from omnitts_cli.families.common.parts import Language
from omnitts_cli.fleet.disk import Lock
from omnitts_cli.kernels import plain
from omnitts_cli.settings.engine import EngineSettings
from omnitts_cli.settings.environment import EMBEDDED
from omnitts_cli.speech import voice_files
from omnitts_cli.speech.clip import Clip
from omnitts_cli.speech.load import device_for, stored_model
from omnitts_cli.speech.transcribe import HEARD_AT, Transcriber, recogniser
from omnitts_cli.speech.tts import load
from omnitts_cli.speech.voices import Voice
from omnitts_cli.text.language import LANGUAGES
from omnitts_cli.text.reading import read_transcript
from omnitts_cli.tuning.prepared import PreparedClip, prepare
from omnitts_cli.tuning.recordings import (
    MUCH_S,
    RATE,
    Recordings,
    SpokenClip,
    Transcripts,
    examine,
    held_out,
    rows_in,
    usual_level,
)
from omnitts_cli.tuning.trainer import Course, Ids, LearningPlan, Trainer, refuse_few
from omnitts_cli.tuning.verdict import MOST, SENTENCES, Compared, compare, pace_of, spoken, wer
from omnitts_cli.voices import Adapter, Cloned
from omnitts_cli.weights.find import find
from omnitts_cli.weights.sums import identity

COPIES = 3  # of each clip, delayed by quarters of a frame
KEPT_SAMPLES = 4
BY_HAND = "a .txt file with the words of each clip"


@dataclass(frozen=True)
class TunePlan:
    """What a run will do."""

    name: str
    model: str
    folder: Path
    recordings: Recordings
    learned: tuple[SpokenClip, ...]
    held: tuple[SpokenClip, ...]
    learning: LearningPlan
    device: str

    @property
    def lines(self) -> list[tuple[str, str]]:
        """For people."""
        found, held = self.recordings, sum(clip.seconds for clip in self.held)
        left = sum(map(len, found.left_out.values()))
        plan = self.learning
        mended = ", ".join(f"{count} {what}" for what, count in sorted(found.mended.items()) if count)
        return [
            ("recordings", f"{len(found.clips)} clips, {minutes(found.seconds)}"
             + (f"; {left} left out: {found.words}" if left else "")),
            ("mended", mended or "nothing"),
            ("held out", f"{len(self.held)} clips, {minutes(held)}"),
            ("model", f"{self.model}, adapter of rank {plan.rank} on {' and '.join(plan.stacks)}"),
            ("device", self.device),
            ("learning", f"at most {plan.epochs} epochs; it stops when the held-out loss stops falling"),
            ("voice", f"{self.name}   (omnitts say -v {self.name})"),
            ("run", str(self.folder)),
        ]  # fmt: skip

    @property
    def record(self) -> dict[str, Any]:
        """For programs."""
        found = self.recordings
        return {
            "name": self.name, "model": self.model, "folder": str(self.folder), "clips": len(found.clips),
            "seconds": round(found.seconds, 1), "held_out": len(self.held), "left_out": found.left_out,
            "mended": {what: count for what, count in found.mended.items() if count}, "rank": self.learning.rank,
        }  # fmt: skip


@dataclass(frozen=True)
class Tuned:
    """The result of a run."""

    plan: TunePlan
    course: Course | None = None  # None: nothing was learned, as with `dry_run`
    compared: Compared | None = None
    voice: Path | None = None
    stopped: bool = False  # the plan was not confirmed
    pair: tuple[Voice, Voice] | None = None  # the plain clone, and what was learned: both speak, whichever was saved

    @property
    def won(self) -> bool:
        """Whether the saved voice is the tuned one, and not the plain clone."""
        return self.compared is not None and self.compared.won


@dataclass(frozen=True)
class TuneStage:
    """How far a run is: reading, encoding, learning or comparing; a share of it, and figures."""

    name: str
    share: float | None
    figures: dict[str, float] = field(default_factory=dict)


LookAt = Callable[[TuneStage], None]


def tune(
    recordings: str | PathLike[str],
    name: str,
    *,
    consent: str | None = None,
    model: str | PathLike[str] = EMBEDDED,
    licence: str | None = None,
    language: str | None = None,
    rank: int = 16,
    rate: float = LearningPlan.rate,
    epochs: int = LearningPlan.epochs,
    minutes: float | None = None,
    share: float = 0.1,
    seed: int = 0,
    folder: str | PathLike[str] | None = None,
    transcribe: bool = False,
    asr_model: str | None = None,
    replace: bool = False,
    dry_run: bool = False,
    confirm: Callable[[TunePlan], bool] = lambda plan: True,
    tell: Callable[[Notice], None] = lambda notice: None,
    look: LookAt = lambda stage: None,
    device: str = "auto",
    threads: int | None = None,
    offline: bool = False,
) -> Tuned:
    """Teaches a model the voice of a person, and saves it under `name`. The same call again continues a run.

    recordings: a folder of sound files with texts of the same names, or a manifest.
    consent: who the person is and when they agreed; it is stored in the voice.
    language: of the recordings, a code such as "en".
    folder: where the run keeps what it has done.
    transcribe: a speech recogniser (asr_model) writes missing texts, and counts word errors of the result.
    confirm: asked with the plan before anything is learned; tell, look: called with notices and progress.

    If the tuned voice is not more like the person than a plain clone, the clone is saved: see `Tuned.won`.
    """
    voice_files.check_name(name)
    if not replace and not dry_run:
        voice_files.check_free(name)
    if not dry_run and not (consent and consent.strip()):
        raise UsageError(
            "whose voice is this, and have they agreed to it being copied?", hint='--consent "who, and when"'
        )
    settings = EngineSettings.of({"device": device, "threads": threads, "offline": offline, "dtype": "fp32"}, "tune()")
    chosen = device_for(fspath(model), settings)
    if not isinstance(chosen, CPUDevice):
        if device != "auto":
            raise DeviceError(f"tuning on {chosen.name} is not possible yet", hint="-d cpu")
        chosen = device_for(fspath(model), EngineSettings.of({"device": "cpu", "threads": threads}, "tune()"))
    place = Path(folder) if folder is not None else runs() / name
    learning = LearningPlan(rank=rank, alpha=2.0 * rank, rate=rate, vector_rate=rate, epochs=epochs, minutes=minutes,
                            seed=seed)  # fmt: skip
    hear = recogniser(offline, tell, asr_model, BY_HAND) if transcribe else None
    transcripts = Transcripts(hear, place / "transcripts.json") if hear else None
    plan = planned(
        fspath(recordings), name, fspath(model), place, learning, share, chosen.name, tell, look, transcripts
    )
    if transcripts is not None:
        transcripts.keep()  # also if nothing is learned now: people can correct them first
    if dry_run or not confirm(plan):
        return Tuned(plan, stopped=not dry_run)
    place.mkdir(parents=True, exist_ok=True)
    lock = Lock(place, str(place))
    try:
        with torch.inference_mode(False):
            return TuneRun(plan, chosen, settings, language, tell, look, hear).tuned(consent or "", licence)
    finally:
        lock.release()


def runs() -> Path:
    """Where runs are kept."""
    return voice_files.folder().parent / "tune"


def planned(
    recordings: str, name: str, model: str, folder: Path, learning: LearningPlan, share: float, device: str,
    tell: Callable[[Notice], None], look: LookAt, transcripts: Transcripts | None = None,
) -> TunePlan:  # fmt: skip
    """Reads the recordings."""
    with tempfile.TemporaryDirectory(prefix="omnitts-tune-") as work:
        rows = rows_in(recordings, Path(work))
    found = examine(rows, tell, lambda count: look(TuneStage("reading", count / len(rows))), transcripts)
    if found.seconds > MUCH_S:
        tell(Notice(f"{found.seconds / 3600:.0f} hours are more than an adapter can learn", plain=True))
    texts = held_out(found.clips, share)
    held = tuple(clip for clip in found.clips if clip.text in texts)
    return TunePlan(name, model, folder, found, tuple(clip for clip in found.clips if clip.text not in texts), held,
                    learning, device)  # fmt: skip


class TuneRun:
    """A run from a plan to a saved voice."""

    def __init__(
        self, plan: TunePlan, device: CPUDevice, settings: EngineSettings, language: str | None,
        tell: Callable[[Notice], None], look: LookAt, hear: Transcriber | None = None,
    ) -> None:  # fmt: skip
        self.plan, self.device, self.tell, self.look, self.settings = plan, device, tell, look, settings
        self.code, self.hear = language, hear
        found = find(plan.model, variant="base", offline=settings.offline)
        if found.folder is None:
            raise ModelError(f"{plan.model} has random weights, which cannot be tuned", hint=f"-m {EMBEDDED}")
        self.name = found.name
        self.model, self.pieces = stored_model(found.folder, found.name, device, settings, tell, ops=plain.OPS)
        if "cloned" not in self.model.kinds or self.model.cloner is None:
            raise ModelError(f"{found.name} cannot clone, so it cannot be tuned", hint="-m 0.6b-base   or   -m tiny")
        if found.name != EMBEDDED:
            tell(Notice(f"tuning {found.name} on a CPU takes hours", hint="-m tiny   tries the recordings first"))
        self.sum = identity(found.folder, read=True) or ""
        self.language = LANGUAGES.get(language or "", None)

    def tuned(self, consent: str, licence: str | None) -> Tuned:
        learned, held = self.prepared()
        refuse_few(held)
        trainer = self.trainer(learned, held)
        trainer.refuse_misfits()
        course = trainer.run(self.plan.folder, self.tell, self.learning)
        adapter, vectors = trainer.result()
        assert adapter is not None
        vector = vectors[""]
        plain_voice = Voice(Cloned(trainer.given[0]), "clone", self.about())
        tuned_voice = Voice(Cloned(vector), self.plan.name, self.about(), adapter=adapter)
        compared = self.compared(plain_voice, tuned_voice, adapter, held)
        chosen = tuned_voice if compared.won else plain_voice
        about = {**self.about(), "source": "tuned" if compared.won else "clone", "consent": consent,
                 "licence": licence or "", "made": time.strftime("%Y-%m-%d", time.gmtime())}  # fmt: skip
        if compared.won:
            about |= self.facts(course, compared)
        saved = voice_files.SavedVoice(self.plan.name, chosen.identity, {k: v for k, v in about.items() if v}, None,
                                       chosen.adapter)  # type: ignore[arg-type]  # fmt: skip
        kept = voice_files.save(saved, replace=True)
        return Tuned(self.plan, course, compared, kept, pair=(plain_voice, tuned_voice))

    def about(self) -> dict[str, str]:
        return {"model": self.name, "revision": self.model.sha256 or "", "language": self.language or ""}

    def facts(self, course: Course, compared: Compared) -> dict[str, str]:
        data = hashlib.sha256("".join(sorted(clip.digest for clip in self.plan.recordings.clips)).encode())
        return {
            "clips": str(len(self.plan.learned)), "seconds": f"{sum(clip.seconds for clip in self.plan.learned):.0f}",
            "data_sha256": data.hexdigest(), "losses": f"{course.first:.3f} before, {course.best:.3f} after",
            "verdict": compared.words,
        }  # fmt: skip

    def prepared(self) -> tuple[list[PreparedClip], list[PreparedClip]]:
        """The clips that are learned, and those that are held out."""
        clips, cloner, level = (
            [*self.plan.learned, *self.plan.held],
            self.model.cloner,
            usual_level(self.plan.recordings.clips),
        )
        assert cloner is not None
        found = prepare(
            [changed(clip, text=read_transcript(clip.text, self.model)) for clip in clips], level, cloner,
            self.model.facts.samples_per_frame, COPIES, self.plan.folder / "prepared", self.sum,
            lambda count: self.look(TuneStage("encoding", count / len(clips))),
        )  # fmt: skip
        return found[: len(self.plan.learned)], found[len(self.plan.learned) :]

    def trainer(self, learned: list[PreparedClip], held: list[PreparedClip]) -> Trainer:
        part = self.pieces.language
        assert isinstance(part.module, Language)
        ids = Ids(self.model.prompter.pad, self.model.facts.end_code, self.language)
        return Trainer(
            part.module, part.names, self.model.prompter, ids, learned, held, self.device, self.plan.learning
        )

    def learning(self, course: Course, first: float, rest: float) -> None:
        total = self.plan.learning.epochs
        figures = {
            "epoch": course.epoch + 1,
            "step": course.step,
            "first": first,
            "rest": rest,
            "held_out": course.last,
        }
        self.look(TuneStage("learning", min(1.0, course.epoch / total), figures))

    def compared(self, cloned: Voice, tuned: Voice, adapter: Adapter, held: list[PreparedClip]) -> Compared:
        """The verdict; a few of the samples are kept."""
        person = np.mean([clip.vector for clip in held], axis=0)
        texts = [*SENTENCES, *dict.fromkeys(clip.text for clip in self.plan.held)][:MOST]
        found = []
        for number, voice in enumerate((cloned, tuned)):

            def look(count: int, number: int = number) -> None:
                self.look(TuneStage("comparing", (number + count / len(texts)) / 2))

            with load(
                self.name, voice=voice, device="cpu", threads=self.settings.threads, dtype="fp32", offline=True
            ) as tts:
                assert self.model.cloner is not None
                found.append(spoken(tts, voice, self.model.cloner, texts, person, look, self.word_errors))
            for count, sample in enumerate(found[-1][:KEPT_SAMPLES], 1):
                path = self.plan.folder / "samples" / f"{'tuned' if number else 'clone'}-{count}.flac"
                path.parent.mkdir(exist_ok=True)
                Clip(sample.sound, RATE, 0).save(path)
        pace = float(np.mean([pace_of(clip.text, clip.seconds) for clip in self.plan.recordings.clips]))
        return compare(found[0], found[1], pace)

    def word_errors(self, text: str, sound: np.ndarray) -> float | None:
        """The share of the words that the recogniser gets wrong; None without one."""
        return None if self.hear is None else wer(text, self.hear(resample(sound, RATE, HEARD_AT)), self.code)


def minutes(seconds: float) -> str:
    whole, rest = divmod(round(seconds), 60)
    return f"{whole} min {rest} s" if whole else f"{rest} s"
