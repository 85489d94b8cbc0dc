"""Workers: threads for work that releases Python's lock, such as a decoder in C, beside the engine's own thread."""

import os
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any

import numpy as np


class Workers:
    """`count` threads. Jobs of one slot run in the order in which they were given, jobs of other slots at once."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._start()

    def _start(self) -> None:
        self._process = os.getpid()
        self._threads = ThreadPoolExecutor(self._count, thread_name_prefix="omnitts")
        self._latest: dict[int, Future[list[np.ndarray]]] = {}  # by slot

    def run(self, work: Callable[[], tuple[Any, ...]], slots: Iterable[int]) -> Future[list[np.ndarray]]:
        """`work` returns new arrays, or tensors, which become arrays."""
        if self._process != os.getpid():  # a forked process has none of its parent's threads
            self._start()
        slots = list(slots)
        before = [self._latest[slot] for slot in slots if slot in self._latest]
        job = self._threads.submit(_run, work, before)
        self._latest.update(dict.fromkeys(slots, job))
        return job


def _run(work: Callable[[], tuple[Any, ...]], before: list[Future[list[np.ndarray]]]) -> list[np.ndarray]:
    wait(before)  # they were given to a thread earlier, so they do not wait for this one
    return [np.asarray(array) for array in work()]
