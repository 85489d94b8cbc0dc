"""The encoders of answers: when their first bytes come. That they are right is in test_speech.py."""

from __future__ import annotations

import asyncio
import shutil
import time

import numpy as np
import pytest
from patience import LONG_S

from omnitts_cli.server.encode import Aac


@pytest.mark.skipif(shutil.which("ffmpeg") is None, reason="needs ffmpeg")
def test_aac_begins_before_a_second_of_sound_is_there() -> None:
    async def begun() -> int:
        encoder = Aac(24_000)
        await encoder.start(24_000)
        try:
            data, until = b"", time.monotonic() + LONG_S
            for _ in range(12):  # frames of 80 ms
                data += await encoder.feed(np.full(1920, 0.1, np.float32))
            while not data and time.monotonic() < until:
                await asyncio.sleep(0.01)
                data += encoder._take()
            return len(data)
        finally:
            await encoder.close()

    assert asyncio.run(begun()) > 0
