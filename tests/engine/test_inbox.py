"""The inbox: nothing asked is lost, nobody sleeps through it."""

from __future__ import annotations

import threading
import time

from omnitts_cli.engine.inbox import Inbox


def test_asks_come_in_order_and_once() -> None:
    inbox, done = Inbox(), []
    assert not inbox and inbox.take(wait=False) == []
    for number in range(5):
        inbox.put(lambda number=number: done.append(number))
    assert inbox
    for ask in inbox.take(wait=True):
        ask()
    assert done == list(range(5)) and not inbox


def test_a_sleeper_wakes_for_every_ask() -> None:
    """Many threads ask while one takes; each ask may find it asleep, awake or on its way."""
    inbox, heard = Inbox(), []

    def take() -> None:
        while len(heard) < 4 * 300:
            for ask in inbox.take(wait=True):
                ask()

    def put(base: int) -> None:
        for number in range(300):
            inbox.put(lambda number=number: heard.append(base + number))
            if number % 50 == 0:
                time.sleep(0.001)

    threads = [threading.Thread(target=take), *(threading.Thread(target=put, args=(n * 1000,)) for n in range(4))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert not any(thread.is_alive() for thread in threads) and len(heard) == 1200


def test_waiting_costs_nothing() -> None:
    inbox, spent = Inbox(), []

    def wait() -> None:
        before = time.thread_time()
        inbox.take(wait=True)
        spent.append(time.thread_time() - before)

    thread = threading.Thread(target=wait)
    thread.start()
    time.sleep(0.2)
    inbox.put(lambda: None)
    thread.join(10)
    assert spent and spent[0] < 0.02
