"""Request bodies: counted as they arrive, and the JSON in them."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from omnitts_cli.parse import Limits, ParseError, json_object
from omnitts_cli.server.problems import Problem, invalid

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Scope = MutableMapping[str, Any]

LARGEST_JSON = 16 << 20
BODY_S = 60.0
DISCARDED, DISCARD_S = 64 << 20, 5.0  # bytes of a body that is too large, and seconds for them
SMALL = 256 << 10  # parsed on the event loop
LIMITS = Limits(fields=200, values=40_000)  # the bulk of a large body is base64, which is one value


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


async def read_json(scope: Scope, receive: Receive) -> dict[str, Any]:
    """The JSON object in the body."""
    kind = header(scope, b"content-type").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise Problem(
            415,
            f"the content type is '{kind[:80]}', not application/json",
            code="unsupported_media_type",
            hint="send the header Content-Type: application/json",
        )
    body = await read_body(scope, receive, LARGEST_JSON)
    if len(body) <= SMALL:
        return parse_object(body)
    return await asyncio.to_thread(parse_object, body)


def parse_object(body: bytes | str) -> dict[str, Any]:
    """The JSON object of a request."""
    try:
        return json_object(body, LIMITS)
    except ParseError as error:
        if error.kind in ("object", "depth", "fields", "values"):
            raise invalid(None, f"the request {error}") from None
        raise Problem(400, f"the request {error}", code="invalid_json") from None
