"""Cutting a long clip to what a voice needs, at a pause; the transcript is cut at the same place or not at all."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from omnitts_cli.errors import InputError

LONGEST_VOICE_S = 30.0
SHORTEST_VOICE_S = 3.0
BLOCK_S = 0.02
PAUSE_S = 0.16
QUIETER_DB = 25.0
MISMATCH_S = 1.5


@dataclass(frozen=True, eq=False)
class Trimmed:
    """The part that is used. `sentences` says how many sentences of the transcript belong to it."""

    sound: np.ndarray  # [samples] float32
    sentences: int | None
    notice: str | None


def trim(sound: np.ndarray, rate: int, ends: Sequence[float] | None = None) -> Trimmed:
    """At most LONGEST_VOICE_S of a clip, up to a pause.

    `ends` are the places of the transcript's sentence ends, as shares of its length (0..1]: the cut goes
    to the pause that fits one of them, and is refused where none does.
    """
    seconds = sound.size / rate
    if seconds <= LONGEST_VOICE_S:
        return Trimmed(sound, None if ends is None else len(ends), None)
    found = [at for at in pauses(sound, rate) if SHORTEST_VOICE_S <= at <= LONGEST_VOICE_S]
    if ends is None:
        at = found[-1] if found else LONGEST_VOICE_S
        sentences = None
    else:
        at, sentences = fitting(found, ends, seconds)
    notice = f"the clip lasts {seconds:.1f} s; its first {at:.1f} s, up to a pause, are used"
    if sentences is not None:
        notice += f" with {sentences} of {len(ends or ())} sentences of the transcript"
    return Trimmed(sound[: round(at * rate)], sentences, notice)


def fitting(found: list[float], ends: Sequence[float], seconds: float) -> tuple[float, int]:
    """The latest pause that lies where a sentence should end, and how many sentences come before it."""
    for at in reversed(found):
        near = [(abs(share * seconds - at), count) for count, share in enumerate(ends, 1)]
        distance, count = min(near, default=(seconds, 0))
        if distance <= MISMATCH_S and count < len(ends):
            return at, count
    raise InputError(
        f"the reference clip lasts {seconds:.1f} s and no pause in it fits a sentence end of the transcript",
        hint="choose a part and give the words of that part: --ref-start 0 --ref-end 20 --ref-text ...",
    )


def pauses(sound: np.ndarray, rate: int) -> list[float]:
    """The middles of all pauses, in seconds."""
    block = round(BLOCK_S * rate)
    blocks = sound[: sound.size // block * block].reshape(-1, block).astype(np.float64)  # [blocks, block]
    levels = 10.0 * np.log10(np.mean(np.square(blocks), axis=1) + 1e-12)  # [blocks] dB
    quiet = levels < np.percentile(levels, 90) - QUIETER_DB
    edges = np.flatnonzero(np.diff(np.concatenate([[0], quiet.astype(np.int8), [0]])))  # starts and ends in turn
    runs = zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True)
    return [(a + b) / 2 * BLOCK_S for a, b in runs if (b - a) * BLOCK_S >= PAUSE_S]
