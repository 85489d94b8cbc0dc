"""Result: what counts as whole."""

from __future__ import annotations

import numpy as np

from omnitts_cli.bench.meter import RequestMeter
from omnitts_cli.bench.record import Result, Work
from omnitts_cli.request import Request


def result(frames: int | None = None, **fields: object) -> Result:
    work = Work(Request("hello", **fields))  # type: ignore[arg-type]
    return Result(work, 0.0, RequestMeter(8000, 0.5), frames=frames)


def test_whole_sound_is_no_failure() -> None:
    one = result()
    one.add(np.ones(80, np.float32), 1.0)
    one.end(2.0, "end")
    assert one.failure is None
    assert one.queue_s == 0.5
    assert not one.guard_hit


def test_a_given_failure_goes_before_a_detected_one() -> None:
    one = result()
    one.end(2.0, None, "HTTP 503")
    assert one.failure == "HTTP 503"


def test_unreported_frames_are_not_missed() -> None:
    one = result(None, max_frames=3, ignore_end=True)
    one.add(np.ones(80, np.float32), 1.0)
    one.end(2.0, None)
    assert one.failure is None


def test_sound_is_kept_only_where_it_was_asked_for() -> None:
    one = result()
    one.add(np.ones(80, np.float32), 1.0)
    assert one.sound == []
    one.keep = True
    one.add(np.ones(40, np.float32), 1.0)
    assert [part.size for part in one.sound] == [40]
