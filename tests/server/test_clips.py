"""Clips from allowed hosts."""

import asyncio
import http.client
from types import SimpleNamespace
from typing import Any

import pytest
from patience import LONG_S
from redirecting import redirecting

from omnitts_cli.server import clips
from omnitts_cli.server.clips import Clips
from omnitts_cli.server.problems import Problem


def test_a_redirect_to_a_private_address_is_not_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The allowed host answers with another address. TLS is left out, so that it can be on this machine."""

    def plain(host: str, port: int, address: str) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", port, timeout=LONG_S)

    monkeypatch.setattr(clips, "Pinned", plain)
    monkeypatch.setattr(clips, "public_address", lambda host: "203.0.113.1")
    with redirecting() as (port, private):
        with pytest.raises(Problem, match=r"'clips\.example' answered with 302") as error:
            clips.fetch(f"https://clips.example:{port}/a.wav", frozenset({"clips.example"}), 1000)
        assert private.calls == 0 and error.value.status == 400


def test_a_url_that_cannot_be_split_is_refused() -> None:
    with pytest.raises(Problem, match="not an https URL") as error:
        clips.fetch("https://[x/a.wav", frozenset({"x"}), 1000)
    assert error.value.status == 400


def test_a_decoder_that_is_ready_while_another_starts_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first clip starts a decoder of its own; meanwhile the one in advance is ready."""

    async def work() -> None:
        found, spare = Clips(1000), SimpleNamespace(returncode=0)

        async def communicate(data: bytes) -> tuple[bytes, None]:
            return b'{"error": "no sound"}\n', None

        async def start() -> Any:
            found._spare = spare  # type: ignore[assignment]
            return SimpleNamespace(communicate=communicate, returncode=0)

        monkeypatch.setattr(clips, "start", start)
        with pytest.raises(Problem, match="no sound"):
            await found.decoded(b"")
        assert found._spare is spare

    asyncio.run(work())
