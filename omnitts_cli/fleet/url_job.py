"""UrlJob: a batch whose output folder is in an object store.

What other runs need lies there: sound, journal, seed and results. The folder on this machine is a cache: it may be lost
at any time.
"""

import hashlib
import platform
import re
import secrets
import shutil
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from omnitts_cli.errors import OutputError, UsageError
from omnitts_cli.fleet import disk
from omnitts_cli.fleet.bucket import Bucket, Owner, owner_of
from omnitts_cli.fleet.disk import OURS, WORK
from omnitts_cli.fleet.job import BatchJob
from omnitts_cli.fleet.journal import FAILED, Lookup, RowJournal, made_differently
from omnitts_cli.fleet.listing import FOLDERS, Listing
from omnitts_cli.fleet.manifest import Manifest
from omnitts_cli.fleet.names import name_hash
from omnitts_cli.fleet.objects import CLAIMS, ObjectFiles, ObjectShards
from omnitts_cli.fleet.plan import RowPlan, beside
from omnitts_cli.fleet.prune import prune_doubles
from omnitts_cli.fleet.report import Summary
from omnitts_cli.fleet.segments import FOLDER, Mirror, Segments, next_run
from omnitts_cli.fleet.store import Shards, Store, codes_of
from omnitts_cli.parse import json_value
from omnitts_cli.speech.voice_files import SUFFIX

SHARD = re.compile(r"(?:shard-\d+\.tar|part-\d+\.parquet)")  # names that this run would give and remove
KEPT = ("to", "seed", "exact")  # small files of the work folder that belong to the corpus
INPUTS = f"{WORK}/inputs"  # plan and manifest, for workers
LOST = ("memory",)  # schemes of stores that end with the process
MOST_FILES = 1000  # whose presence each worker checks


class UrlJob(BatchJob):
    """Job, with a URL as its output."""

    @cached_property
    def bucket(self) -> Bucket:
        return Bucket(str(self.corpus.output_dir))

    @cached_property
    def owner(self) -> Owner:
        """This run as the owner of the bucket, from the first use. Its token begins with the number of the run."""
        return Owner(self.bucket, f"{next_run(self.bucket)}-{secrets.token_hex(8)}")

    @property
    def late(self) -> bool:
        return self.corpus.to != "files"

    def refuse_contradictions(self) -> None:
        super().refuse_contradictions()
        url = str(self.corpus.output_dir)
        if url.startswith(("file://", "local://")):
            raise UsageError(f"{url} is a folder, not an object store", hint=f"-O {url.partition('://')[2] or '/'}")
        if url.startswith(("http://", "https://")):
            raise UsageError(f"{url} cannot be written to", hint="-O s3://BUCKET/FOLDER   or gs://, az://")
        scheme, _, rest = url.partition("://")
        if not rest.strip("/"):
            raise UsageError(f"{url} names no bucket", hint=f"-O {scheme}://BUCKET/FOLDER")
        if scheme in LOST:
            raise UsageError(f"{url} is the memory of this process: nothing would be left of the corpus", hint="-O DIR")

    def folder(self) -> Path:
        import platformdirs

        digest = hashlib.sha256(self.bucket.url.encode()).hexdigest()[:24]
        return platformdirs.user_cache_path("omnitts", appauthor=False) / "batch" / digest

    def begin(self, work: Path, closing: ExitStack) -> None:
        """Takes the output, if it is ours or empty, and copies what belongs to it."""
        there = self.bucket.sizes()
        ours = self.bucket.sizes(WORK).keys() | self.bucket.sizes(FOLDER).keys()
        if not ours and any(name in there for name in OURS):
            raise OutputError(f"{self.bucket.url} holds a manifest.jsonl or report that is not ours",
                              hint="choose another URL with -O")  # fmt: skip
        if not ours and any(SHARD.fullmatch(name) for name in there):
            raise OutputError(f"{self.bucket.url} holds shards that are not ours",
                              hint="choose another URL with -O")  # fmt: skip
        if not ours and there and (self.corpus.fresh or self.corpus.flat):
            raise OutputError(f"{self.bucket.url} was not made by omnitts batch", hint="choose another URL with -O")
        closing.callback(self.owner.release)
        self._remove_old_workers(self.owner.token)
        for name in KEPT:
            data = self.bucket.get(f"{WORK}/{name}")
            if data is None:
                (work / name).unlink(missing_ok=True)
            else:
                disk.put(work / name, data)

    def keep(self, path: Path, words: str) -> None:
        super().keep(path, words)
        self.bucket.put(f"{WORK}/{path.name}", words.encode())

    def open_journal(self, out: Path, work: Path, closing: ExitStack) -> Any:
        token = self.owner.token
        journal: Any = Mirror(self.bucket, work, number_of(token), late=self.late, token=token)
        closing.callback(journal.close)
        self._tidy(work, self.store(out, work, journal, None), journal)
        return journal

    def _tidy(self, work: Path, store: Store, journal: Any) -> None:
        """No worker is alive: makes records and sound agree."""
        with Lookup(work) as lookup:
            if isinstance(store, Shards):
                store.end_all(lookup)
            else:
                self._compare(lookup, store, journal)

    def _compare(self, lookup: Lookup, store: Store, journal: Any) -> None:
        """Two workers may have made a row differently, on GPUs. The record must be that of the later upload."""
        records, new = lookup.records, lookup.records[journal.settled :]
        journal.settled = len(records)
        for name in made_differently([new[new["state"] != FAILED]]):
            same = np.flatnonzero((records["name"] == name) & (records["state"] != FAILED))
            there = [one for one in same.tolist() if store.is_there(records[one], lookup.details(one))]
            if there and there[-1] != same[-1]:
                journal.append([lookup.entry(there[-1], shard=0, offset=0)])

    def store(
        self, out: Path, work: Path, journal: RowJournal, lookup: Lookup | None, listing: Listing | None = None
    ) -> Store:
        corpus, suffix = self.corpus, f".{self.corpus.format}"
        if corpus.to == "files":
            return ObjectFiles(self.bucket, codes=corpus.save_codes)
        return ObjectShards(self.bucket, suffix, corpus.shard_size, work, journal.publish,
                            to_parquet=corpus.to == "parquet")  # fmt: skip

    @property
    def lists_early(self) -> bool:
        return False

    def check_room(self, out: Path, plan: RowPlan, rows: np.ndarray) -> None:
        """The free space of a store is unknown. The local disk must hold one shard, as tar and as Parquet."""
        needed = 2 * self.corpus.shard_size if self.late else 0
        if needed > (free := disk.free_bytes(out)):
            raise OutputError(f"not enough space in {out}: {needed:,} bytes are needed for a shard, {free:,} are free",
                              hint="--shard-size 100MB")  # fmt: skip

    def end(self, out: Path, journal: Any, summary: Summary) -> None:
        """Uploads the results."""
        self._tidy(out / WORK, self.store(out, out / WORK, journal, None), journal)
        there = self.bucket.sizes()
        here = {name: (out / name).stat().st_size for name in OURS if (out / name).exists()}
        if summary.written or any(there.get(name) != size for name, size in here.items()):
            self.bucket.put_files([(out / name, name) for name in here])
        journal.join()

    def begin_again(self, out: Path, work: Path) -> None:
        """--fresh: what earlier runs made is removed, in the store too."""
        if not self.sure(f"Remove all speech that earlier runs made in {self.bucket.url}?"):
            raise UsageError("--fresh was not confirmed", hint="--fresh -y")
        journal = Mirror(self.bucket, work, number_of(self.owner.token), late=False)
        with Lookup(work) as lookup:
            names = set(lookup.records["name"].tolist())
        for folder in ("", *FOLDERS) if names else ("",):
            start = f"{folder}/" if folder else ""
            self.bucket.remove(made_by_us([start + name for name in self.bucket.sizes(folder)], names))
        for folder in (CLAIMS, INPUTS):
            self.bucket.remove([f"{folder}/{name}" for name in self.bucket.sizes(folder)])
        self.bucket.remove([f"{WORK}/{name}" for name in KEPT])
        journal.clear()
        journal.close()
        self.forget(work)

    # ---- workers

    def hand_over(self, work: Path) -> str:
        return self.owner.token

    def token(self, work: Path) -> str:
        return str(owner_of(self.bucket).get("token"))

    def sent(self, plan: RowPlan) -> Any:
        """Uploads plan and manifest, for workers that do not see this machine's files."""
        source: Any = plan.manifest.source
        names = (plan.path.name, f"rows-{plan.manifest.digest[:24]}")
        old = [f"{INPUTS}/{name}" for name in self.bucket.sizes(INPUTS) if name not in names]
        self.bucket.put_files([(plan.path, f"{INPUTS}/{names[0]}"), (source.path, f"{INPUTS}/{names[1]}")])
        self.bucket.remove(old)
        about = replace(plan.manifest, source=None)  # type: ignore[arg-type]
        kind, (_, how) = source.__reduce__()
        return SentPlan(self.bucket, names, about, kind, how, (plan.rules, plan.keys, plan.naming), self._files(plan))

    def _files(self, plan: RowPlan) -> list[str]:
        """Some of the files that workers read: clips, voices and lexicons."""
        names = list(self.text.lexicon)
        with beside(plan.path, "voices").open("rb") as file:
            for (kind, name, _), _ in map(json_value, islice(file, MOST_FILES)):
                if kind == "clip" or (kind == "voice" and name.endswith(SUFFIX)):
                    names.append(name)
        return names

    def enter(self, folder: Path) -> None:
        """A machine may lack the folder; `received` finds out whether that matters."""
        with suppress(OSError):
            super().enter(folder)

    def received(self, plan: "SentPlan", work: Path) -> RowPlan:
        return plan.opened(work)

    def worker_folder(self, work: Path, name: str, token: str) -> Path:
        """A folder on the machine of the worker, which removes those of earlier runs."""
        self._remove_old_workers(token)
        return self.folder() / f"workers-{token}" / name

    def _remove_old_workers(self, token: str) -> None:
        for old in self.folder().glob("workers-*"):
            if old.name != f"workers-{token}":
                shutil.rmtree(old, ignore_errors=True)

    def worker_journal(self, work: Path, name: str, token: str) -> Any:
        return Segments(self.bucket, number_of(token), name, late=self.late, token=token)

    def committed(self, work: Path, journal: Any) -> np.ndarray:
        found: np.ndarray = journal.update()
        return found

    def take_over(self, work: Path, store: Store, journal: Any) -> None:
        journal.update()

    def settle(self, work: Path, store: Store, journal: Any) -> None:
        store.flush()
        self._tidy(work, store, journal)
        shutil.rmtree(self.folder() / f"workers-{self.owner.token}", ignore_errors=True)
        if isinstance(store, Shards):
            with Lookup(work) as lookup:
                prune_doubles(lookup, store, journal)


def number_of(token: str) -> int:
    """The number of a run."""
    return int(token.partition("-")[0])


def made_by_us(paths: list[str], names: set[int]) -> list[str]:
    """Which objects are results, shards, or the sound and codes of rows."""
    sounds = [path for path in paths if name_hash(path) in names]
    codes = {codes_of(path) for path in sounds}
    shards = ("shard-*.tar", "part-*.parquet")
    others = [path for path in paths if path in OURS or path in codes or any(fnmatch(path, one) for one in shards)]
    return [*sounds, *others]


@dataclass(frozen=True)
class SentPlan:
    """A plan and its manifest as objects, and what else a worker needs to read them."""

    bucket: Bucket
    names: tuple[str, str]
    manifest: Manifest  # without its source
    kind: Any  # class of the source
    how: Any  # its second argument
    rest: tuple[Any, ...]
    files: list[str]  # that every machine must have

    def opened(self, folder: Path) -> RowPlan:
        """The plan, with copies of its files in this folder."""
        missing = next((name for name in self.files if not Path(name).exists()), None)
        if missing:
            raise OutputError(f"{platform.node()} does not see {missing}",
                              hint="clips, voices and lexicons must have the same paths on all machines")  # fmt: skip
        plan, rows = (folder / name for name in self.names)
        for path in (plan, rows):
            self.bucket.fetch(f"{INPUTS}/{path.name}", path)
        return RowPlan(plan, replace(self.manifest, source=self.kind(rows, self.how)), *self.rest)
