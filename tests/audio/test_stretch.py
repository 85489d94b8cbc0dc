"""Time stretch: length, pitch, no clicks, and the stream equal to the whole."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sounds import speech

from omnitts_cli.audio.stretch import Stretcher, stretch
from omnitts_cli.errors import UsageError

SPEEDS = [0.5, 0.75, 0.9, 1.1, 1.33, 1.5, 2.0]


@pytest.mark.parametrize("speed", SPEEDS)
def test_the_length_is_exact_and_the_level_kept(speed: float) -> None:
    sound = speech(3.0)
    out = stretch(sound, speed)
    assert out.size == round(sound.size / speed) and out.dtype == np.float32
    assert np.std(out) == pytest.approx(np.std(sound), rel=0.05)


@pytest.mark.parametrize("speed", SPEEDS)
def test_the_pitch_is_kept(speed: float) -> None:
    t = np.arange(48000) / 24000
    voice = sum(np.sin(2 * np.pi * 200 * k * t) / k for k in range(1, 6)).astype(np.float32)
    out = stretch(voice, speed)[2400:]
    strongest = np.argmax(np.abs(np.fft.rfft(out * np.hanning(out.size)))) * 24000 / out.size
    assert strongest == pytest.approx(200, abs=4)


@pytest.mark.parametrize("speed", SPEEDS)
def test_there_are_no_clicks(speed: float) -> None:
    sound = speech(3.0)
    out = stretch(sound, speed)
    assert np.max(np.abs(np.diff(out))) <= 1.5 * np.max(np.abs(np.diff(sound)))


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(0, 6000), max_size=10), st.sampled_from(SPEEDS))
def test_a_stream_is_the_whole(sizes: list[int], speed: float) -> None:
    sound = np.random.default_rng(3).standard_normal(sum(sizes)).astype(np.float32) * 0.1
    stream, parts, start = Stretcher(speed), [], 0
    for size in sizes:
        parts.append(stream.feed(sound[start : start + size]))
        start += size
    assert np.array_equal(np.concatenate([*parts, stream.flush()]), stretch(sound, speed))


def test_a_stream_does_not_wait_long() -> None:
    stream = Stretcher(1.25)
    given = stream.feed(speech(1.0)).size
    assert given > 0.9 * 24000 / 1.25


def test_speed_one_changes_nothing_and_silence_stays_silent() -> None:
    sound = speech(0.5)
    assert np.array_equal(stretch(sound, 1.0), sound)
    assert not stretch(np.zeros(24000, np.float32), 1.5).any()
    assert stretch(np.zeros(0, np.float32), 1.5).size == 0


@pytest.mark.parametrize("speed", [0.49, 2.01, 0.0, -1.0, float("nan"), float("inf")])
def test_speeds_that_cannot_be(speed: float) -> None:
    with pytest.raises(UsageError, match="speed"):
        Stretcher(speed)
