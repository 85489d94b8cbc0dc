"""Time that passes only while a fake engine sleeps."""

import bench_kit
import pytest
from bench_kit import Clock

from omnitts_cli.bench import load, local


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The time of fake engines, closed loops and EngineTarget: what they measure does not depend on the machine."""
    made = Clock()
    for module in (load, local, bench_kit):
        monkeypatch.setattr(module, "time", made)
    return made
