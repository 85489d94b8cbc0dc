"""Recorded clips differ as recordings do, and are still spectra."""

import math

import pytest
import torch

from omnitts_cli.models.speaker import QUIETEST
from omnitts_cli.training import recording
from omnitts_cli.training.recording import recorded


def clip(n: int = 64) -> torch.Tensor:
    """A tone in the lower bands, with a silence in the middle: [n, bands, columns]."""
    mel = torch.full((n, 32, 60), math.log(QUIETEST))
    mel[:, 4:8, :20] = mel[:, 4:8, 40:] = 0.0
    return mel


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """No hindrance but those that a test asks for."""
    torch.manual_seed(0)
    for name in ("UNTOUCHED", "ROOM", "NOISE", "CUT", "COLOUR", "LOUDER", "SOFTER"):
        monkeypatch.setattr(recording, name, 0.0)
    return monkeypatch


def test_without_hindrances_nothing_changes(alone: pytest.MonkeyPatch) -> None:
    assert torch.allclose(recorded(clip()), clip(), atol=1e-6)


def test_half_of_the_clips_stay_as_they_are() -> None:
    torch.manual_seed(0)
    same = (recorded(clip()) == clip()).flatten(1).all(1)
    assert 20 < int(same.sum()) < 44


def test_a_room_fills_the_silence_behind_speech(alone: pytest.MonkeyPatch) -> None:
    alone.setattr(recording, "ROOM", 1.0)
    found = recorded(clip())
    echo = found[:, 4:8, 20:40]
    assert bool((echo[..., 0] > math.log(QUIETEST) + 3).all()) and bool((echo.diff() < 0).all())
    assert bool((found[:, 20:] < math.log(QUIETEST) + 1.2).all())  # other bands hear nothing but their own floor


def test_noise_is_below_speech_and_fills_every_band(alone: pytest.MonkeyPatch) -> None:
    alone.setattr(recording, "NOISE", 1.0)
    found = recorded(clip())
    assert bool((found[..., 25].mean(-1) > math.log(QUIETEST) + 2).all())
    assert torch.allclose(found[:, 4:8, :20], torch.zeros(()), atol=0.3)


def test_a_cut_takes_the_upper_bands_alone(alone: pytest.MonkeyPatch) -> None:
    alone.setattr(recording, "CUT", 1.0)
    loud = torch.zeros(64, 32, 10)
    kept = (recorded(loud)[..., 0] == 0).sum(-1)
    assert kept.min() >= int(32 * recording.LOWEST_CUT) and kept.max() <= 32 and kept.unique().numel() > 3


def test_every_clip_meets_other_hindrances() -> None:
    torch.manual_seed(0)
    found = recorded(clip())
    assert bool((found >= math.log(QUIETEST) - 1e-6).all()) and bool(found.isfinite().all())
    assert (found[0] - found[1]).abs().mean() > 0.05
