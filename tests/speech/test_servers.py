"""Servers: addresses, the socket of the same user, and what a refusal means."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from redirecting import redirecting

from omnitts_cli.errors import OmniError, UsageError
from omnitts_cli.settings.environment import server_socket
from omnitts_cli.speech import servers
from omnitts_cli.speech.remote import connect
from omnitts_cli.speech.servers import Address, model_there, own_socket, refused


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://h:1", (False, "h", 1, "/v1/audio/speech")),
        ("h:1/", (False, "h", 1, "/v1/audio/speech")),
        ("https://h", (True, "h", 443, "/v1/audio/speech")),
        ("http://h/v1", (False, "h", 80, "/v1/audio/speech")),
        ("http://h/tts/v1/audio/speech/", (False, "h", 80, "/tts/v1/audio/speech")),
        ("http://[::1]:9/x", (False, "::1", 9, "/x/v1/audio/speech")),
    ],
)
def test_addresses(url: str, expected: tuple[Any, ...]) -> None:
    address = Address.of(url)
    assert (address.secure, address.host, address.port, address.path) == expected


@pytest.mark.parametrize(
    "url",
    [
        "ftp://h",
        "http://",
        "http://h:port",
        "http://u:secret@h",
        "http://h/?key=secret",
        "http://h:99999",
        "http://[::1",
    ],
)
def test_addresses_that_are_none_are_refused_without_telling_secrets(url: str) -> None:
    with pytest.raises(UsageError) as caught:
        Address.of(url)
    assert "secret" not in str(caught.value)
    assert caught.value.hint


def test_an_address_reads_as_it_was_given() -> None:
    assert str(Address.of("http://h:1/v1", "--via")) == "http://h:1"
    assert str(Address.of("https://h/tts")) == "https://h:443/tts"
    with pytest.raises(UsageError, match="--via ftp://h is not an http URL"):
        Address.of("ftp://h", "--via")


@pytest.mark.parametrize(
    ("url", "local"), [("http://127.0.0.1:1", True), ("localhost:1", True), ("[::1]:1", True), ("http://h:1", False)]
)
def test_loopback(url: str, local: bool) -> None:
    assert Address.of(url).loopback is local


@pytest.fixture
def listening(home: Path) -> Iterator[Path]:
    """A socket where `--via auto` looks."""
    path = server_socket()
    path.parent.mkdir(parents=True)
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(str(path))
        one.listen()
        yield path


def test_the_socket_of_the_same_user_is_found(listening: Path) -> None:
    found = own_socket()
    assert found is not None and found.socket == listening and found.loopback
    assert str(found) == f"unix:{listening}"


def test_another_users_socket_is_not(listening: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who could make the folder first would see every text."""
    real = os.lstat

    def foreign(path: Any) -> os.stat_result:
        facts = list(real(path))
        facts[4] += path == listening.parent
        return os.stat_result(facts)

    monkeypatch.setattr(servers.os, "lstat", foreign)
    assert own_socket() is None


def test_a_file_in_its_place_is_not_a_socket(home: Path) -> None:
    assert own_socket() is None
    server_socket().parent.mkdir(parents=True)
    server_socket().write_text("")
    assert own_socket() is None


def test_without_a_runtime_folder_it_is_in_the_temporary_one(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    monkeypatch.setenv("TMPDIR", str(home))
    assert server_socket() == home / f"omnitts-{os.getuid()}" / "serve.sock"


@pytest.mark.parametrize(
    ("status", "code"), [(400, 2), (401, 5), (403, 5), (404, 4), (408, 5), (429, 5), (500, 5), (502, 7), (503, 5)]
)
def test_a_refusal_has_the_exit_code_of_its_kind(status: int, code: int) -> None:
    error = refused(status, b'{"error": {"message": "no \\u001b[31m room"}}', Address.of("http://h:1"))
    assert error.exit_code == code and error.hint
    assert error.message == "http://h:1: no ?[31m room"
    assert refused(status, b"<html>", Address.of("http://h:1")).message == f"http://h:1: HTTP {status}"


def test_a_server_that_redirects_is_refused_and_gets_no_second_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another address would get the key and the text."""
    monkeypatch.setenv("OMNITTS_API_KEY", "secret")
    with redirecting() as (port, private):
        address = Address.of(f"http://127.0.0.1:{port}", "--via")
        with pytest.raises(OmniError, match="302") as error:
            model_there(address, None, "custom_voice")
        assert private.calls == 0 and error.value.hint
        with pytest.raises(OmniError, match="302"):
            connect(str(address), None, "custom_voice", device="auto", dtype="auto", local=lambda: pytest.fail("local"))
        assert private.calls == 0
