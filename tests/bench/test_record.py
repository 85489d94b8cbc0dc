"""Heard: what counts as whole."""

from __future__ import annotations

import numpy as np

from omnitts_cli.bench.record import Heard, Work
from omnitts_cli.engine.meter import RequestMeter
from omnitts_cli.request import Request


def heard(frames: int | None = None, **fields: object) -> Heard:
    work = Work(Request("hello", **fields))  # type: ignore[arg-type]
    return Heard(work, 0.0, RequestMeter(8000, 0.5), frames=frames)


def test_whole_sound_is_no_failure() -> None:
    one = heard()
    one.hear(np.ones(80, np.float32), 1.0)
    one.end(2.0, "end")
    assert one.failure is None
    assert one.queue_s == 0.5
    assert not one.guard_hit


def test_a_told_failure_goes_before_what_is_seen() -> None:
    one = heard()
    one.end(2.0, None, "HTTP 503")
    assert one.failure == "HTTP 503"


def test_frames_that_nobody_tells_are_not_missed() -> None:
    one = heard(None, max_frames=3, ignore_end=True)
    one.hear(np.ones(80, np.float32), 1.0)
    one.end(2.0, None)
    assert one.failure is None


def test_sound_is_kept_only_where_it_was_asked_for() -> None:
    one = heard()
    one.hear(np.ones(80, np.float32), 1.0)
    assert one.sound == []
    one.keep = True
    one.hear(np.ones(40, np.float32), 1.0)
    assert [part.size for part in one.sound] == [40]
