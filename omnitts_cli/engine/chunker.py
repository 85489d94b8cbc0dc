"""When a slot's frames go to the codec, and how many together.

The first chunk is small so that sound starts at once; later ones grow with the lead that playback
has, because big chunks cost the codec less. The sound is the same whatever is decided here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from omnitts_cli.engine.slots import Slot, Stop

LEAST_LEAD_S = 0.25
"""A player that holds less sound than this is served before anything else."""


@dataclass(frozen=True)
class Due:
    """Frames of one slot that should be decoded now. Lower urgency comes first."""

    slot: Slot
    frames: int
    urgency: float


def largest(sizes: Sequence[int], most: int) -> int:
    return max((s for s in sizes if s <= most), default=0)


def due(slot: Slot, available: int, lead_s: float, sizes: Sequence[int], first: int, frame_s: float) -> Due | None:
    """What to decode of `slot`, of whose frames (reference included) `available` are ready."""
    pending = available - slot.decoding
    dropped = slot.reference - slot.decoding
    if dropped > 0:  # the reference's sound is not heard, but the codec has to have heard it
        return Due(slot, largest(sizes, min(pending, dropped)), -1.0)
    if pending <= 0:
        return None
    nothing_follows = slot.stop is not Stop.RUNNING or slot.hungry or slot.paused
    if slot.first_sound is None and slot.decoding == slot.reference:
        if pending < first and not nothing_follows:
            return None
        return Due(slot, largest(sizes, min(pending, first)), 0.0)
    if nothing_follows or (slot.jobs == 0 and lead_s < LEAST_LEAD_S):
        return Due(slot, largest(sizes, pending), lead_s)
    # half of the lead may pass until the next chunk is there
    wanted = max(largest(sizes, int(lead_s / 2 / frame_s)), sizes[0])
    if pending < wanted:
        return None
    return Due(slot, wanted, lead_s)


def together(dues: Sequence[Due], most_rows: int, most_frames: int | None = None) -> list[list[Due]]:
    """Groups of equal size, the most urgent group first. `most_frames` counts those of a whole group."""
    groups: dict[int, list[Due]] = {}
    for one in sorted(dues, key=lambda d: d.urgency):
        groups.setdefault(one.frames, []).append(one)
    batches = []
    for frames, group in groups.items():
        rows = most_rows if most_frames is None else min(most_rows, max(most_frames // frames, 1))
        batches += [group[i : i + rows] for i in range(0, len(group), rows)]
    return sorted(batches, key=lambda batch: batch[0].urgency)
