"""Clips from allowed hosts."""

from __future__ import annotations

import http.client

import pytest
from patience import LONG_S
from redirecting import redirecting

from omnitts_cli.server import clips
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
