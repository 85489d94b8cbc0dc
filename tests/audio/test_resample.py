"""Resampling: promised lengths, stream equal to whole, and rates that would give nothing or gigabytes refused."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sounds import speech

from omnitts_cli.audio.resample import Resampler, resample, resampled_length
from omnitts_cli.errors import GuardError, InputError

RATES = [8000, 11025, 16000, 22050, 24000, 44100, 48000, 96000, 192000]


@pytest.mark.parametrize("target", RATES)
def test_lengths_are_exact(target: int) -> None:
    sound = speech(1.2345)
    assert resample(sound, 24000, target).size == resampled_length(sound.size, 24000, target)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 5000), max_size=12), st.sampled_from([16000, 44100, 48000]))
def test_a_stream_is_the_whole(sizes: list[int], target: int) -> None:
    sound = np.random.default_rng(0).standard_normal(sum(sizes)).astype(np.float32) * 0.1
    stream, parts, start = Resampler(24000, target), [], 0
    for size in sizes:
        parts.append(stream.feed(sound[start : start + size]))
        start += size
    joined = np.concatenate([*parts, stream.flush()])
    whole = resample(sound, 24000, target)
    assert joined.size == whole.size
    assert np.allclose(joined, whole, atol=1e-5)


def test_a_tone_keeps_its_pitch_and_level() -> None:
    t = np.arange(48000) / 48000
    tone = (0.5 * np.sin(2 * np.pi * 1000 * t)).astype(np.float32)
    down = resample(tone, 48000, 24000)
    middle = down[2400:-2400]
    assert np.max(np.abs(middle)) == pytest.approx(0.5, abs=0.002)
    assert int(np.argmax(np.abs(np.fft.rfft(down)))) == 1000


def test_the_same_rate_changes_nothing() -> None:
    sound = speech(0.5)
    assert np.array_equal(resample(sound, 24000, 24000), sound)


@pytest.mark.parametrize("rate", [0, -1, 1, 3999, 384001, 2**32 - 1])
def test_absurd_rates_are_refused(rate: int) -> None:
    with pytest.raises(InputError, match="sample rate"):
        Resampler(rate, 24000)
    with pytest.raises(InputError, match=str(rate)):
        Resampler(24000, rate)


def test_the_resampler_never_sees_a_nan() -> None:
    sound = np.zeros(2000, np.float32)
    sound[1000] = np.nan
    with pytest.raises(GuardError):
        Resampler(24000, 48000).feed(sound)
