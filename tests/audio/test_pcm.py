"""Sample formats: exact values, no wrap-around, no NaN."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnitts_cli.audio import pcm
from omnitts_cli.errors import GuardError

soundfile = pytest.importorskip("soundfile")


@given(st.lists(st.floats(-4, 4, width=32), max_size=50))
def test_values_outside_are_held_not_wrapped(values: list[float]) -> None:
    sound = np.array(values, np.float32)
    back = pcm.to_int16(sound).astype(np.float32) / 32768
    assert np.all(np.abs(back - np.clip(sound, -1, 32767 / 32768)) <= 0.5 / 32768 + 1e-7)


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
