"""Tuning from recordings to a saved voice: `omnitts tune`, and `tune` of the Python API."""

import hashlib
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict, dataclass, field
from dataclasses import replace as changed
from functools import partial
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import numpy as np
import torch

from omnitts_cli.audio.outlet import make_folder
from omnitts_cli.audio.read import duration, read_sound
from omnitts_cli.audio.resample import resample
from omnitts_cli.audio.target import put
from omnitts_cli.devices.device import Device
from omnitts_cli.errors import DeviceError, ModelError, Notice, UsageError
from omnitts_cli.families.common.parts import Language, stored
from omnitts_cli.families.known import family_of
from omnitts_cli.fleet.disk import Lock
from omnitts_cli.fleet.verify import wer
from omnitts_cli.kernels import plain
from omnitts_cli.settings.engine import EngineSettings
from omnitts_cli.settings.environment import EMBEDDED
from omnitts_cli.speech import adapters, voice_files
from omnitts_cli.speech.clip import Clip
from omnitts_cli.speech.exported import write_model
from omnitts_cli.speech.load import ModelSource, device_for, stored_model
from omnitts_cli.speech.transcribe import HEARD_AT, Transcriber, is_accurate, recogniser, recogniser_here
from omnitts_cli.speech.tts import TTS, load
from omnitts_cli.speech.voices import Voice
from omnitts_cli.text.language import LANGUAGES
from omnitts_cli.text.reading import read_transcript
from omnitts_cli.tuning.folder import (
    CARD,
    PREPARED,
    TRANSCRIPTS,
    UNPACKED,
    check_own,
    check_tensorboard,
    draw,
    runs,
    write_events,
)
from omnitts_cli.tuning.heard import heard, vocabulary
from omnitts_cli.tuning.prepared import PreparedClip, prepare
from omnitts_cli.tuning.recordings import (
    ALLOWED,
    MUCH_S,
    RATE,
    Recordings,
    SpokenClip,
    examine,
    held_out,
    rows_in,
    usual_level,
)
from omnitts_cli.tuning.room import WayPlan
from omnitts_cli.tuning.trainer import Course, Ids, LearningPlan, Trainer, refuse_few
from omnitts_cli.tuning.transcripts import Transcripts
from omnitts_cli.tuning.verdict import MOST, SENTENCES, Compared, Sample, compare, cosine, pace_of, spoken
from omnitts_cli.voices import Cloned
from omnitts_cli.weights.checkpoint import Checkpoint
from omnitts_cli.weights.find import HubName, find, here
from omnitts_cli.weights.load import read, tensors_of
from omnitts_cli.weights.sums import identity

COPIES = 3  # of each clip, delayed by quarters of a frame
KEPT_SAMPLES = 4
KEPT_EPOCHS = 3
SAMPLED = 3  # sentences that are spoken after each epoch
FULL_RATE = 1e-4
DRIFT = 0.15  # a pace that differs from that of the recordings by a larger share is reported
LISTENED = 20  # held-out clips in which the model listens for words
CODED_BADLY = 0.25  # share of the words; a warning says if the codes have lost more
TINY_ERRS = 0.1  # the speaker encoder of `tiny` knows only its teacher's voices, and errs by this much about others
UNLIKE = 0.5  # cosine of a clip's vector to the mean of its speaker's: a lower one may be another person
CARD_STEP_S = 60.0  # of speech in a step on a card
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
    room: WayPlan | None = None  # for all weights, if the model is on this machine

    @property
    def lines(self) -> list[tuple[str, str]]:
        """For people."""
        found, held = self.recordings, sum(clip.seconds for clip in self.held)
        left = sum(map(len, found.left_out.values()))
        plan = self.learning
        mended = ", ".join(f"{count} {what}" for what, count in sorted(found.mended.items()) if count)
        return [
            ("recordings", f"{len(found.clips)} clips, {duration(found.seconds)}"
             + (f"; {left} left out: {found.words}" if left else "")),
            ("mended", mended or "nothing"),
            *([("doubtful", found.doubts)] if found.doubtful else []),
            ("held out", f"{len(self.held)} clips, {duration(held)}"),
            ("model", f"{self.model}, {plan.words}"),
            *([("speakers", ", ".join(self.voices.values()))] if len(self.voices) > 1 else []),
            ("device", self.device),
            *([("memory", self.room.words)] if self.room is not None else []),
            ("learning", f"at most {plan.epochs} epochs; it stops when the held-out loss stops falling"),
            ("voice", f"{self.name}   (omnitts say -v {self.name})"),
            ("run", str(self.folder)),
        ]  # fmt: skip

    @property
    def voices(self) -> dict[str, str]:
        """The names of the voices, by speaker."""
        speakers = sorted({clip.speaker for clip in self.learned})
        if len(speakers) < 2:
            return dict.fromkeys(speakers, self.name)
        return {who: f"{self.name}-{re.sub(r'[^a-z0-9._-]+', '-', who.lower()).strip('-')}"[:64] for who in speakers}

    def check(self, free: bool) -> None:
        """Refuses names of voices that cannot be saved. `free`: also those that are taken."""
        if self.learning.full and len(self.voices) > 1:
            raise UsageError("--full teaches one speaker, and there are several", hint="leave out --full")
        for one in self.voices.values():
            voice_files.check_name(one)
            if free:
                voice_files.check_free(one)

    @property
    def record(self) -> dict[str, Any]:
        """For programs."""
        found = self.recordings
        return {
            "name": self.name, "model": self.model, "folder": str(self.folder), "clips": len(found.clips),
            "seconds": round(found.seconds, 1), "held_out": len(self.held), "left_out": found.left_out,
            "doubtful": found.doubtful,
            "mended": {what: count for what, count in found.mended.items() if count}, "rank": self.learning.rank,
            **({"speakers": self.voices} if len(self.voices) > 1 else {}),
            **({"memory_bytes": self.room.size_bytes, **asdict(self.room.way)} if self.room is not None else {}),
        }  # fmt: skip


@dataclass(frozen=True)
class Tuned:
    """The result of a run."""

    plan: TunePlan
    course: Course | None = None  # None: nothing was learned, as with `dry_run`
    compared: Compared | None = None
    voice: Path | None = None  # with all weights the folder of the model; of several speakers the first one's file
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
    rate: float | None = None,
    epochs: int = LearningPlan.epochs,
    minutes: float | None = None,
    share: float = 0.1,
    seed: int = 0,
    folder: str | PathLike[str] | None = None,
    transcribe: bool = False,
    asr_model: str | None = None,
    allow: Collection[str] = (),
    replace: bool = False,
    full: bool = False,
    samples: bool = False,
    keep: int = KEPT_EPOCHS,
    tensorboard: bool = False,
    dry_run: bool = False,
    confirm: Callable[[TunePlan], bool] = lambda plan: True,
    tell: Callable[[Notice], None] = lambda notice: None,
    look: LookAt = lambda stage: None,
    device: str = "auto",
    threads: int | None = None,
    max_memory: int | None = None,
    offline: bool = False,
) -> Tuned:
    """Teaches a model the voice of a person, and saves it under `name`. The same call again continues a run.

    recordings: a folder of sound files with texts of the same names, or a manifest.
    consent: who the person is and when they agreed; it is stored in the voice.
    language: of the recordings, a code such as "en".
    folder: where the run keeps what it has done.
    transcribe: a speech recogniser (asr_model) writes missing texts and cuts long recordings. It also checks the other
    texts, and counts word errors of the result, as Whisper does without being asked if it is on the machine.
    allow: reasons for which no clip is left out, of recordings.ALLOWED.
    full: all weights learn instead of an adapter; the result is a model folder, `model` in the folder of the run.
    max_memory: bytes of the device; with `full`, what is slower but takes less is chosen by it, or by what is free.
    samples: three sentences are spoken after each epoch.
    tensorboard: its curves are written as well, into `tensorboard` in the folder of the run.
    keep: how many of the last epochs leave their voices in the folder of the run; the best epoch does, too.
    confirm: asked with the plan before anything is learned; tell, look: called with notices and progress.

    If the tuned voice is not better than a plain clone, the clone is saved: see `Tuned.won` and `verdict`.
    """
    voice_files.check_name(name)
    if not replace and not dry_run:
        voice_files.check_free(name)
    if not dry_run and not (consent and consent.strip()):
        raise UsageError(
            "whose voice is this, and have they agreed to it being copied?", hint='--consent "who, and when"'
        )
    if tensorboard:
        check_tensorboard()
    if unknown := [one for one in allow if one not in ALLOWED]:
        raise UsageError(
            f"--allow {unknown[0][:40]} is not known", hint=f"--allow {','.join(ALLOWED).replace(' ', '-')}"
        )
    chosen, settings = device_of(fspath(model), device, threads, offline, full, max_memory)
    if full and samples:
        raise UsageError("--samples speaks adapters only", hint="leave out --full or --samples")
    place = Path(folder) if folder is not None else runs() / name
    check_own(place)
    rate = rate or (FULL_RATE if full else LearningPlan.rate)
    learning = LearningPlan(full=full, rank=rank, alpha=2.0 * rank, rate=rate, epochs=epochs, minutes=minutes,
                            seed=seed, step_s=CARD_STEP_S if chosen.captures else LearningPlan.step_s)  # fmt: skip
    transcriber = recogniser(offline, tell, asr_model, BY_HAND) if transcribe else recogniser_here()
    transcripts = transcriber and Transcripts(
        transcriber, place / TRANSCRIPTS, transcribe, is_accurate(asr_model), language
    )
    try:
        plan = planned(
            fspath(recordings), name, fspath(model), place, learning, share, chosen.name, tell, look, transcripts, allow
        )
    finally:
        if transcripts is not None:
            transcripts.keep()  # also if nothing is learned now: people can correct them first
    if full:
        plan = with_room(plan, chosen)
    plan.check(free=not (replace or dry_run))
    if dry_run or not confirm(plan):
        return Tuned(plan, stopped=not dry_run)
    place.mkdir(parents=True, exist_ok=True)
    lock = Lock(place, str(place))
    try:
        with torch.inference_mode(False):
            run = TuneRun(plan, chosen, settings, language, tell, look, transcriber)
            return run.tuned(consent or "", licence, samples, keep, tensorboard)
    finally:
        lock.release()


def device_of(
    model: str, device: str, threads: int | None, offline: bool, full: bool, max_memory: int | None = None
) -> tuple[Device, EngineSettings]:
    """Where it learns, and in which precision: a card keeps weights that do not learn in its own."""
    given = {"device": device, "threads": threads, "offline": offline, "max_memory": max_memory}
    chosen = device_for(model, EngineSettings.of(given, "tune()"))
    if chosen.few_graphs:
        if device != "auto":
            raise DeviceError(f"tuning on {chosen.name} is not possible yet", hint="-d cpu")
        given["device"] = "cpu"
        chosen = device_for(model, EngineSettings.of(given, "tune()"))
    dtype = "auto" if chosen.captures and not full else "fp32"
    return chosen, EngineSettings.of({**given, "dtype": dtype}, "tune()")


def with_room(plan: TunePlan, device: Device) -> TunePlan:
    """The plan with the way in which all weights learn. Without one if the model has not been downloaded yet."""
    found = here(plan.model, variant="base")
    if isinstance(found, HubName) or found.folder is None or (family := family_of(found.folder)).stored is None:
        return plan
    room = plan.learning.room(family.stored(family.read_config(found.folder)).language[1], device)
    return changed(plan, room=room, learning=changed(plan.learning, way=room.way))


def planned(
    recordings: str, name: str, model: str, folder: Path, learning: LearningPlan, share: float, device: str,
    tell: Callable[[Notice], None], look: LookAt, transcripts: Transcripts | None = None, allow: Collection[str] = (),
) -> TunePlan:  # fmt: skip
    """Reads the recordings."""
    with tempfile.TemporaryDirectory(prefix="omnitts-tune-") as work:
        rows = rows_in(recordings, Path(work), folder / UNPACKED, transcripts is not None and transcripts.fills)
    found = examine(rows, tell, lambda count: look(TuneStage("reading", count / len(rows))), transcripts, allow)
    if found.seconds > MUCH_S:
        tell(Notice(f"{found.seconds / 3600:.0f} hours are more than an adapter can learn", plain=True))
    texts = held_out(found.clips, share)
    held = tuple(clip for clip in found.clips if clip.text in texts)
    return TunePlan(name, model, folder, found, tuple(clip for clip in found.clips if clip.text not in texts), held,
                    learning, device)  # fmt: skip


class TuneRun:
    """A run from a plan to a saved voice."""

    def __init__(
        self, plan: TunePlan, device: Device, settings: EngineSettings, language: str | None,
        tell: Callable[[Notice], None], look: LookAt, transcriber: Transcriber | None = None,
    ) -> None:  # fmt: skip
        self.device, self.tell, self.look, self.settings = device, tell, look, settings
        self.code, self.transcriber = language, transcriber
        found = find(plan.model, variant="base", offline=settings.offline)
        if found.folder is None:
            raise ModelError(f"{plan.model} has random weights, which cannot be tuned", hint=f"-m {EMBEDDED}")
        self.name, self.base = found.name, found.folder
        self.plan = plan if plan.room is not None or not plan.learning.full else with_room(plan, device)
        if self.plan.room is not None and not self.plan.room.fits:
            tell(Notice("all weights may not fit into the memory", cause=self.plan.room.words, hint="leave out --full"))
        self.model, self.pieces = stored_model(ModelSource(found.folder, found.name), device, settings, tell, plain.OPS)
        if "cloned" not in self.model.kinds or self.model.cloner is None:
            raise ModelError(f"{found.name} cannot clone, so it cannot be tuned", hint="-m 0.6b-base   or   -m tiny")
        if found.name != EMBEDDED and not device.captures:
            tell(Notice(f"tuning {found.name} on a CPU takes hours", hint="-m tiny   tries the recordings first"))
        self.sum = identity(found.folder, read=True) or ""
        self.language = LANGUAGES.get(language or "", None)

    def tuned(
        self, consent: str, licence: str | None, samples: bool = False, keep: int = 0, tensorboard: bool = False
    ) -> Tuned:  # fmt: skip
        learned, held = self.prepared()
        refuse_few(held)
        trainer = self.trainer(learned, held)
        trainer.refuse_misfits()
        listener = Listener(self, trainer)
        self.warn_of_codes(listener.missed_in(held))
        sampler = EpochSamples(self, trainer, listener) if samples else None
        made = {"consent": consent, "licence": licence or "", "made": time.strftime("%Y-%m-%d", time.gmtime())}

        def listen(epoch: int) -> dict[str, float]:
            self.keep_epoch(trainer, epoch, keep, made)
            draw(self.plan.folder)
            if tensorboard:
                write_events(self.plan.folder)
            return sampler.spoken(epoch) if sampler else {}

        course = trainer.run(self.plan.folder, self.tell, self.learning, listen)
        adapter, vectors = trainer.result()
        clones = {
            who: Voice(Cloned(one), "clone", self.about()) for who, one in zip(vectors, trainer.given, strict=True)
        }
        voices = {who: Voice(Cloned(one), self.plan.voices[who], self.about(), adapter=adapter)
                  for who, one in vectors.items()}  # fmt: skip
        first = next(iter(voices))
        whole = self.whole_model(trainer, voices[first], consent, licence) if adapter is None else None
        if whole is not None:
            self.forget_learned()
        compared = self.compared(clones, voices, [*held, *learned], whole, listener)
        self.warn_of_pace(compared)
        self.tell_of_words(compared)
        about = {**self.about(), "source": "tuned" if compared.won else "clone", **made}
        if compared.won:
            about |= self.facts(course, compared)
        about = {key: value for key, value in about.items() if value}
        pair = clones[first], voices[first]
        if whole is not None and compared.won:
            return Tuned(self.plan, course, compared, whole, pair=pair)
        if whole is not None:
            shutil.rmtree(whole)
        if compared.won:
            put(self.plan.folder / CARD, adapters.card(self.plan.name, about).encode(), private=True)
        kept = []
        for who, voice in (voices if compared.won else clones).items():
            assert isinstance(voice.identity, Cloned)
            saved = voice_files.SavedVoice(self.plan.voices[who], voice.identity, about, None, voice.adapter)
            kept.append(voice_files.save(saved, replace=True))
        return Tuned(self.plan, course, compared, kept[0], pair=pair)

    def whole_model(self, trainer: Trainer, voice: Voice, consent: str, licence: str | None) -> Path:
        """The model that was learned, as a folder that speaks the voice by its name."""
        target = self.plan.folder / "model"
        shutil.rmtree(target, ignore_errors=True)
        part = self.pieces.language
        about = {**self.about(), "consent": consent, "licence": licence or ""}
        readme = adapters.card(self.plan.name, {key: value for key, value in about.items() if value})
        assert isinstance(voice.identity, Cloned)
        write_model(self.base, target, self.plan.name, voice.identity.embedding, readme,
                    learned=stored(part.module, part.names))  # fmt: skip
        return target

    def keep_epoch(self, trainer: Trainer, epoch: int, keep: int, made: dict[str, str]) -> None:
        """Writes what was learned so far as voice files, which `-v FILE` speaks, and removes those of earlier epochs,
        except the best. With `full` nothing is kept: each epoch would take gigabytes."""
        adapter, vectors = trainer.now()
        if adapter is None or not keep:
            return
        folder = self.plan.folder / "epochs"
        make_folder(folder, private=True)
        about = {key: value for key, value in {**self.about(), "source": f"epoch {epoch}", **made}.items() if value}
        for who, vector in vectors.items():
            stem = f"epoch-{epoch:03}-{self.plan.voices[who]}"
            voice = voice_files.SavedVoice(self.plan.voices[who], Cloned(vector), about, None, adapter)
            voice_files.write(voice, folder / f"{stem}{voice_files.SUFFIX}")
        stay = {*range(epoch - keep + 1, epoch + 1), trainer.course.best_epoch}
        for path in folder.glob(f"epoch-*{voice_files.SUFFIX}"):
            if (number := path.name.split("-")[1]).isdigit() and int(number) not in stay:
                path.unlink()

    def forget_learned(self) -> None:
        """Puts the weights of the model back in their places, so that it can listen as it was."""
        part = self.pieces.language
        files = Checkpoint.open(self.base / part.folder)
        with torch.no_grad():
            for name, weight in tensors_of(part.module).items():
                if name in part.names:
                    stored = torch.empty(weight.shape)
                    read(part.names[name], files, stored)
                    weight.copy_(stored)

    def warn_of_codes(self, missed: float | None) -> None:
        """Warns, before anything is learned, if the codes of the recordings have lost many words."""
        if missed is not None and missed > CODED_BADLY:
            self.tell(Notice(
                f"{self.name} misses {missed:.0%} of the words once its codec has encoded the recordings",
                cause="the codec does not suit this voice; a tuned voice would lose words too",
                hint="omnitts clone   or   -m 0.6b-base on a card",
            ))  # fmt: skip

    def tell_of_words(self, compared: Compared) -> None:
        """What is known about the words of the tuned voice, beside the verdict."""
        if compared.words_lost:
            self.tell(Notice("the tuned voice has lost words", cause=compared.words))
        elif compared.won and compared.errors is None:
            self.tell(Notice("no speech recogniser has checked the words of the tuned voice",
                             hint="listen to it   or   --transcribe"))  # fmt: skip

    def warn_of_pace(self, compared: Compared) -> None:
        drift = compared.pace_tuned / compared.pace_recorded - 1
        if abs(drift) > DRIFT:
            self.tell(Notice(f"the tuned voice speaks {abs(drift):.0%} {'faster' if drift > 0 else 'slower'} than the "
                             "recordings", hint="listen to the samples of the run"))  # fmt: skip

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
            self.model.facts.samples_per_frame, COPIES, self.plan.folder / PREPARED, self.sum,
            lambda count: self.look(TuneStage("encoding", count / len(clips))),
        )  # fmt: skip
        self.warn_of_others(clips, found)
        return found[: len(self.plan.learned)], found[len(self.plan.learned) :]

    def warn_of_others(self, clips: Sequence[SpokenClip], prepared: Sequence[PreparedClip]) -> None:
        """Warns of clips that may be those of other people: by their vectors they are unlike the rest."""
        unlike = []
        for who in {clip.speaker for clip in prepared}:
            mean = np.mean([one.vector for one in prepared if one.speaker == who], axis=0)
            unlike += [clip.name for clip, one in zip(clips, prepared, strict=True)
                       if one.speaker == who and cosine(one.vector, mean) < UNLIKE]  # fmt: skip
        if unlike:
            self.tell(Notice(f"{len(unlike)} recordings sound unlike the others", cause=", ".join(sorted(unlike)[:3]),
                             hint="is it one speaker? Otherwise a column 'speaker' in the list"))  # fmt: skip

    def trainer(self, learned: list[PreparedClip], held: list[PreparedClip]) -> Trainer:
        part = self.pieces.language
        assert isinstance(part.module, Language)
        ids = Ids(self.model.prompter.pad, self.model.facts.end_code, self.language)
        return Trainer(
            part.module, part.names, self.model.prompter, ids, learned, held, self.device, self.plan.learning,
            self.references(),
        )  # fmt: skip

    def references(self) -> dict[str, np.ndarray]:
        """By speaker, the mean vector of the clips that the data name for it, as those of the published trainer do."""
        assert self.model.cloner is not None
        found = {}
        for who in {clip.speaker for clip in self.plan.learned}:
            named = {clip.reference for clip in self.plan.learned if clip.speaker == who and clip.reference}
            sounds = [read_sound(path, rate=RATE).sound for path in sorted(named)]
            if sounds:
                found[who] = np.mean([self.model.cloner.embedding(one) for one in sounds], axis=0, dtype=np.float32)
        return found

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

    def compared(
        self, clones: dict[str, Voice], voices: dict[str, Voice], clips: list[PreparedClip], whole: Path | None,
        listener: "Listener",
    ) -> Compared:  # fmt: skip
        """The verdict; a few of the samples are kept. `clips`: of each speaker the held-out ones first."""
        english = SENTENCES if self.code in (None, "en") else ()
        texts = [*english, *dict.fromkeys(clip.text for clip in self.plan.held)][:MOST]
        found: list[list[Sample]] = [[], []]
        total = 2 * len(voices) * len(texts)
        for number, chosen in enumerate((clones, voices)):
            for who, voice in chosen.items():
                own = [clip.vector for clip in clips if clip.speaker == who][: max(1, len(self.plan.held))]
                person, done = np.mean(own, axis=0), number * total // 2 + len(found[number])

                def look(count: int, done: int = done) -> None:
                    self.look(TuneStage("comparing", (done + count) / total))

                with self.speaking(voice, whole if number else None) as tts:
                    assert self.model.cloner is not None
                    name = self.plan.name if number and whole else voice
                    made = spoken(tts, name, self.model.cloner, texts, person, look, self.word_errors,
                                  partial(listener.missed, who))  # fmt: skip
                self.keep(made[:KEPT_SAMPLES], f"{'tuned' if number else 'clone'}{f'-{who}' if who else ''}")
                found[number] += made
        return compare(found[0], found[1], self.pace, TINY_ERRS if self.name == EMBEDDED else 0.0)

    @property
    def pace(self) -> float:
        """Letters a second in the recordings."""
        return float(np.mean([pace_of(clip.text, clip.seconds) for clip in self.plan.recordings.clips]))

    def speaking(self, voice: Voice, whole: Path | None = None) -> TTS:
        """An engine that speaks a voice, or the model in a folder."""
        at = self.settings
        options: dict[str, Any] = {
            "device": self.device.name,
            "threads": at.threads,
            "dtype": at.dtype,
            "offline": True,
        }
        return load(self.name, voice=voice, **options) if whole is None else load(str(whole), **options)

    def keep(self, samples: Sequence[Sample], stem: str) -> None:
        """Writes samples into the folder of the run."""
        for count, sample in enumerate(samples, 1):
            path = self.plan.folder / "samples" / f"{stem}-{count}.flac"
            path.parent.mkdir(exist_ok=True)
            Clip(sample.sound, RATE, 0).save(path)

    def word_errors(self, text: str, sound: np.ndarray) -> float | None:
        """The share of the words that the recogniser gets wrong; None without one."""
        if self.transcriber is None:
            return None
        return wer(text, self.transcriber(resample(sound, RATE, HEARD_AT)), self.code)


class Listener:
    """Counts the words that the model, as it was before it learned, does not find in speech. See `heard`."""

    def __init__(self, run: TuneRun, trainer: Trainer) -> None:
        self._run, self._trainer = run, trainer
        texts = [clip.text for clip in (*run.plan.learned, *run.plan.held)]
        self._others = vocabulary([*SENTENCES, *texts])

    def missed(self, speaker: str, text: str, sound: np.ndarray) -> float | None:
        """In sound; None if the text has no words."""
        assert self._run.model.cloner is not None
        return self._missed(speaker, read_transcript(text, self._run.model), self._run.model.cloner.codes(sound))

    def missed_in(self, clips: Sequence[PreparedClip]) -> float | None:
        """In the codes of clips."""
        found = [self._missed(clip.speaker, clip.text, clip.copies[0]) for clip in clips[:LISTENED]]
        known = [one for one in found if one is not None]
        return float(np.mean(known)) if known else None

    def _missed(self, speaker: str, text: str, codes: np.ndarray) -> float | None:
        share = heard(text, codes, lambda texts, codes: self._trainer.plain_losses(texts, codes, speaker), self._others)
        return None if share is None else 1 - share


class EpochSamples:
    """What an adapter says after each epoch, and figures about it. Of several speakers, the first one speaks."""

    def __init__(self, run: TuneRun, trainer: Trainer, listener: Listener) -> None:
        self.run, self.trainer, self.listener = run, trainer, listener
        who = trainer.speakers[0]
        self._person = np.mean([clip.vector for clip in trainer.clips if clip.speaker == who], axis=0)

    def spoken(self, epoch: int) -> dict[str, float]:
        run, (adapter, vectors) = self.run, self.trainer.now()
        voice = Voice(Cloned(vectors[self.trainer.speakers[0]]), "sample", run.about(), adapter=adapter)
        with run.speaking(voice) as tts:
            assert run.model.cloner is not None
            made = spoken(tts, voice, run.model.cloner, SENTENCES[:SAMPLED], self._person, lambda count: None,
                          run.word_errors, partial(self.listener.missed, self.trainer.speakers[0]))  # fmt: skip
        run.keep(made, f"epoch-{epoch:02}")
        pace = float(np.mean([sample.pace for sample in made]))
        missed = [sample.missed for sample in made if sample.missed is not None]
        return {"likeness": float(np.mean([sample.likeness for sample in made])), "pace": pace,
                "pace_recorded": run.pace, **({"missed": float(np.mean(missed))} if missed else {})}  # fmt: skip
