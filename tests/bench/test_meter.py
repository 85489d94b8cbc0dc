"""The meter: one request's figures, by hand and against a player that is simulated sample by sample."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnitts_cli.bench.meter import AUDIBLE, RequestMeter

RATE = 1000


def meter(*packets: tuple[float, int] | tuple[float, int, int]) -> RequestMeter:
    """(arrival, samples[, silent ones at the front]) of a request that was submitted at 10 s."""
    found = RequestMeter(RATE, 10.0)
    for at, samples, *silent in packets:
        pcm = np.full(samples, 0.5, np.float32)
        pcm[: silent[0] if silent else 0] = 0
        found.add(pcm, 10.0 + at)
    return found


def test_first_sound_whole_and_rtf() -> None:
    one = meter((0.1, 500), (0.9, 1500))
    one.end(11.0, "end")
    assert (one.first_s, one.wall_s, one.audio_s, one.rtf) == pytest.approx((0.1, 1.0, 2.0, 0.5))
    assert one.gap_s == pytest.approx(0.8)
    assert one.stopped == "end"


def test_without_sound_there_is_no_figure() -> None:
    one = meter((0.1, 0))
    assert (one.first_s, one.audible_s, one.wall_s, one.rtf, one.gap_s) == (None, None, None, None, 0.0)
    one.end(11.0, "end")
    assert one.rtf is None


def test_silence_at_the_front_is_waited_for() -> None:
    one = meter((0.1, 500, 80))
    assert (one.first_s, one.audible_s, one.onset_s) == pytest.approx((0.1, 0.18, 0.08))


def test_what_is_below_the_line_is_silence() -> None:
    one = RequestMeter(RATE, 0.0)
    one.add(np.full(100, AUDIBLE * 0.99, np.float32), 1.0)
    assert one.audible_s is None
    one.add(np.full(100, -AUDIBLE * 1.01, np.float32), 1.0)
    assert one.audible_s == pytest.approx(1.1)


def test_underruns_of_a_player_with_a_store() -> None:
    assert meter((0.1, 200), (0.29, 200), (0.49, 200)).underruns() == 0
    assert meter((0.1, 200), (0.31, 200), (0.9, 200)).underruns() == 2
    assert meter((0.1, 100), (5.0, 100), (5.1, 100)).underruns() == 0  # it has not begun to play yet


@given(
    st.lists(st.tuples(st.integers(0, 400), st.integers(1, 300), st.integers(0, 300)), min_size=1, max_size=12),
)
def test_the_audible_time_is_that_of_a_player(steps: list[tuple[int, int, int]]) -> None:
    """Steps: (ms since the packet before, samples, silent ones at the front); 1 sample lasts 1 ms."""
    now, packets = 0, []
    for wait, samples, silent in steps:
        now += wait
        packets.append((now / 1000, samples, min(samples, silent)))
    free, expected = 0.0, None
    for at, samples, silent in packets:
        start = max(at, free)
        if silent < samples and expected is None:
            expected = start + silent / RATE
        free = start + samples / RATE
    found = meter(*packets).audible_s
    assert found == (None if expected is None else pytest.approx(expected, abs=1e-6))
