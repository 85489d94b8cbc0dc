"""Jobs of one slot keep their order, jobs of different slots run at once, and a forked process has workers too."""

import os
import threading
import time

import pytest
import torch
from patience import LONG_S, eventually

from omnitts_cli.devices.workers import Workers


def test_jobs_of_one_slot_run_in_order() -> None:
    workers, seen = Workers(4), list[int]()

    def job(number: int) -> tuple[torch.Tensor]:
        time.sleep(0.002 * (number % 3 == 0))
        seen.append(number)
        return (torch.full((2,), float(number)),)

    fetches = [workers.run(lambda n=n: job(n), [n % 2, 7]) for n in range(30)]
    assert [fetch.result()[0].tolist() for fetch in fetches] == [[n, n] for n in range(30)]
    assert seen == list(range(30)) and all(fetch.done() for fetch in fetches)


def test_jobs_of_other_slots_run_at_once() -> None:
    workers, both = Workers(2), threading.Barrier(2, timeout=LONG_S)

    def job() -> tuple[()]:
        both.wait()  # passes only when two are here
        return ()

    for fetch in (workers.run(job, [0]), workers.run(job, [1])):
        assert fetch.result() == []


def test_an_error_reaches_whoever_waits_and_stops_nobody_else() -> None:
    workers = Workers(1)

    def fails() -> tuple[()]:
        raise MemoryError("none left")

    first, second = workers.run(fails, [3]), workers.run(lambda: (torch.ones(1),), [3])
    assert second.result()[0].tolist() == [1]
    with pytest.raises(MemoryError, match="none left"):
        first.result()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this platform")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_process_starts_threads_of_its_own() -> None:
    workers = Workers(2)
    workers.run(lambda: (torch.ones(1),), [0]).result()
    child = os.fork()
    if child == 0:
        made = workers.run(lambda: (torch.ones(1),), [0]).result()[0].tolist()
        os._exit(0 if made == [1] else 1)
    assert eventually(lambda: (ended := os.waitpid(child, os.WNOHANG))[0] and ended) == (child, 0)
