"""The process that decodes a client's clip: what it answers, and that it bounds itself."""

import io
import json
import resource
from typing import Any

import numpy as np
import pytest
import soundfile
from sounds import speech

from omnitts_cli.audio import read
from omnitts_cli.server import decode


def answered(clip: bytes, monkeypatch: pytest.MonkeyPatch) -> tuple[dict[str, Any], np.ndarray]:
    """What the process writes for `clip`, run in this one without its limits."""
    out = io.BytesIO()
    monkeypatch.setattr(decode, "limit", lambda: None)
    monkeypatch.setattr(decode, "confine", lambda: None)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(clip)))
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(out))
    decode.main()
    head, _, samples = out.getvalue().partition(b"\n")
    return json.loads(head), np.frombuffer(samples, "<f4")


def test_a_clip_is_answered_with_its_samples_or_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    file = io.BytesIO()
    soundfile.write(file, speech(2.0), 24_000, format="WAV", subtype="PCM_16")
    head, samples = answered(file.getvalue(), monkeypatch)
    assert head["source_rate"] == 24_000 and head["channels"] == 1 and abs(head["source_s"] - 2.0) < 0.01
    assert len(samples) and abs(len(samples) / head["rate"] - 2.0) < 0.1
    head, samples = answered(b"no sound", monkeypatch)
    assert head["error"] and not len(samples)

    def exhausted(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr(read, "read_clip", exhausted)
    assert "too much memory" in answered(b"", monkeypatch)[0]["error"]


def test_the_process_bounds_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    limits: dict[int, tuple[int, int]] = {}
    monkeypatch.setattr(resource, "setrlimit", limits.__setitem__)
    decode.limit()
    assert limits[resource.RLIMIT_CPU] == (10, 10) and limits[resource.RLIMIT_AS][0] == 512 << 20
