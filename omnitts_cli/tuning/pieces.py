"""Where a long recording is cut into clips: at its pauses. A recogniser writes what is said in each."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from omnitts_cli.audio.pcm import dbfs
from omnitts_cli.audio.read import read_sound

RATE = 24_000
BLOCK_S = 0.02
QUIET_DB = 30.0  # below the louder tenth of the blocks: a pause
PAUSE_S = 0.2  # the shortest at which it is cut
LEAST_S, MOST_S = 3.0, 12.0  # of a piece
WINDOW_S = 60.0  # that are in memory
LONGEST_S = 4 * 3600.0  # of a recording that is cut


def levels_of(sound: np.ndarray) -> np.ndarray:
    """Of each block, in dB."""
    size = round(BLOCK_S * RATE)
    blocks = sound[: sound.size // size * size].reshape(-1, size).astype(np.float64)
    return np.array([max(-120.0, dbfs(float(level))) for level in np.sqrt(np.mean(np.square(blocks), axis=1))])


def pauses_of(sound: np.ndarray) -> list[tuple[float, float]]:
    """Begin and end of each pause, in seconds."""
    levels = levels_of(sound)
    if not levels.size:
        return []
    quiet = np.concatenate([[False], levels < np.percentile(levels, 90) - QUIET_DB, [False]])
    edges = np.flatnonzero(np.diff(quiet.astype(np.int8)))
    return [(float(begin) * BLOCK_S, float(end) * BLOCK_S) for begin, end in edges.reshape(-1, 2)]


def pieces_of(path: Path) -> Iterator[tuple[float, float]]:
    """The pieces of a recording in seconds, each as long as it can be. What has no pause for longer is left out, as is
    a recording that is longer than LONGEST_S or does not say how long it is. Raises InputError if it cannot be read."""
    total = read_sound(path, start=0.0, end=0.1, rate=RATE, shortest_s=0.0).source_s
    if total is None or total > LONGEST_S:
        return
    at = 0.0
    while at + LEAST_S < total:
        end = min(at + WINDOW_S, total)
        window = read_sound(path, start=at, end=end, rate=RATE, longest_s=WINDOW_S + 1, shortest_s=0.0)
        cuts = [(one + other) / 2 for one, other in pauses_of(window.sound) if other - one >= PAUSE_S]
        begin, cuts = 0.0, [*cuts, *([end - at] if end == total else [])]
        while later := [cut for cut in cuts if cut >= begin + LEAST_S]:
            if end < total and begin and begin + MOST_S > end - at:
                break  # the next window has more of it
            fitting = [cut for cut in later if cut <= begin + MOST_S]
            if fitting:
                yield at + begin, at + fitting[-1]
            begin = (fitting or later[:1])[-1]
        at = end if end == total or not begin else at + begin
