"""JSON bodies: what would take long to parse is refused before it is."""

from __future__ import annotations

import asyncio

import pytest

from omnitts_cli.server.body import parse_object, read_body
from omnitts_cli.server.problems import Problem


def test_numbers_with_many_digits_are_refused_at_once() -> None:
    """Python's time for one grows with the square of its digits, and it takes up to 4300 of them."""
    body = b'{"a": [' + b", ".join([b"9" * 4300] * 3700) + b"]}"
    with pytest.raises(Problem, match="digits"):
        parse_object(body)
    with pytest.raises(Problem, match="digits"):
        parse_object(b'{"a": 0.' + b"1" * 1000 + b"}")
    assert parse_object(b'{"seed": 9223372036854775807, "t": 0.5}') == {"seed": 2**63 - 1, "t": 0.5}


def test_small_bodies_have_a_limit_of_values_too() -> None:
    with pytest.raises(Problem, match="too many values"):
        parse_object(b'{"a": [' + b"1," * 50_000 + b"1]}")


def test_a_body_that_is_too_large_is_read_to_its_end_but_not_kept() -> None:
    """A client that sends everything first would see a closed connection instead of 413."""
    left = [{"type": "http.request", "body": b"x" * 1000, "more_body": n < 9} for n in range(10)]

    async def receive() -> dict[str, object]:
        return left.pop()

    def ask(size: int) -> int:
        with pytest.raises(Problem) as caught:
            asyncio.run(read_body({"headers": [(b"content-length", str(size).encode())]}, receive, 5000))
        return caught.value.status

    left.reverse()
    assert ask(10_000) == 413 and left == []
    assert ask(1 << 40) == 413, "at once: nothing is read"
