"""One channel out of several."""

import numpy as np

from omnitts_cli.audio.mono import correlation, to_mono

SOUND = np.sin(np.arange(1000) * 0.1).astype(np.float32)


def test_the_loudest_channel_is_taken_as_it_is() -> None:
    mono, notices = to_mono(np.stack([SOUND * 0.1, SOUND * 0.5, SOUND * 0.2], 1))
    assert np.array_equal(mono, SOUND * np.float32(0.5))
    assert notices == ["the clip has 3 channels; channel 2, the loudest, is used"]


def test_silence_is_no_division_by_zero() -> None:
    assert correlation(np.zeros(5), SOUND[:5]) == 0.0
    assert to_mono(np.zeros((5, 2), np.float32))[0].tolist() == [0.0] * 5
