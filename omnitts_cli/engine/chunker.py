"""Chunker: when frames of a request go to the codec, and how many together.

The first chunk is small so that sound starts at once; later ones grow with the lead of the playback, because large
chunks cost less per frame. The sound does not depend on these sizes.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from omnitts_cli.engine.record import Record, State

LEAST_LEAD_S = 0.25
"""A player with less sound than this is served first."""


@dataclass(frozen=True)
class Due:
    """Frames of one request that should be decoded now. A lower urgency comes first."""

    record: Record
    frames: int
    urgency: float


def largest(sizes: Sequence[int], most: int) -> int:
    """The largest of `sizes` that is at most `most`; 0 if there is none."""
    return sizes[bisect_right(sizes, most) - 1] if most >= sizes[0] else 0


def due(record: Record, available: int, lead_s: float, sizes: Sequence[int], first: int, frame_s: float) -> Due | None:
    """What to decode of a request that has `available` frames (reference included)."""
    pending = available - record.decoding
    dropped = record.reference - record.decoding
    if dropped > 0:  # the reference's sound is dropped, but the codec needs its frames as history
        return Due(record, largest(sizes, min(pending, dropped)), -1.0)
    if pending <= 0:
        return None
    nothing_follows = record.state is State.FINISHING or record.starved or record.paused
    if record.first_sound is None and record.decoding == record.reference:
        if pending < first and not nothing_follows:
            return None
        return Due(record, largest(sizes, min(pending, first)), 0.0)
    if nothing_follows or (record.jobs == 0 and lead_s < LEAST_LEAD_S):
        return Due(record, largest(sizes, pending), lead_s)
    # half of the lead may pass until the next chunk is there
    wanted = max(largest(sizes, int(lead_s / 2 / frame_s)), sizes[0])
    if pending < wanted:
        return None
    return Due(record, wanted, lead_s)


def together(dues: Sequence[Due], most_rows: int, most_frames: int | None = None) -> list[list[Due]]:
    """Groups of equal size, the most urgent group first. `most_frames` limits the sum over a group."""
    groups: dict[int, list[Due]] = {}
    for one in sorted(dues, key=lambda d: d.urgency):
        groups.setdefault(one.frames, []).append(one)
    batches = []
    for frames, group in groups.items():
        rows = most_rows if most_frames is None else min(most_rows, max(most_frames // frames, 1))
        batches += [group[i : i + rows] for i in range(0, len(group), rows)]
    return sorted(batches, key=lambda batch: batch[0].urgency)
