"""Cutting long clips at a pause, together with their transcript."""

import numpy as np
import pytest

from omnitts_cli.audio.trim import pauses, trim
from omnitts_cli.errors import InputError


def with_pauses(at: list[float], seconds: float) -> np.ndarray:
    """Sound all along, but for a third of a second around each of the given times."""
    t = np.arange(round(seconds * 24000)) / 24000
    sound = 0.3 * np.sin(2 * np.pi * 150 * t) + 0.1 * np.sin(2 * np.pi * 450 * t)
    for middle in at:
        sound[np.abs(t - middle) < 0.17] = 0.0
    return sound.astype(np.float32)


def test_pauses_are_found() -> None:
    found = pauses(with_pauses([5.0, 12.0, 28.0], 40.0), 24000)
    assert found == pytest.approx([5.0, 12.0, 28.0], abs=0.05)


def test_31_seconds_are_cut_at_a_pause_with_a_notice() -> None:
    sound = with_pauses([5.0, 12.0, 28.0], 31.0)
    part = trim(sound, 24000)
    assert part.sound.size / 24000 == pytest.approx(28.0, abs=0.1)
    assert part.notice is not None and "31.0 s" in part.notice and "28.0 s" in part.notice


def test_30_seconds_stay_as_they_are() -> None:
    sound = with_pauses([5.0], 30.0)
    part = trim(sound, 24000, [0.5, 1.0])
    assert part.sound is sound and part.notice is None and part.sentences == 2


def test_without_a_pause_30_seconds_are_taken() -> None:
    assert trim(with_pauses([], 40.0), 24000).sound.size == 30 * 24000


def test_the_transcript_is_cut_at_the_same_place() -> None:
    """Sentences of 10, 14, 20 and 16 seconds; the pauses are where they end."""
    part = trim(with_pauses([10.0, 24.0, 44.0], 60.0), 24000, [10 / 60, 24 / 60, 44 / 60, 1.0])
    assert part.sentences == 2 and part.sound.size / 24000 == pytest.approx(24.0, abs=0.1)
    assert part.notice is not None and "2 of 4 sentences" in part.notice


def test_a_transcript_that_fits_no_pause_is_refused() -> None:
    with pytest.raises(InputError, match="no pause in it fits a sentence end"):
        trim(with_pauses([10.0, 24.0], 60.0), 24000, [0.7, 1.0])
