"""JSON bodies: what would take long to parse is refused before it is."""

from __future__ import annotations

import time

import pytest

from omnitts_cli.server.body import parse_object
from omnitts_cli.server.problems import Problem


def test_numbers_with_many_digits_are_refused_at_once() -> None:
    """Python's time for one grows with the square of its digits."""
    body = b'{"a": [' + b", ".join([b"9" * 4300] * 3700) + b"]}"
    began = time.process_time()
    with pytest.raises(Problem, match="digits"):
        parse_object(body)
    assert time.process_time() - began < 0.2
    with pytest.raises(Problem, match="digits"):
        parse_object(b'{"a": 0.' + b"1" * 1000 + b"}")
    assert parse_object(b'{"seed": 9223372036854775807, "t": 0.5}') == {"seed": 2**63 - 1, "t": 0.5}


def test_small_bodies_have_a_limit_of_values_too() -> None:
    with pytest.raises(Problem, match="too many values"):
        parse_object(b'{"a": [' + b"1," * 50_000 + b"1]}")
