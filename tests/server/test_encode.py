"""The encoders of answers: when their first bytes come. That they are right is in test_speech.py."""

import asyncio
import io
import json
import os
import shutil
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from patience import LONG_S, eventually, first_sound_only
from serving import start
from wire import Answer, connect

from omnitts_cli.audio import pyav
from omnitts_cli.audio.aac import FfmpegWriter
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


def children() -> set[int]:
    """The processes that this one has started and not waited for, those that have ended included."""
    found = set()
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            found.add((int(path.parent.name), int(path.read_text().rpartition(")")[2].split()[1])))
    return {number for number, parent in found if parent == os.getpid()}


def decoded(aac: bytes) -> np.ndarray:
    """The samples as ffmpeg reads them, without the 1024 with which its encoder begins."""
    command = ["ffmpeg", "-v", "error", "-f", "aac", "-i", "-", "-f", "f32le", "-"]
    return np.frombuffer(subprocess.run(command, input=aac, capture_output=True, check=True).stdout, np.float32)[1024:]


@pytest.mark.skipif(shutil.which("ffmpeg") is None or not Path("/proc/self/fd").exists(), reason="needs ffmpeg, /proc")
@pytest.mark.parametrize("way", [{}, {"stream": False}], ids=["streamed", "whole"])
def test_eight_aac_answers_at_once_leave_nothing_behind(
    way: dict[str, Any], monkeypatch: pytest.MonkeyPatch, recwarn: pytest.WarningsRecorder
) -> None:
    """Two clients leave, and two others get their places. Nobody else does while there are eight."""
    monkeypatch.setattr(pyav, "present", lambda: False)
    running = FfmpegWriter.running

    def asked(seed: int, **fields: Any) -> Answer:
        text = f"This is sentence number {seed}. " * (1 + seed % 3)
        return server.speech(text, **{"seed": seed, "response_format": "aac", **way, **fields})

    def leaves(seed: int) -> None:
        with connect(server.url) as link:
            body = json.dumps({"input": "It is too long. " * 40, "seed": seed, "response_format": "aac", **way})
            head = ("POST /v1/audio/speech HTTP/1.1", f"Host: localhost:{server.port}", f"Content-Length: {len(body)}")
            link.sendall("\r\n".join([*head, "Content-Type: application/json", "", body]).encode())
            assert left.wait(LONG_S)

    with start(engine={"slots": 8}) as server, ThreadPoolExecutor(16) as clients:
        files = [asked(seed, response_format="wav", stream=False).body for seed in range(8)]
        wanted = [soundfile.read(io.BytesIO(one), dtype="float32")[0] for one in files]
        assert len(decoded(asked(0).body))
        eventually(lambda: not server.state.calls)
        before = children(), len(os.listdir("/proc/self/fd"))
        left = threading.Event()
        with first_sound_only(server.state.models.all[0].tts.engine.engine):
            leaving = [clients.submit(leaves, seed) for seed in (90, 91)]
            first = [clients.submit(asked, seed) for seed in range(6)]
            eventually(lambda: len(running) == 8)
            refused = asked(8)
            assert refused.status == 503 and refused.error["code"] == "aac_busy"
            left.set()
            eventually(lambda: len(running) == 6)
            others = [clients.submit(asked, seed) for seed in (6, 7)]
            eventually(lambda: len(running) == 8)
        answers = [one.result(LONG_S) for one in [*first, *others]]
        for one in leaving:
            one.result(LONG_S)
        for samples, answer in zip(wanted, answers, strict=True):
            sound = decoded(answer.body)
            assert answer.status == 200 and samples.size <= sound.size < samples.size + 1024
            assert np.corrcoef(samples, sound[: samples.size])[0, 1] > 0.9
        eventually(lambda: not server.state.calls and not running)
        eventually(lambda: (children(), len(os.listdir("/proc/self/fd"))) == before)
        assert not [one for one in threading.enumerate() if one.name == "omnitts aac"]
    assert not [one for one in recwarn if "BufferedRandom" in str(one.message)]  # a file that only its end has closed
