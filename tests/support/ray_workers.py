"""Workers of Ray: the processes of real ones, and workers in the process of the test that can be lost."""

import os
import pickle
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from omnitts_cli.fleet import cluster
from omnitts_cli.fleet.worker import RayWorker, Task


def workers_here() -> list[int]:
    """The processes of workers that speak below this folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if b"ray::Worker" in (path / "cmdline").read_bytes() and os.readlink(path / "cwd") == os.getcwd():
                found.append(int(path.name))
        except OSError:  # it has just ended
            continue
    return found


class Died(Exception):
    """What Ray raises for the calls of a worker that has died."""


class Actor:
    """A real worker in this process. It is lost when `dies` says so, of the rows that it is about to speak."""

    def __init__(self, task: Task, number: int, dies: Callable[["Actor", np.ndarray], bool]) -> None:
        self.task, self.number, self.leases, self.deaths = task, number, 0, 0
        self.workers: list[RayWorker] = []
        self._dies = dies

    def __getattr__(self, name: str) -> Any:
        return SimpleNamespace(remote=lambda *given: partial(self.answer, name, *given))

    def answer(self, name: str, *given: Any) -> Any:
        """What a call of a method gives; a lost worker is another one at its next start."""
        if name == "ready":
            self.workers.append(RayWorker(pickle.loads(pickle.dumps(self.task)), self.number))
        if name == "speak":
            self.leases += 1
            if self._dies(self, given[0]):
                self.deaths += 1
                raise Died
        return getattr(self.workers[-1], name)(*given)


def two_workers(monkeypatch: pytest.MonkeyPatch, dies: Callable[[Actor, np.ndarray], bool]) -> list[Actor]:
    """Two actors in the place of a cluster; the list is filled when a run begins."""
    actors: list[Actor] = []

    class Cluster:
        """Answers calls at once, in their order."""

        ray = SimpleNamespace(
            exceptions=SimpleNamespace(RayError=Died, RayTaskError=ZeroDivisionError),
            wait=lambda calls, **how: (calls[:1], calls[1:]),
            get=lambda call: call(),
        )

        def __init__(self, job: Any, task: Task, rows: int) -> None:
            actors.extend(Actor(task, number, dies) for number in range(2))
            self.workers = {f"worker {actor.number}": actor for actor in actors}

        def close(self) -> None: ...

    monkeypatch.setattr(cluster, "Cluster", Cluster)
    return actors


def end(actors: list[Actor]) -> None:
    """Ends the threads of all workers."""
    for actor in actors:
        for worker in actor.workers:
            worker.end()
