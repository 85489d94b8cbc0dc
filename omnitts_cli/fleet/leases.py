"""Leases: which worker speaks which rows. No rows are lost when a worker dies; one that kills workers is found.

Rows are counted by their position in the run. Leases are large while much is left and small near the end; a worker
without work then gets a copy of the oldest lease, and the first commit of a row counts.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

LARGEST, SMALLEST = 512, 32  # rows
IN_HAND = 2  # leases of a worker, so that its slots never run dry
SHARES = 4  # leases that the remaining rows are divided into, for each worker
DEATHS = 3  # of workers that were speaking a row, before it counts as poison
COPIES = 2  # the most workers that get one lease, the first included


@dataclass(eq=False)
class Lease:
    """Rows that one worker was given. `alone`: it speaks nothing else at that time."""

    rows: np.ndarray
    alone: bool = False
    copies: int = 1


class Leases:
    """The rows of a run, assigned to workers."""

    def __init__(
        self, rows: int, workers: int, *, largest: int = LARGEST, smallest: int = SMALLEST, copies: int = COPIES
    ) -> None:
        self._copies = copies
        self._rows, self._workers, self._largest, self._smallest = rows, max(workers, 1), largest, smallest
        self._next = 0  # the first row that was never assigned
        self._again: deque[Lease] = deque()
        self._hands: dict[str, list[Lease]] = {}
        self._held: dict[str, list[Lease]] = {}  # spoken, but lost if the worker dies now
        self._deaths: dict[int, int] = {}
        self._done = np.zeros(rows, bool)
        self.left = rows

    @property
    def dealt(self) -> bool:
        """Whether every row has been assigned once: what follows is the tail."""
        return self._next >= self._rows

    def mark(self, rows: np.ndarray) -> int:
        """These rows are committed; returns how many were not before."""
        fresh = np.unique(rows[~self._done[rows]])
        self._done[fresh] = True
        self.left -= len(fresh)
        return len(fresh)

    def take(self, worker: str) -> Lease | None:
        """The next lease of a worker; None if it has enough, or nothing is left for it."""
        hand = self._hands.setdefault(worker, [])
        if len(hand) >= IN_HAND or any(lease.alone for lease in hand):
            return None
        lease = self._redo(empty=not hand) or self._fresh()
        if lease is None and not hand:
            lease = self._copy(worker)
        if lease is not None:
            hand.append(lease)
        return lease

    def _redo(self, *, empty: bool) -> Lease | None:
        """Rows of workers that died."""
        for _ in range(len(self._again)):
            lease = self._again.popleft()
            lease.rows = self._missing(lease.rows)
            if not len(lease.rows):
                continue
            if not lease.alone or empty:
                return lease
            self._again.append(lease)
        return None

    def _fresh(self) -> Lease | None:
        left = self._rows - self._next
        if not left:
            return None
        size = min(max(left // (SHARES * self._workers), self._smallest), self._largest, left)
        self._next += size
        return Lease(np.arange(self._next - size, self._next))

    def _copy(self, worker: str) -> Lease | None:
        """The rest of the oldest lease of another worker. Rows that may be poison are not copied."""
        for other, hand in self._hands.items():
            for lease in hand:
                rows = self._missing(lease.rows) if other != worker and lease.copies < self._copies else lease.rows[:0]
                if len(rows) and not any(int(row) in self._deaths for row in rows):
                    lease.copies += 1
                    return Lease(rows, copies=lease.copies)
        return None

    def _missing(self, rows: np.ndarray) -> np.ndarray:
        return rows[~self._done[rows]]

    def finished(self, worker: str, lease: Lease, *, late: bool = False) -> int:
        """All rows of a lease are committed; returns how many were not before.

        With `late` they are spoken, and `mark` will say when they are committed.
        """
        self._hands[worker].remove(lease)
        if not self._hands[worker]:  # a new place at the end: the oldest lease comes first
            del self._hands[worker]
        if late:
            self._held.setdefault(worker, []).append(lease)
            return 0
        return self.mark(lease.rows)

    def oldest(self, worker: str) -> list[int]:
        """The rows of a worker's oldest lease that are not committed."""
        hand = self._hands.get(worker, [])
        return self._missing(hand[0].rows).tolist() if hand else []

    def died(self, worker: str, under_way: Iterable[int]) -> list[int]:
        """A worker is gone. Its rows that are not committed are assigned again; returns those that must not be.

        `under_way`: the rows that it was speaking. Rows under way in two deaths are assigned alone.
        """
        speaking = {row for row in under_way if not self._done[row]}
        for row in speaking:
            self._deaths[row] = self._deaths.get(row, 0) + 1
        poison: list[int] = []
        for lease in [*self._held.pop(worker, []), *self._hands.pop(worker, [])]:
            rows = self._missing(lease.rows)
            deaths = np.array([self._deaths.get(int(row), 0) for row in rows])
            if lease.alone and len(rows) == 1 and deaths[0] >= DEATHS:
                poison.append(int(rows[0]))
                continue
            self._again.extend(Lease(rows[at : at + 1], alone=True) for at in np.flatnonzero(deaths >= DEATHS - 1))
            self._again.extend(halves(rows[deaths < DEATHS - 1], begun=bool(deaths.any())))
        return poison


def halves(rows: np.ndarray, *, begun: bool) -> Sequence[Lease]:
    """The rest of a lease: in two parts if one of its rows may be what killed the worker."""
    parts = np.array_split(rows, 2) if begun else [rows]
    return [Lease(part) for part in parts if len(part)]
