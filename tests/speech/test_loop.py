"""The loop's queue: who gets the next free slot; and waiting for threads."""

from __future__ import annotations

import threading
import time

from omnitts_cli.request import Request
from omnitts_cli.speech.loop import BULK, FIRST_SOUND, STREAMING, FairQueue, wait_for


def filled(*entries: tuple[str, int, str]) -> FairQueue:
    queue = FairQueue()
    for name, priority, client in entries:
        queue.push(Request("", id=name), priority, client)
    return queue


def order(queue: FairQueue) -> str:
    return "".join(queue.pop().id for _ in range(len(queue)))


def test_who_has_no_sound_yet_goes_first() -> None:
    assert (
        order(filled(("a", BULK, ""), ("b", STREAMING, ""), ("c", FIRST_SOUND, ""), ("d", FIRST_SOUND, ""))) == "cdba"
    )


def test_clients_take_turns_and_each_keeps_its_order() -> None:
    many = [(name, BULK, "one") for name in "abcd"]
    assert order(filled(*many, ("x", BULK, "two"), ("y", BULK, "two"), ("z", BULK, "three"))) == "axzbycd"


def test_a_removed_request_is_not_served() -> None:
    queue = filled(("a", BULK, "one"), ("b", BULK, "one"), ("c", STREAMING, "two"))
    queue.remove("c")
    queue.remove("a")
    queue.remove("nobody")
    assert len(queue) == 1 and order(queue) == "b"


def test_waiting_for_threads_ends_with_them_or_after_its_time_in_all() -> None:
    done, never = threading.Event(), threading.Event()
    unstarted = threading.Thread(target=never.wait)
    quick = [threading.Thread(target=done.wait, daemon=True) for _ in range(3)]
    stuck = [threading.Thread(target=never.wait, daemon=True) for _ in range(5)]
    for thread in (*quick, *stuck):
        thread.start()
    done.set()
    wait_for([*quick, unstarted])
    assert not any(thread.is_alive() for thread in quick)
    began = time.monotonic()
    wait_for([*stuck, unstarted], 0.2)
    assert 0.2 <= time.monotonic() - began < 0.8  # not 0.2 s for each
    never.set()
    wait_for(stuck)
    assert not any(thread.is_alive() for thread in stuck)
