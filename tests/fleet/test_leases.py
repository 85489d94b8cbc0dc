"""Leases: every row once, whoever dies; and a thousand workers on a virtual clock."""

import heapq
import random
from typing import Any

import numpy as np
import pytest

from omnitts_cli.fleet.leases import DEATHS, LARGEST, SMALLEST, Lease, Leases


def test_leases_are_large_first_and_a_worker_has_two_in_hand() -> None:
    leases, sizes = Leases(20_000, 4), []
    while not leases.dealt:
        lease = leases.take("a")
        assert lease is not None
        sizes.append(len(lease.rows))
        leases.finished("a", lease)
    assert sizes[0] == LARGEST and sizes[-2] == SMALLEST and sum(sizes) == 20_000 and not leases.left
    assert sizes == sorted(sizes, reverse=True)
    assert leases.take("a") is None
    leases = Leases(1000, 1)
    first, second = leases.take("a"), leases.take("a")
    assert first and second and leases.take("a") is None
    leases.finished("a", first)
    assert leases.take("a") is not None


def test_rows_of_a_dead_worker_are_dealt_again_in_halves() -> None:
    leases = Leases(64, 2)
    lease, other = leases.take("a"), leases.take("a")
    assert lease and other and len(lease.rows) == len(other.rows) == 32
    leases.mark(lease.rows[:10])
    assert leases.died("a", [12, 13]) == []
    found = []
    while (again := leases.take("b")) is not None:
        found.append(again.rows.tolist())
        leases.finished("b", again)
    assert found == [list(range(10, 21)), list(range(21, 32)), list(range(32, 64))] and not leases.left


def test_a_row_that_kills_workers_is_found_and_its_companions_are_not() -> None:
    leases, poison, deaths = Leases(200, 3), 77, 0
    found: list[int] = []
    hands: dict[str, list[Lease]] = {"a": [], "b": [], "c": []}
    for turn in range(2000):
        worker = "abc"[turn % 3]
        while (lease := leases.take(worker)) is not None:
            hands[worker].append(lease)
        if not hands[worker]:
            continue
        lease = hands[worker].pop(0)
        if poison in lease.rows and poison not in found:
            deaths += 1
            hands[worker] = []
            found += leases.died(worker, lease.rows.tolist())
            leases.mark(np.array(found, np.int64))
        else:
            leases.finished(worker, lease)
        if not leases.left:
            break
    assert found == [poison] and deaths == DEATHS and not leases.left


def test_an_idle_worker_gets_a_copy_of_the_oldest_lease_and_the_first_commit_counts() -> None:
    leases = Leases(96, 1)
    slow, later = leases.take("a"), leases.take("b")
    third = leases.take("c")
    assert slow and later and third
    leases.finished("c", third)
    leases.mark(slow.rows[:5])
    copy = leases.take("c")
    assert copy and copy.rows.tolist() == slow.rows[5:].tolist()
    assert leases.take("d") is not None and leases.take("e") is None  # the second oldest; each twice at most
    assert leases.finished("c", copy) == 27 and leases.finished("a", slow) == 0
    assert leases.left == 32


def test_rows_that_are_spoken_but_not_committed_are_dealt_again_after_a_death() -> None:
    leases = Leases(64, 1, copies=1)
    first, second = leases.take("a"), leases.take("a")
    assert first and second and leases.finished("a", first, late=True) == 0 and leases.left == 64
    assert leases.oldest("a") == second.rows.tolist() and leases.oldest("b") == []
    assert leases.take("b") is None  # no copies
    assert leases.mark(first.rows[:10]) == 10
    leases.died("a", [])
    again = [lease.rows for lease in iter(lambda: leases.take("b"), None)]
    assert np.concatenate(again).tolist() == list(range(10, 64))
    leases.died("b", [])
    assert leases.left == 54 and leases.take("c") is not None


def test_rows_that_may_be_poison_are_not_copied() -> None:
    leases = Leases(32, 1)
    assert leases.take("a") is not None
    leases.died("a", [3])
    first, second = leases.take("a"), leases.take("a")
    assert first and second and 3 in first.rows
    copy = leases.take("b")
    assert copy and copy.rows.tolist() == second.rows.tolist() and leases.take("c") is None


class Cluster:
    """Workers on a virtual clock, each dying once an hour. Rows are committed as they are finished."""

    START_S, SPEED, UNCOMMITTED_S = 30.0, 65.0, 1.0

    def __init__(self, workers: int, rows: int, seed: int) -> None:
        self.draw = random.Random(seed)
        lengths = np.random.default_rng(seed).lognormal(np.log(5.0) - 0.125, 0.5, rows)
        self.ends = np.concatenate([[0.0], np.cumsum(lengths / self.SPEED)])
        self.leases, self.workers = Leases(rows, workers), workers
        self.commits = np.zeros(rows, np.uint8)
        self.hands: list[list[Lease]] = [[] for _ in range(workers)]
        self.began = [0.0] * workers  # of the first lease in hand
        self.busy = [0.0] * workers
        self.life = [0] * workers  # events of an earlier life do not count
        self.events: list[tuple[float, int, str, int, int]] = []
        self.idle: set[int] = set()
        self.deaths, self.tail_began, self.lost_s = 0, 0.0, 0.0

    def put(self, at: float, what: str, worker: int) -> None:
        heapq.heappush(self.events, (at, len(self.events), what, worker, self.life[worker]))

    def times(self, rows: np.ndarray) -> np.ndarray:
        """When each row of a lease is finished, from its beginning."""
        return np.cumsum(self.ends[rows + 1] - self.ends[rows])

    def commit(self, rows: np.ndarray) -> None:
        fresh = rows[self.commits[rows] == 0]  # a copy's commit of a row that is committed does not count
        self.commits[fresh] += 1
        assert self.leases.mark(rows) == len(fresh)

    def fill(self, worker: int, now: float) -> None:
        hand, empty = self.hands[worker], not self.hands[worker]
        while (lease := self.leases.take(str(worker))) is not None:
            hand.append(lease)
        if self.leases.dealt and not self.tail_began:
            self.tail_began = now
        if empty and hand:
            self.idle.discard(worker)
            self.begin(worker, now)
        elif not hand:
            self.idle.add(worker)

    def begin(self, worker: int, now: float) -> None:
        self.began[worker] = now
        self.put(now + float(self.times(self.hands[worker][0].rows)[-1]), "end", worker)

    def die(self, worker: int, now: float) -> None:
        self.deaths += 1
        hand = self.hands[worker]
        under_way: list[int] = []
        if hand:
            times = self.began[worker] + self.times(hand[0].rows)
            self.commit(hand[0].rows[times < now - self.UNCOMMITTED_S])
            under_way = hand[0].rows[(times >= now - self.UNCOMMITTED_S) & (times < now + 1.0)].tolist()
            self.busy[worker] += max(now - self.began[worker] - self.UNCOMMITTED_S, 0.0)
        assert self.leases.died(str(worker), under_way) == []
        self.hands[worker], self.life[worker] = [], self.life[worker] + 1
        self.idle.discard(worker)
        self.put(now + self.START_S, "start", worker)

    def run(self) -> float:
        for worker in range(self.workers):
            self.put(0.0, "start", worker)
        now = 0.0
        while self.leases.left:
            now, _, what, worker, life = heapq.heappop(self.events)
            if life != self.life[worker]:
                continue
            if what == "start":
                self.put(now + self.draw.expovariate(1 / 3600), "die", worker)
                self.fill(worker, now)
            elif what == "die":
                self.die(worker, now)
            else:
                lease = self.hands[worker].pop(0)
                self.busy[worker] += now - self.began[worker]
                self.commit(lease.rows)
                self.leases.finished(str(worker), lease)
                if self.hands[worker]:
                    self.begin(worker, now)
                self.fill(worker, now)
            for other in list(self.idle):
                self.fill(other, now)
        return now


@pytest.mark.parametrize("workers", [100, pytest.param(1000, marks=pytest.mark.slow)])
def test_many_workers_that_die_are_busy_to_the_end(workers: int) -> None:
    cluster: Any = Cluster(workers, rows=workers * 10_000, seed=workers)
    wall = cluster.run()
    assert cluster.commits.min() == cluster.commits.max() == 1  # no row lost, none doubled
    busy = sum(min(one, wall) for one in cluster.busy) / (workers * wall)
    tail = (wall - cluster.tail_began) / wall
    assert cluster.deaths > workers / 20
    assert busy >= 0.97 and tail <= 0.02
