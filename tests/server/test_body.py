"""JSON bodies: what would take long to parse is refused before it is."""

import asyncio

import pytest

from omnitts_cli.server.body import parse_object, read_body
from omnitts_cli.server.problems import Problem


@pytest.mark.parametrize(
    ("body", "code"),
    [(b'{"a": [' + b", ".join([b"9" * 4300] * 3700) + b"]}", "invalid_json"),
     (b'{"a": [' + b"1," * 50_000 + b"1]}", "invalid_value"),
     (str({f"f{n}": n for n in range(201)}).replace("'", '"'), "invalid_value"), (b'{"a": 1, "a": 2}', "invalid_json")],
    ids=["digits", "values", "fields", "a key twice"],
)  # fmt: skip
def test_bodies_that_are_refused(body: bytes | str, code: str) -> None:
    """`tests/test_parse.py` has the other reasons."""
    with pytest.raises(Problem) as caught:
        parse_object(body)
    assert (caught.value.status, caught.value.code) == (400, code)


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
