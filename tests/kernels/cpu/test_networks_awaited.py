"""A first sound takes a second thread where a core is idle at that moment."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from omnitts_cli.kernels.cpu import library, networks
from omnitts_cli.settings.environment import EMBEDDED
from omnitts_cli.speech.tts import load


@pytest.fixture
def chosen() -> Iterator[None]:
    """What devices have set is put back at the end."""
    before = dict(networks._chosen)
    yield
    networks._chosen.update(before)


@pytest.mark.usefixtures("chosen")
@pytest.mark.parametrize(
    ("cores", "says", "threads"),
    [
        (2, "0.10 0.20 0.30 1/99 4242", 2),
        (2, "0.10 0.20 0.30 2/99 4242", 1),
        (1, "0.10 0.20 0.30 1/99 4242", 1),
        (2, "0.00 0.00 0.00 0/0 0", 1),  # a system that does not count
        (2, "nothing", 1),
        (2, None, 1),
    ],
)
def test_threads_of_an_awaited_call(
    cores: int, says: str | None, threads: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "loadavg"
    if says is not None:
        file.write_text(says)
    monkeypatch.setattr(networks, "RUNNING", str(file))
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 1}, raising=False)
    networks.use_threads(1, cores)
    assert networks.threads_awaited() == threads


@pytest.mark.usefixtures("chosen")
@pytest.mark.skipif(not library.usable(), reason="the library of the CPU was not compiled")
def test_sound_does_not_depend_on_it(monkeypatch: pytest.MonkeyPatch) -> None:
    made, asked = list[np.ndarray](), set[int]()

    def awaited(count: int) -> int:
        asked.add(count)
        return count

    with load(EMBEDDED, device="cpu") as tts:
        for count in (1, 2):
            monkeypatch.setattr(networks, "threads_awaited", partial(awaited, count))
            made.append(tts.speak("Good morning. It is warm.", voice="clara", seed=3).samples)
    assert asked == {1, 2} and np.array_equal(made[0], made[1])
