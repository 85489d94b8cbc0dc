"""Captured equals eager, on a device that replays from fixed addresses and on one whose lanes lag."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from omnitts_cli.request import Request

Speak = Callable[..., dict[str, Any]]
FEW = {"chunks": (1, 2, 4), "prefill_rows": (16, 32)}  # fewer graphs to record


@pytest.mark.parametrize("slots", [1, 2, 5])
def test_captured_is_eager(
    speak: Speak,
    requests_of: Callable[..., list[Request]],
    recording: ModuleType,
    same: Callable[..., None],
    slots: int,
) -> None:
    """Every bucket from one to the number of slots, each kind of voice, greedy and sampled."""
    requests = requests_of(3 + slots)
    eager = speak(requests, slots)
    device = recording.RecordingDevice()
    captured = speak(requests, slots, device=device, **FEW)
    assert device.graphs > 5 and device.replays > 50
    assert eager.keys() == captured.keys()
    for name in eager:
        same(eager[name], captured[name])


@pytest.mark.parametrize("seed", range(6))
def test_lanes_that_lag_change_nothing(
    speak: Speak, requests_of: Callable[..., list[Request]], recording: ModuleType, same: Callable[..., None], seed: int
) -> None:
    requests = requests_of(9)
    late = speak(requests, 3, device=recording.RecordingDevice(late=True, seed=seed), **FEW)
    eager = speak(requests, 3)
    for name in eager:
        same(eager[name], late[name])
