"""The meter: a request without sound, and a player with a store. All figures of a load: test_local.py."""

import numpy as np

from omnitts_cli.bench.meter import RequestMeter


def meter(*packets: tuple[float, int]) -> RequestMeter:
    """(arrival, samples) of a request that was submitted at 10 s; 1000 samples a second."""
    found = RequestMeter(1000, 10.0)
    for at, samples in packets:
        found.add(np.full(samples, 0.5, np.float32), 10.0 + at)
    return found


def test_without_sound_there_is_no_figure() -> None:
    one = meter((0.1, 0))
    assert (one.first_s, one.audible_s, one.wall_s, one.rtf, one.gap_s) == (None, None, None, None, 0.0)
    one.end(11.0, "end")
    assert one.rtf is None


def test_underruns_of_a_player_with_a_store() -> None:
    assert meter((0.1, 200), (0.29, 200), (0.49, 200)).underruns() == 0
    assert meter((0.1, 200), (0.31, 200), (0.9, 200)).underruns() == 2
    assert meter((0.1, 100), (5.0, 100), (5.1, 100)).underruns() == 0  # it has not begun to play yet
