"""Cluster: the driver of `omnitts batch --ray`. It assigns leases to workers, and reassigns them when one dies.

Ray places workers and starts them again. No sound passes through Ray: workers write files, and a lease gets numbers
back.
"""

import socket
import time
from contextlib import suppress
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from omnitts_cli.errors import DeviceError, Notice, OutputError, UsageError
from omnitts_cli.fleet.job import BatchJob, PlannedModel
from omnitts_cli.fleet.journal import FAILED, UNVERIFIED
from omnitts_cli.fleet.leases import COPIES, DEATHS, Lease, Leases
from omnitts_cli.fleet.run import CorpusRun, in_order
from omnitts_cli.fleet.store import Shards
from omnitts_cli.fleet.worker import Counts, RayWorker, Task, under_way
from omnitts_cli.settings.environment import quiet_ray, use_token_of_ray

OBJECT_STORE_BYTES = 256 << 20
CALLS = 4  # at once in a worker: two leases, and `ready`
POLL_S = 0.2
LOOK_S = 1.0  # between two looks at the journals near the end
TRIES_TO_START = 9  # of a worker that finishes nothing; each waits twice as long as the one before: 4 minutes in all
PATIENCE_S = 600.0  # for the last shards of the workers
MANY_WORKERS = 16
LOCAL = "local"
PORT = 6379  # of `ray start --head`
START = f"ray start --head --port={PORT}   on the first machine, or --ray local"
CONNECT_S = 5.0
INSTALL = 'pip install ".[ray]"   in the source folder of omnitts, or pip install "ray[serve]"'


def speak_with_ray(job: BatchJob, run: CorpusRun, model: PlannedModel, rows: np.ndarray, tries: dict[int, int]) -> None:
    """Speaks rows of one model with the workers of a cluster; afterwards they are in the journal of the run."""
    given = {field.name: getattr(job, field.name) for field in fields(job) if field.name in SENT}
    if model.on_cpu:
        given["machine"] = {**given["machine"], "threads": 1}
    work = run.work
    task = Task(type(job), given, job.sent(run.plan), model, run.masks, work.parent.resolve(), work.resolve(),
                Path.cwd(), job.hand_over(work))  # fmt: skip
    cluster = Cluster(job, task, len(rows))
    try:
        Driver(job, task, cluster, run, rows, tries).speak()
    finally:
        cluster.close()
        job.take_over(work, run.store, run.journal)
    job.settle(work, run.store, run.journal)


SENT = ("manifest", "text", "speech", "corpus", "checks", "machine", "writers")


class Cluster:
    """Workers as Ray's actors."""

    def __init__(self, job: BatchJob, task: Task, rows: int) -> None:
        address = str(job.corpus.ray)
        self.ray = imported(address)
        on_cpu, wanted = task.model.on_cpu, job.corpus.workers
        if self.ray.is_initialized():
            raise UsageError("Ray is already in use by this process", hint="ray.shutdown()")
        connect(self.ray, address, **({"num_cpus": wanted if on_cpu else None} if address == LOCAL else {}))
        there = room_for("CPU" if on_cpu else "GPU", self.ray, address, wanted, "--workers")
        count = min(wanted or there, rows)
        if count >= MANY_WORKERS and job.corpus.to == "files":
            job.tell(Notice(f"{count} workers write one file a row; the file system may be slower than they are",
                            hint="--to webdataset"))  # fmt: skip
        needs: dict[str, Any] = {"num_cpus": 1} if on_cpu else {"num_gpus": 1}
        actor = self.ray.remote(RayWorker).options(max_restarts=-1, max_task_retries=0, max_concurrency=CALLS, **needs)
        self.workers = {f"worker {n}": actor.remote(task, n) for n in range(count)}

    def close(self) -> None:
        """Ends the workers, and a local cluster."""
        for worker in self.workers.values():
            with suppress(Exception):
                self.ray.kill(worker, no_restart=True)
        self.ray.shutdown()


def imported(address: str) -> Any:
    """Ray, or an error: it is missing, or nothing answers at the address."""
    quiet_ray()
    if address != LOCAL:
        use_token_of_ray()
    try:
        import ray
    except ImportError:
        raise UsageError("--ray needs Ray, which is not installed", hint=INSTALL) from None
    if address not in (LOCAL, "auto"):
        check_address(address)
    return ray


def check_address(address: str) -> None:
    """Raises if nothing listens there: Ray would try for minutes."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit() or "://" in address:
        raise UsageError(f"--ray {address} is not an address", hint=f"--ray HOST:{PORT}   or --ray local")
    try:
        socket.create_connection((host.strip("[]"), int(port)), CONNECT_S).close()
    except (OSError, OverflowError) as error:
        words = getattr(error, "strerror", None) or str(error)
        raise DeviceError(f"no Ray cluster at {address}", cause=words.lower(), hint=START) from None


def connect(ray: Any, address: str, **local: Any) -> None:
    """Joins a cluster, or starts one on this machine."""
    if address == LOCAL:
        local |= {"include_dashboard": False, "object_store_memory": OBJECT_STORE_BYTES}
    try:
        ray.init(address=address, logging_level="error", log_to_driver=False, **local)
    except (ConnectionError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
        words = str(error).splitlines()[0][:200]
        hint = "ray status" if address in (LOCAL, "auto") else f"ray status --address={address}"
        raise DeviceError(f"cannot use Ray at '{address}'", cause=words, hint=hint) from None


def room_for(kind: str, ray: Any, address: str, wanted: int | None, option: str) -> int:
    """How many CPUs or GPUs the cluster has; an error if these are fewer than an option wants."""
    there = int(ray.cluster_resources().get(kind, 0))
    if not there:
        raise DeviceError(f"--ray {address}: the cluster has no {kind}", hint="-d cpu, or ray status")
    if wanted and wanted > there:
        raise UsageError(
            f"{option} {wanted}: the cluster has {there} {kind}{'s' * (there > 1)}", hint=f"{option} {there}"
        )
    return there


def check_start(words: str) -> None:
    """Raises if a worker failed in its own code when it started, as it would again. `words`: Ray's error."""
    if "error raised in its creation task" not in words:
        return
    cause = words.strip().splitlines()[-1].strip()[:200]
    if "No module named" in cause:
        raise DeviceError("a machine of the cluster lacks a package that workers need", cause=cause,
                          hint="install the same Python and omnitts on every machine: omnitts help fleet")  # fmt: skip
    raise DeviceError("a worker could not be started", cause=cause, hint="ray logs")


class Driver:
    """Deals rows to workers until all of them are committed."""

    def __init__(
        self, job: BatchJob, task: Task, cluster: Cluster, run: CorpusRun, rows: np.ndarray, tries: dict[int, int]
    ) -> None:
        self._job, self._task, self._cluster, self._ray = job, task, cluster, cluster.ray
        self._run, self._plan, self._pace, self._tries = run, run.plan, run.pace, tries
        self._order = np.fromiter(in_order(run.plan, rows), np.int64, len(rows))  # position -> row of the plan
        self._position = np.full(run.plan.count, -1, np.int64)
        self._position[self._order] = np.arange(len(rows))
        self._done, self._counted = np.zeros((2, len(rows)), bool)  # rows that are in the pace; and their seconds
        self._leases = Leases(len(rows), len(cluster.workers), copies=1 if job.late else COPIES)
        self._calls: dict[Any, tuple[str, Lease | None]] = {}  # Ray's reference -> worker, lease; None: it starts
        self._ready: dict[str, Path] = {}  # workers that are ready -> where the rows are noted that they speak
        self._starts: dict[str, int] = {}  # since rows were finished
        self._later: dict[str, float] = {}  # workers that are started at that time
        self._looked = 0.0

    def speak(self) -> None:
        for worker in self._cluster.workers:
            self._start(worker)
        while self._leases.left:
            self._start_those_due()
            for worker in list(self._ready):
                self._deal(worker)
            if not self._calls:
                self._wait_for_workers()
                continue
            ready, _ = self._ray.wait(list(self._calls), num_returns=1, timeout=POLL_S)
            for call in ready:
                self._answered(call)
            if self._leases.dealt:
                self._pace.full = self._pace.full or (self._pace.wall_s, self._pace.audio_s)
                if time.monotonic() - self._looked > LOOK_S:
                    self._look_at_journals()
            self._job.look(self._pace)
        if isinstance(self._run.store, Shards):
            self._end()

    def _end(self) -> None:
        """Lets the workers end their shards, side by side. What one of them does not end, the driver does."""
        ends = [self._cluster.workers[worker].end.remote() for worker in self._ready]
        until = time.monotonic() + PATIENCE_S
        while ends and time.monotonic() < until:
            ready, ends = self._ray.wait(ends, num_returns=1, timeout=POLL_S)
            for call in ready:
                with suppress(self._ray.exceptions.RayError):
                    self._ray.get(call)
            self._job.look(self._pace)

    def _wait_for_workers(self) -> None:
        """No worker has anything to do."""
        if self._later:
            time.sleep(POLL_S)
        elif self._job.late and self._ready:
            self._flush()
        else:
            raise DeviceError("every worker has died, however often it was started", hint="ray status   or ray logs")

    def _flush(self) -> None:
        """Nothing is left to assign: lets the workers commit what they hold. What a dead one held is assigned again."""
        left, calls = self._leases.left, {self._cluster.workers[one].flush.remote(): one for one in self._ready}
        failures, lost = [], 0
        while calls:
            ready, _ = self._ray.wait(list(calls), num_returns=1, timeout=POLL_S)
            for call in ready:
                try:
                    failures.append(self._ray.get(call))
                except self._ray.exceptions.RayTaskError:
                    raise
                except self._ray.exceptions.RayError:
                    self._died(calls[call])
                    lost += 1
                del calls[call]
            self._job.look(self._pace)
        for failure in filter(None, failures):
            raise failure
        self._look_at_journals()
        if self._leases.left == left and not lost:
            raise OutputError("records that workers wrote are missing from the output",
                              hint="run the same command again")  # fmt: skip

    def _start(self, worker: str) -> None:
        """Asks a worker whether it is ready. While Ray starts it again it may be called "unavailable" at once."""
        tries = self._starts[worker] = self._starts.get(worker, 0) + 1
        if tries <= TRIES_TO_START:
            self._later[worker] = time.monotonic() + (2.0 ** (tries - 2) if tries > 1 else 0.0)

    def _start_those_due(self) -> None:
        for worker, due in list(self._later.items()):
            if time.monotonic() >= due:
                del self._later[worker]
                self._calls[self._cluster.workers[worker].ready.remote()] = worker, None

    def _deal(self, worker: str) -> None:
        while (lease := self._leases.take(worker)) is not None:
            rows = self._order[lease.rows]
            tries = {row: self._tries[row] for row in rows.tolist() if row in self._tries}
            self._calls[self._cluster.workers[worker].speak.remote(rows, tries)] = worker, lease

    def _answered(self, call: Any) -> None:
        if call not in self._calls:  # of a worker that has died meanwhile
            return
        worker, lease = self._calls.pop(call)
        try:
            found = self._ray.get(call)
        except self._ray.exceptions.RayTaskError:
            raise
        except self._ray.exceptions.RayError as error:
            if lease is None:
                check_start(str(error))
            self._died(worker)
            return
        if lease is None:
            self._began(worker, *found)
        else:
            self._finished(worker, lease, found)

    def _began(self, worker: str, doing: Path, bits: str, failure: Any) -> None:
        if failure is not None:
            raise failure
        self._job.check_bits(self._task.work, bits)
        self._job.loaded()
        self._pace.begin()
        self._ready[worker] = doing

    def _finished(self, worker: str, lease: Lease, counts: Counts) -> None:
        if counts.failure is not None:
            raise counts.failure
        self._leases.finished(worker, lease, late=self._job.late)
        self._count(lease.rows)
        self._starts[worker] = 0
        state, seconds, expected = counts.rows[~self._counted[lease.rows]].T  # what another worker has not counted
        self._counted[lease.rows] = True
        self._pace.failed += int((state == FAILED).sum())
        self._pace.unverified += int((state == UNVERIFIED).sum())
        self._pace.audio_s += float(seconds.sum())
        self._pace.expected_done_s += float(expected.sum())
        self._pace.mark()
        for notice in counts.notices:
            self._job.tell(notice)

    def _died(self, worker: str) -> None:
        """A worker is gone: its leases, less what it has committed, are assigned again."""
        for call, (whose, _) in list(self._calls.items()):
            if whose == worker:
                del self._calls[call]
        left = self._leases.left
        self._look_at_journals()
        doing = self._ready.pop(worker, None)
        speaking = self._leases.oldest(worker)  # where the file of another machine cannot be read
        if doing is None or doing.exists():
            rows = np.array(under_way(doing) if doing else [], np.int64)
            speaking = self._position[rows].tolist()
        poison = self._leases.died(worker, speaking)
        if poison:
            self._fail(self._order[poison])
            self._leases.mark(np.array(poison, np.int64))
            self._count(np.array(poison, np.int64))
        if self._leases.left < left:
            self._starts[worker] = 0
        self._start(worker)

    def _look_at_journals(self) -> None:
        """Marks what the workers have committed."""
        self._looked = time.monotonic()
        positions = self._position[self._job.committed(self._task.work, self._run.journal)]
        positions = positions[positions >= 0]
        self._leases.mark(positions)
        self._count(positions)

    def _count(self, positions: np.ndarray) -> None:
        """Counts rows that were not counted before."""
        fresh = np.unique(positions[~self._done[positions]])
        self._done[fresh] = True
        self._pace.done += len(fresh)

    def _fail(self, rows: np.ndarray) -> None:
        """Rows that kill their workers."""
        message = f"{DEATHS} workers died while they spoke it"
        self._run.commit(
            [self._run.failed(index, self._plan.row(index), "poison", message) for index in map(int, rows)]
        )
        self._pace.failed += len(rows)
