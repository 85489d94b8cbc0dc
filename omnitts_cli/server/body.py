"""Request bodies: counted as they arrive, and JSON of sane size, depth and numbers."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from omnitts_cli.server.problems import Problem, invalid

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Scope = MutableMapping[str, Any]

LARGEST_JSON = 16 << 20
BODY_S = 60.0
DISCARDED, DISCARD_S = 64 << 20, 5.0  # bytes of a body that is too large, and seconds for them
DEEPEST = 32
MOST_FIELDS = 200
SMALL = 256 << 10  # parsed on the event loop
MOST_COMMAS = 40_000  # the bulk of a large body is base64, which has none
MOST_DIGITS = 400


class Gone(Exception):
    """The client has disconnected."""


def header(scope: Scope, name: bytes) -> str:
    """A header of the request, or nothing."""
    return next((value.decode("latin-1") for key, value in scope["headers"] if key == name), "")


async def read_body(scope: Scope, receive: Receive, limit: int) -> bytes:
    """The whole body, at most `limit` bytes of it."""
    length = header(scope, b"content-length")
    if length.isdecimal() and int(length) > limit:
        if int(length) <= DISCARDED:
            await discard(receive)
        raise too_large(limit)
    parts, size = [], 0
    try:
        async with asyncio.timeout(BODY_S):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise Gone
                part = message.get("body", b"")
                size += len(part)
                if size > limit:
                    raise too_large(limit)
                parts.append(part)
                if not message.get("more_body"):
                    return parts[0] if len(parts) == 1 else b"".join(parts)
    except TimeoutError:
        raise Problem(
            408, f"the body did not arrive within {BODY_S:g} s", code="timeout", headers={"Connection": "close"}
        ) from None


async def discard(receive: Receive) -> None:
    """Reads a body without keeping it. Many clients read the answer only when they have sent everything."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(DISCARD_S):
            while (message := await receive())["type"] != "http.disconnect" and message.get("more_body"):
                pass


def too_large(limit: int) -> Problem:
    """413. What is left of the body is not read, so the connection ends."""
    return Problem(413, f"the body is larger than {limit:,} bytes", code="too_large", headers={"Connection": "close"})


async def read_json(scope: Scope, receive: Receive, limit: int = LARGEST_JSON) -> dict[str, Any]:
    """The JSON object in the body."""
    kind = header(scope, b"content-type").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise Problem(
            415,
            f"the content type is '{kind[:80]}', not application/json",
            code="unsupported_media_type",
            hint="send the header Content-Type: application/json",
        )
    body = await read_body(scope, receive, limit)
    if len(body) <= SMALL:
        return parse_object(body)
    return await asyncio.to_thread(parse_object, body)


def parse_object(body: bytes | str) -> dict[str, Any]:
    """A JSON object without NaN, not nested deeply, with a sane number of fields."""
    if isinstance(body, bytes) and sum(map(body.count, (b",", b"[", b"{"))) > MOST_COMMAS:
        raise invalid(None, "the JSON has too many values")
    try:
        value = json.loads(body, parse_constant=refuse_constant, parse_int=whole, parse_float=real)
    except RecursionError:
        raise invalid(None, f"the JSON is nested more than {DEEPEST} deep") from None
    except ValueError as error:
        raise Problem(400, f"the body is not JSON: {str(error)[:200]}", code="invalid_json") from None
    if not isinstance(value, dict):
        raise invalid(None, "the body is not a JSON object")
    check_depth(value)
    return value


def whole(digits: str) -> int:
    """A whole number; the time for one grows with the square of its digits."""
    return int(short(digits))


def real(digits: str) -> float:
    """Any other number."""
    return float(short(digits))


def short(digits: str) -> str:
    """The digits of a number, if they are not too many."""
    if len(digits) > MOST_DIGITS:
        raise ValueError(f"a number has more than {MOST_DIGITS} digits")
    return digits


def refuse_constant(name: str) -> None:
    """NaN and Infinity are not JSON."""
    raise ValueError(f"{name} is not a number")


def check_depth(value: Any) -> None:
    """Refuses deep nesting and objects with too many fields."""
    level: list[Any] = [value]
    for _ in range(DEEPEST):
        if not level:
            return
        if any(isinstance(one, dict) and len(one) > MOST_FIELDS for one in level):
            raise invalid(None, f"an object has more than {MOST_FIELDS} fields")
        level = [
            item
            for one in level
            for item in (one.values() if isinstance(one, dict) else one)
            if isinstance(item, dict | list)
        ]
    raise invalid(None, f"the JSON is nested more than {DEEPEST} deep")
