"""BatchJob: one `omnitts batch`, from the manifest to the report."""

import json
import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from omnitts_cli import files
from omnitts_cli.audio.encode import SoundFormat, choose_format
from omnitts_cli.audio.outlet import make_folder
from omnitts_cli.devices.fingerprint import fingerprint
from omnitts_cli.devices.system import physical_cores
from omnitts_cli.errors import DeviceError, InputError, Notice, OutputError, UsageError
from omnitts_cli.fleet import disk
from omnitts_cli.fleet.content import Keys, model_mask, tuned_voice
from omnitts_cli.fleet.disk import OURS, WORK
from omnitts_cli.fleet.journal import FAILED, Lookup, RowJournal, read
from omnitts_cli.fleet.listing import Listing
from omnitts_cli.fleet.manifest import checked_kind, open_manifest
from omnitts_cli.fleet.names import name_hash
from omnitts_cli.fleet.part import SoundRecipe, Writers, writers_beside_a_gpu
from omnitts_cli.fleet.plan import Naming, RowPlan, plan_of
from omnitts_cli.fleet.prune import counted, prune_doubles, prune_files, prune_shards
from omnitts_cli.fleet.report import Summary, write_results
from omnitts_cli.fleet.rows import RowRules, VoiceChoice
from omnitts_cli.fleet.run import BatchRun, CorpusRun, Look, Pending
from omnitts_cli.fleet.speaker import RowSpeaker
from omnitts_cli.fleet.store import PARTS, Files, ParquetParts, Shards, Store
from omnitts_cli.fleet.verify import Recogniser, Verifier
from omnitts_cli.settings.corpus import Corpus, Verification
from omnitts_cli.settings.table import Speech, TextIn
from omnitts_cli.speech.hub_recogniser import PREFIX, HubRecogniser
from omnitts_cli.speech.transcribe import Whisper
from omnitts_cli.speech.tts import TTS

OWNER = "run"  # file with the token of the run whose workers may commit
GPU_SLOTS = 64
THREADS_EACH = 4  # of a speech recogniser
BYTES_PER_S = {"wav": 1.0, "raw": 1.0, "flac": 0.55, "mp3": 0.1, "opus": 0.07, "ogg": 0.15}  # of 16-bit samples
MODEL_RATE = 24_000  # before the model is known
Opener = Callable[[str, str, int | None, str | None], AbstractContextManager[TTS]]
"""From the name of a model, its variant, its slots and a tuned voice to the open model."""


@dataclass(frozen=True)
class PlannedModel:
    """A model of the plan, before it is loaded."""

    name: str
    variant: str
    mask: np.ndarray
    on_cpu: bool
    dtype: str  # "float32", "q8" ...
    voice: str | None = None  # the tuned voice that it is opened for

    @staticmethod
    def of(name: str, machine: dict[str, Any]) -> "PlannedModel":
        from omnitts_cli.speech.load import known_before  # imports torch

        plain, variant, voice = [*name.split("|", 2), "", ""][:3]
        variant = variant or "custom_voice"
        folder, dtype, device = known_before(plain, variant=variant, **machine)
        return PlannedModel(plain, variant, model_mask(folder, plain, dtype), device == "cpu", dtype, voice or None)


@dataclass(frozen=True)
class BatchJob:
    """What the command was asked for."""

    manifest: str
    text: TextIn
    speech: Speech
    corpus: Corpus
    checks: Verification
    machine: dict[str, Any]  # fields of EngineSettings
    tell: Callable[[Notice], None]
    checking: Callable[[int], None] = lambda rows: None  # gets the number of rows checked so far
    look: Look = lambda pace: None
    confirm: Callable[[str], bool] = lambda question: False
    loaded: Callable[[], None] = lambda: None
    stdin: BinaryIO | None = None
    writers: int | None = None  # processes that make sound files; None: some beside a GPU
    workers: Callable[..., None] | None = None  # speaks rows somewhere else: cluster.speak_with_ray

    def run(self, open_model: Opener) -> Summary:
        """Speaks the corpus; returns a summary of its rows."""
        self.refuse_contradictions()
        out = self.folder()
        with ExitStack() as closing:
            work = self._folder(out)
            lock = disk.Lock(work, self.corpus.output_dir)
            closing.callback(lock.release)
            self.begin(work, closing)
            try:
                summary = self._locked(out, work, open_model, closing)
            except OSError as error:
                raise disk.failed(error, out) from error
            if self.machine.get("exact") and (work / "exact").exists():
                summary.exact = words_in(work / "exact")
            return summary

    def check(self, work: Path) -> RowPlan:
        """Only the check of the manifest."""
        return self._plan(work, 0)

    def folder(self) -> Path:
        """The output folder."""
        return Path(str(self.corpus.output_dir))

    def begin(self, work: Path, closing: ExitStack) -> None:
        """Called when the output belongs to this run, before its first use."""

    def refuse_contradictions(self) -> None:
        """Raises if the options contradict each other."""
        if self.corpus.output_dir is None:
            raise UsageError("batch needs a folder for its output", hint=f"omnitts batch {self.manifest} -O DIR")
        given = Path(self.manifest)
        if (
            given.name == OURS[0]
            and given.exists()
            and given.parent.resolve() == Path(self.corpus.output_dir).resolve()
        ):
            raise UsageError(f"{given} would be overwritten: it is the name of the output manifest", hint="rename it")
        if self.manifest != "-":
            checked_kind(self.manifest, self.corpus.manifest_format)  # before a folder is made

    def _folder(self, out: Path) -> Path:
        """The output folder and our folder in it."""
        work = out / WORK
        foreign = out.is_dir() and not work.exists()
        if foreign and (self.corpus.fresh or (self.corpus.flat and any(out.iterdir()))):
            raise OutputError(f"{out} was not made by omnitts batch", hint="choose a new folder with -O")
        if foreign and any((out / name).exists() for name in OURS):
            raise OutputError(
                f"{out} holds a manifest.jsonl or report that is not ours", hint="choose a new folder with -O"
            )
        make_folder(work)
        return work

    def _locked(self, out: Path, work: Path, open_model: Opener, closing: ExitStack) -> Summary:
        shutil.rmtree(work / PARTS, ignore_errors=True)
        make_folder(work / PARTS)
        if self.corpus.fresh:
            self.begin_again(out, work)
        begun = self._keep_kind(out, work / "to")
        journal = self.open_journal(out, work, closing)
        plan = self._plan(work, self._run_seed(work))
        closing.callback(plan.manifest.source.close)
        if self.corpus.verify_files:
            self._drop_damaged(work, plan, self.store(out, work, journal, None))
        listing = Listing(out, plan.naming.suffix, flat=plan.naming.flat, rows=plan.count) if self.lists_early else None
        if listing:
            closing.callback(listing.close)
        models = self._models(plan.models, work / "dtype", begun)
        store = self._opened(out, work, journal, closing, listing)
        run = CorpusRun(work, plan, [model.mask for model in models], journal, store)
        with Lookup(work) as lookup:
            todo = run.pending(lookup, retry_failed=self.corpus.retry_failed, keep=self._only(plan))
        speak = todo.speak[: self.corpus.limit] if self.corpus.limit else todo.speak
        self._announce(out, plan, todo, speak)
        codes = self.corpus.save_codes
        speak = np.concatenate([run.copy(todo.copy, codes=codes), speak])
        if self.corpus.prune:  # after rows with a new id have taken over the sound of the old one
            store.finish()
            self._prune(out, run)
            run.store = self._opened(out, work, journal, closing)
        if len(speak) or len(todo.later):
            self._speak(run, models, speak, todo.tries, open_model)
            if len(todo.later) and not self.corpus.limit:
                run.store.flush()
                self._speak(run, models, run.copy(todo.later, codes=codes), {}, open_model)
        run.store.finish()
        with Lookup(work) as lookup:
            summary = write_results(out, run, lookup, self.checks, self.tell)
        self.end(out, journal, summary)
        return summary

    def _announce(self, out: Path, plan: RowPlan, todo: Pending, speak: np.ndarray) -> None:
        """Says what is spoken again, and refuses what will not fit."""
        if todo.changed:
            what = f"{counted(todo.changed, 'row')} to be spoken again: text, voice, model or options have changed"
            self.tell(Notice(what, plain=True))
        if len(todo.copy) or len(speak) or len(todo.later):
            self.check_room(out, plan, speak)

    def end(self, out: Path, journal: RowJournal, summary: Summary) -> None:
        """Called when the results have been written."""

    def open_journal(self, out: Path, work: Path, closing: ExitStack) -> RowJournal:
        """Our journal, with all that workers of a run that was killed have made."""
        journal = RowJournal(work)
        closing.callback(journal.close)
        if (work / OWNER).exists():
            store = self.store(out, work, journal, None)
            self.take_over(work, store, journal)
            self.settle(work, store, journal)
        return journal

    # ---- workers

    def hand_over(self, work: Path) -> str:
        """Lets workers commit; returns the token that they need."""
        token = secrets.token_hex(8)
        disk.put(work / OWNER, token.encode())
        return token

    def token(self, work: Path) -> str:
        """The token of the run that owns the output."""
        return words_in(work / OWNER)

    def sent(self, plan: RowPlan) -> Any:
        """A plan, for workers."""
        return plan

    def enter(self, folder: Path) -> None:
        """Makes the folder of the command the current one of a worker: paths in options begin there."""
        os.chdir(folder)

    def received(self, plan: Any, work: Path) -> RowPlan:
        """The plan that was sent, on the machine of a worker."""
        found: RowPlan = plan
        return found

    def worker_folder(self, work: Path, name: str, token: str) -> Path:
        """Where a worker keeps what it is making."""
        return work

    def worker_journal(self, work: Path, name: str, token: str) -> RowJournal:
        """The journal of a worker."""
        return RowJournal(work, name)

    @property
    def late(self) -> bool:
        """Whether a worker that dies loses the rows of its unfinished shard."""
        return False

    def committed(self, work: Path, journal: RowJournal) -> np.ndarray:
        """Numbers of rows that workers have committed, maybe of some that were reported before."""
        return np.concatenate([np.zeros(0, np.uint32), *(read(path)["row"] for path in work.glob("journal-w*.bin"))])

    def take_over(self, work: Path, store: Store, journal: RowJournal) -> None:
        """Adds the records of workers to the journal. Workers that are still alive can commit nothing more."""
        disk.put(work / OWNER, b"none")
        journal.absorb(work, store.is_there)
        for path in work.glob("doing-*"):
            path.unlink(missing_ok=True)

    def settle(self, work: Path, store: Store, journal: RowJournal) -> None:
        """After take_over: ends the shards of all workers. A row that two workers have made is kept once."""
        if isinstance(store, Shards):
            store.finish()
            with Lookup(work) as lookup:
                store.end_all(lookup)
                prune_doubles(lookup, store, journal)
        (work / OWNER).unlink(missing_ok=True)

    # ---- before the model

    def _keep_kind(self, out: Path, path: Path) -> bool:
        """Refuses another `--to` than the folder's: all rows would be spoken again. Returns whether it was begun."""
        before = words_in(path) if path.exists() else ""
        if before and before != self.corpus.to:
            raise UsageError(
                f"{out} was made with --to {before}, not {self.corpus.to}",
                hint=f"--to {before}   or another folder, or --fresh",
            )
        self.keep(path, self.corpus.to)
        return bool(before)

    def _models(self, names: list[str], path: Path, begun: bool) -> list[PlannedModel]:
        """The models of the plan. Without --dtype, a corpus keeps the precision with which it was begun.

        Corpora without the file were begun when `auto` did not choose 8 bits.
        """
        if self.machine.get("dtype", "auto") == "auto" and path.exists():
            self.machine["dtype"] = words_in(path)
        models = [PlannedModel.of(name, self.machine) for name in names]
        if begun and not path.exists() and any(model.dtype == "q8" for model in models):
            if self.machine["dtype"] == "auto":
                self.tell(
                    Notice("this corpus was begun in float32 and keeps it", hint="--fresh --dtype q8", plain=True)
                )
                self.machine["dtype"] = "fp32"
                models = [PlannedModel.of(name, self.machine) for name in names]
        self.keep(path, self.machine.get("dtype", "auto"))
        return models

    def keep(self, path: Path, words: str) -> None:
        """Writes one of the small files that belong to the corpus."""
        disk.put(path, words.encode())

    def check_bits(self, work: Path, found: str) -> None:
        """With --exact: refuses a second fingerprint (what the bits of sound depend on) in one corpus."""
        if not self.machine.get("exact"):
            return
        path = work / "exact"
        before = words_in(path) if path.exists() else found
        if before != found:
            raise DeviceError(
                f"--exact: this corpus was begun with fingerprint {before}, and this device has {found}",
                cause="other cards, versions or kernels may give other bytes",
                hint="omnitts doctor   on each machine; or leave out --exact, or --fresh",
            )
        self.keep(path, found)

    def _run_seed(self, work: Path) -> int:
        """--seed, or one that was drawn once for this folder."""
        if self.speech.seed is not None:
            return self.speech.seed
        path = work / "seed"
        if not path.exists():
            self.keep(path, str(secrets.randbits(47)))
        try:
            return int(words_in(path))
        except ValueError:
            raise InputError(f"{path} does not hold a seed", hint="--seed N   or --fresh") from None

    def _plan(self, work: Path, run_seed: int) -> RowPlan:
        corpus, checks = self.corpus, self.checks
        manifest = open_manifest(self.manifest, corpus.manifest_format, work, self.stdin, corpus.ignore_unknown)
        form = self.form(MODEL_RATE)
        verification = (
            [checks.verify, checks.max_wer, checks.tries, checks.asr_model] if checks.verify != "none" else []
        )
        extra = {
            "format": [corpus.format, corpus.sample_rate, corpus.subtype],
            "verification": verification,
            "empty": corpus.empty,
            "codes": corpus.save_codes,
            "chunks": [self.machine["first_chunk"], self.machine["chunk"]],
            **({"exact": True} if self.machine.get("exact") else {}),
        }
        keys = Keys(self.text, self.speech, extra, run_seed)
        rules = RowRules(
            base=Path(corpus.clips_from) if corpus.clips_from else manifest.base,
            form="text" if self.text.input_format == "auto" else self.text.input_format,
            typed=manifest.typed,
            by_line=manifest.by_line,
            ignore_unknown=corpus.ignore_unknown,
            empty=corpus.empty,
            name=manifest.name,
        )
        suffix = form.suffix if corpus.to == "files" else ""
        return plan_of(manifest, rules, keys, Naming(suffix, corpus.flat), work, self.checking)

    def form(self, rate: int) -> SoundFormat:
        """The sound format, for a model of this sample rate."""
        corpus = self.corpus
        return choose_format(None, corpus.format, model_rate=rate, rate=corpus.sample_rate, subtype=corpus.subtype)

    @property
    def lists_early(self) -> bool:
        """Whether sound files can be listed before the rows are known, as none of them will be removed."""
        return self.corpus.to == "files" and not self.corpus.prune

    def store(
        self, out: Path, work: Path, journal: RowJournal, lookup: Lookup | None, listing: Listing | None = None
    ) -> Store:
        """Where sound goes. `lookup`: None for a worker."""
        corpus, suffix = self.corpus, f".{self.corpus.format}"
        if corpus.to == "webdataset":
            return Shards(out, suffix, corpus.shard_size, lookup)
        if corpus.to == "parquet":
            return ParquetParts(out, suffix, corpus.shard_size, lookup, work)
        return Files(out, codes=corpus.save_codes, listing=listing)

    def _opened(
        self, out: Path, work: Path, journal: RowJournal, closing: ExitStack, listing: Listing | None = None
    ) -> Store:
        """The store, with all that the journals know."""
        with Lookup(work) as lookup:
            store = self.store(out, work, journal, lookup, listing)
        closing.callback(store.close)
        return store

    def _only(self, plan: RowPlan) -> np.ndarray | None:
        """The rows of --only."""
        if not self.corpus.only:
            return None
        found = []
        for id in self.corpus.only:
            names = [name_hash(plan.naming.path(id, capitals)) for capitals in (False, True)]
            at = np.flatnonzero(np.isin(plan.rows["name"], np.array(names, np.uint64)))
            if not len(at):
                raise InputError(f"no row has the id '{id[:80]}'", hint=f"grep '{id[:80]}' {self.manifest}")
            found.append(at)
        return np.concatenate(found)

    def check_room(self, out: Path, plan: RowPlan, rows: np.ndarray) -> None:
        """Refuses to begin where the sound will certainly not fit."""
        needed = self.bytes_for(float(plan.rows["expected"][rows].sum()))
        free = disk.free_bytes(out)
        if needed > free:
            raise OutputError(
                f"not enough space in {out}: about {needed:,} bytes are needed, {free:,} are free",
                hint="--limit N   or -F opus, which needs about a tenth of wav",
            )

    def bytes_for(self, seconds: float) -> int:
        return int(seconds * (self.corpus.sample_rate or MODEL_RATE) * 2 * BYTES_PER_S[self.corpus.format])

    # ---- with the model

    def _speak(
        self, run: CorpusRun, models: list[PlannedModel], rows: np.ndarray, tries: dict[int, int], open_model: Opener
    ) -> None:
        """Speaks rows, one model after the other."""
        rows, plan, pace = np.sort(rows), run.plan, run.pace
        pace.rows += len(rows)
        pace.expected_s += float(plan.rows["expected"][rows].sum())
        for number, model in enumerate(models):
            mine = rows[plan.rows["model"][rows] == number]
            if not len(mine):
                continue
            if self.workers is not None:
                self.workers(self, run, model, mine, tries)
                continue
            with ExitStack() as closing:
                tts = closing.enter_context(open_model(model.name, model.variant, self.slots(model), model.voice))
                speaker = self.speaker(tts, plan, run.work, model, closing)
                self.check_bits(run.work, bits_of(tts))
                self.loaded()
                pace.begin()
                try:
                    BatchRun(run, speaker, self.look).speak(mine, tries)
                except (OutputError, OSError) as error:
                    cause = error if isinstance(error, OSError) else error.__cause__
                    if not isinstance(cause, OSError):
                        raise
                    left = self.bytes_for(max(pace.expected_s - pace.expected_done_s, 0.0))
                    raise disk.failed(cause, run.work.parent, left) from cause

    def speaker(self, tts: TTS, plan: RowPlan, work: Path, model: PlannedModel, closing: ExitStack) -> RowSpeaker:
        """What speaks rows through an open model."""
        verifier = self._verifier(closing)
        form = self.form(tts.sample_rate)
        for words in form.notices:
            self.tell(Notice(words))
        if not model.on_cpu and form.name == "opus":
            self.tell(Notice("encoding opus takes many CPU cores beside a fast GPU", hint="-F flac"))
        loudness = None if self.speech.loudness == "off" else float(self.speech.loudness)
        recipe = SoundRecipe(form, tts.sample_rate, loudness, sync=self.corpus.to == "files")
        writers = None
        if count := writers_beside_a_gpu() if self.writers is None and not model.on_cpu else self.writers:
            writers = Writers(count, recipe)
            closing.callback(writers.close)
        speaker = RowSpeaker(
            tts, plan.keys, self.text, self.speech, recipe, work, self.tell, self.checks.tries, verifier,
            self.corpus.empty, self.corpus.save_codes, writers,
        )  # fmt: skip
        if tuned_voice(plan.keys.speaker(VoiceChoice())) == model.voice:
            speaker.voice(VoiceChoice())  # an unknown --voice ends the run now, instead of failing every row
        return speaker

    def slots(self, model: PlannedModel) -> int | None:
        return GPU_SLOTS if self.machine["slots"] is None and not model.on_cpu else self.machine["slots"]

    def _verifier(self, closing: ExitStack) -> Verifier | None:
        if self.checks.verify == "none":
            return None
        cores = max(1, physical_cores() // 2)  # the others are the engine's
        workers = max(1, cores // THREADS_EACH)
        model, where = self.checks.asr_model, self.checks.asr_device
        offline = bool(self.machine["offline"])
        recogniser: Recogniser
        if model is not None and model.startswith(PREFIX):
            workers, recogniser = 1, HubRecogniser(model, device=where, offline=offline)
        else:
            try:
                recogniser = Whisper(
                    model, device=where, threads=min(cores, THREADS_EACH), workers=workers, offline=offline
                )
            except ImportError:
                raise UsageError(
                    "--verify asr needs faster-whisper, which is not installed", hint="pip install faster-whisper"
                ) from None
        verifier = Verifier(recogniser, self.checks.max_wer, workers)
        closing.callback(verifier.close)
        return verifier

    # ---- tidying

    def sure(self, question: str) -> bool:
        """Whether something may be removed."""
        return self.corpus.yes or self.confirm(question)

    def forget(self, work: Path) -> None:
        """Removes our small files, but for the lock."""
        for path in work.iterdir():
            if path.is_file() and path.name != disk.LOCK:
                path.unlink()

    def begin_again(self, out: Path, work: Path) -> None:
        """--fresh: removes what earlier runs made."""
        if not self.sure(f"Remove all speech that earlier runs made in {out}?"):
            raise UsageError("--fresh was not confirmed", hint="--fresh -y")
        with Lookup(work) as lookup:
            names = set(lookup.records["name"].tolist())
        for path in [*out.glob("shard-*.tar"), *out.glob("part-*.parquet"), *(out / name for name in OURS)]:
            path.unlink(missing_ok=True)
        for path in made_files(out):
            if name_hash(path.relative_to(out).as_posix()) in names:
                path.unlink()
                path.with_name(f"{path.stem}.codes.npy").unlink(missing_ok=True)
        self.forget(work)
        shutil.rmtree(work / "shards", ignore_errors=True)

    def _prune(self, out: Path, run: CorpusRun) -> None:
        """--prune: removes the sound of rows that are gone from the manifest."""
        with Lookup(run.work) as lookup:
            store = self.store(out, run.work, run.journal, lookup)
            if isinstance(store, Files):
                count, what = prune_files(run.plan, lookup, store, self.sure), "file"
            else:
                store.finish()  # the last shard is ended, so that it can be read
                assert isinstance(store, Shards)
                count, what = prune_shards(run.plan, lookup, run.keys, store, run.journal, self.sure), "sample"
        if count:
            self.tell(Notice(f"removed {counted(count, what)} whose rows are gone", plain=True))

    def _drop_damaged(self, work: Path, plan: RowPlan, store: Store) -> None:
        """--verify-files: drops sounds whose SHA-256 differs from their record, so that they are made again."""
        with Lookup(work) as lookup:
            damaged = []
            for index, record in enumerate(lookup.of_names(plan.rows["name"]).tolist()):
                if record < 0 or lookup.records["state"][record] == FAILED:
                    continue
                output = json.loads(lookup.details(record))["output"]
                if store.sound(lookup.records[record], output) is None:
                    if not isinstance(store, Files):
                        raise OutputError(f"row {index + 1} is damaged in its shard", hint="--fresh")
                    damaged.append(output)
            store.close()
        if damaged:
            assert isinstance(store, Files)
            store.remove(damaged)
            self.tell(Notice(f"{counted(len(damaged), 'file')} damaged: spoken again", plain=True))


def bits_of(tts: TTS) -> str:
    """The fingerprint of what the bits of a sound depend on, besides request and model."""
    return fingerprint(tts.engine.device)


def made_files(out: Path) -> Iterator[Path]:
    """Everything in the folder but our own records."""
    for path in out.rglob("*"):
        if WORK not in path.relative_to(out).parts and path.is_file():
            yield path


def words_in(path: Path) -> str:
    """The content of one of the small files that belong to the corpus; InputError where it is damaged."""
    try:
        words = files.read(path, files.SMALL).decode("ascii")
    except (OSError, UnicodeDecodeError) as error:
        words, cause = "\0", getattr(error, "strerror", None)
    else:
        cause = None
    if not words.isprintable():
        raise InputError(f"{path} is damaged", cause=cause, hint="--fresh   or put back what it held")
    return words
