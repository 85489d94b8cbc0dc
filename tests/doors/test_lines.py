"""Lines of a protocol: whole, too long, and cut off by the end."""

import io
from typing import Any

from omnitts_cli.doors.lines import LineStreams


def test_a_line_that_is_too_long_is_cut_and_the_next_is_whole() -> None:
    lines = LineStreams(io.BytesIO(b"a\n\n" + b"b" * 50 + b"\nc\nhalf"), io.BytesIO(), 8)
    assert [lines.read() for _ in range(6)] == [b"a", b"", b"b" * 8, b"c", None, None]


def test_everything_is_written_although_the_pipe_takes_little() -> None:
    taken: list[bytes] = []

    class Narrow(io.RawIOBase):
        def write(self, data: Any) -> int:
            taken.append(bytes(data[:3]))
            return len(taken[-1])

    LineStreams(io.BytesIO(), Narrow(), 8).write(b"0123456789")  # type: ignore[arg-type]
    assert b"".join(taken) == b"0123456789" and len(taken) == 4
