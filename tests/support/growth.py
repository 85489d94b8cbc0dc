"""Work that must grow in proportion to its input, proven by processor time, whatever else the machine does."""

import gc
import math
import time
from collections.abc import Callable

TRIES = 8


def grows_linearly(work: Callable[[int], object], small: int, large: int, slack: float = 4.0) -> None:
    """Asserts that `work(large)` takes at most `slack` times its share of `work(small)`.

    Both are the fastest of several tries, in processor time of this thread and without the garbage collector, whose
    pauses depend on what earlier tests have left. Quadratic work exceeds the share by `large / small`.
    """
    assert large >= 2 * slack * small, "quadratic work would pass"
    least, most = math.inf, math.inf
    for _ in range(TRIES):
        least = min(least, max(processor_s(work, small), 0.0005))
        most = min(most, processor_s(work, large))
        if most <= slack * large / small * least:
            return
    raise AssertionError(f"{large} items take {most:.3f} s, {small} take {least:.4f} s")


def processor_s(work: Callable[[int], object], count: int) -> float:
    """The processor time of this thread for `work(count)`."""
    collects = gc.isenabled()
    gc.disable()
    try:
        began = time.thread_time()
        work(count)
        return time.thread_time() - began
    finally:
        if collects:
            gc.enable()
