"""Sample formats: exact values, no wrap-around, no NaN."""

from __future__ import annotations

import io

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnitts_cli.audio import pcm
from omnitts_cli.errors import GuardError

soundfile = pytest.importorskip("soundfile")


def test_int16_round_trip_changes_nothing() -> None:
    every = np.arange(-32768, 32768).astype(np.int16)
    assert np.array_equal(pcm.to_int16(every.astype(np.float32) / 32768), every)


@given(st.lists(st.floats(-4, 4, width=32), max_size=50))
def test_values_outside_are_held_not_wrapped(values: list[float]) -> None:
    sound = np.array(values, np.float32)
    back = pcm.to_int16(sound).astype(np.float32) / 32768
    assert np.all(np.abs(back - np.clip(sound, -1, 32767 / 32768)) <= 0.5 / 32768 + 1e-7)


def test_pcm24_is_what_libsndfile_reads() -> None:
    sound = np.linspace(-1, 1, 1001, dtype=np.float32)
    data = pcm.to_bytes(sound, "pcm24")
    read, _ = soundfile.read(io.BytesIO(data), samplerate=24000, channels=1, subtype="PCM_24", format="RAW")
    assert len(data) == 3003
    assert np.max(np.abs(read - np.clip(sound, -1, 1 - 2**-23))) <= 2**-24 + 1e-9


def test_float_bytes_are_the_numbers_themselves() -> None:
    sound = np.array([0.0, -3.5, 1e-30, 7.0], np.float32)
    assert np.array_equal(np.frombuffer(pcm.to_bytes(sound, "float"), "<f4"), sound)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_number_that_is_none_is_refused_with_a_report(bad: float) -> None:
    sound = np.zeros(1000, np.float32)
    sound[17] = bad
    with pytest.raises(GuardError, match="1 of 1000") as caught:
        pcm.require_finite(sound)
    assert caught.value.exit_code == 7


def test_levels() -> None:
    assert pcm.peak_dbfs(np.array([0.5, -1.0], np.float32)) == 0.0
    assert pcm.peak_dbfs(np.zeros(3, np.float32)) == -np.inf
    assert pcm.gain(6.0) == pytest.approx(1.9953, rel=1e-4)
    assert pcm.silence(0.25, 24000).size == 6000
