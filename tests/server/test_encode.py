"""The encoders of answers: when their first bytes come. That they are right is in test_speech.py."""

from __future__ import annotations

import asyncio
import shutil
import time

import numpy as np
import pytest
from patience import LONG_S

from omnitts_cli.audio import pyav
from omnitts_cli.server.encode import Encoding
from omnitts_cli.server.problems import Problem


@pytest.mark.skipif(shutil.which("ffmpeg") is None, reason="needs ffmpeg")
def test_aac_begins_before_a_second_of_sound_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pyav, "present", lambda: False)

    async def begun() -> int:
        encoder = Encoding("aac", 24_000, None)
        try:
            data, until = b"", time.monotonic() + LONG_S
            for _ in range(12):  # frames of 80 ms
                data += await encoder.feed(np.full(1920, 0.1, np.float32))
            while not data and time.monotonic() < until:
                await asyncio.sleep(0.01)
                data += await encoder.feed(np.zeros(0, np.float32))
            return len(data)
        finally:
            await encoder.close()

    assert asyncio.run(begun()) > 0


def test_aac_through_pyav(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("av")
    monkeypatch.setenv("PATH", "")

    async def encoded() -> tuple[bytes, bytes]:
        encoding = Encoding("aac", 24_000, None)
        first = await encoding.feed(np.full(7200, 0.1, np.float32))
        return first, await encoding.finish()

    first, rest = asyncio.run(encoded())
    assert first[:2] == b"\xff\xf1" and rest


def test_aac_without_either_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(pyav, "present", lambda: False)
    with pytest.raises(Problem):
        Encoding("aac", 24_000, None)
