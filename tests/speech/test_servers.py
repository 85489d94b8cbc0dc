"""Servers: addresses, the socket of the same user, and what a refusal means."""

import http.client
import os
import socket
import threading
import time
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


@pytest.mark.parametrize(("url", "expected"), [
    ("http://h:1", (False, "h", 1, "/v1/audio/speech")), ("h:1/", (False, "h", 1, "/v1/audio/speech")),
    ("https://h", (True, "h", 443, "/v1/audio/speech")), ("http://h/v1", (False, "h", 80, "/v1/audio/speech")),
    ("http://h/tts/v1/audio/speech/", (False, "h", 80, "/tts/v1/audio/speech")),
    ("http://[::1]:9/x", (False, "::1", 9, "/x/v1/audio/speech")),
])  # fmt: skip
def test_addresses(url: str, expected: tuple[Any, ...]) -> None:
    address = Address.of(url)
    assert (address.secure, address.host, address.port, address.path) == expected


@pytest.mark.parametrize("url", [
    "ftp://h", "http://", "http://h:port", "http://u:secret@h", "http://h/?key=secret", "http://h:99999",
    "http://[::1",
])  # fmt: skip
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


@pytest.mark.parametrize("mode", [0o777, 0o720])
def test_a_socket_in_a_folder_that_others_can_write_is_not_used(home: Path, mode: int) -> None:
    path = server_socket()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.parent.chmod(0o700)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        assert own_socket() is not None
        path.parent.chmod(mode)
        assert own_socket() is None


def test_the_process_behind_a_socket_must_be_of_this_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        listening.listen()
        address = Address(False, "localhost", 0, servers.PATH, path)
        address.connect().close()
        monkeypatch.setattr(servers, "user_of", lambda peer: os.getuid() + 1)
        with pytest.raises(PermissionError, match="another user"):
            address.connect()


def test_a_key_in_clear_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMNITTS_API_KEY", "secret")
    assert Address.of("http://far.example").tells_key
    assert not Address.of("https://far.example").tells_key and not Address.of("http://127.0.0.1:1").tells_key
    monkeypatch.delenv("OMNITTS_API_KEY")
    assert not Address.of("http://far.example").tells_key


CARD = {
    "format": 1, "identity": "x", "device": "cpu", "dtype": "float32", "asked": {"device": "cpu", "dtype": "auto"},
    "exact": None, "slots": 4, "sample_rate": 24_000, "frame_rate": 12.5, "hidden": 64, "longest_piece": None,
    "plain_letters": True, "kinds": ["named"], "speakers": {"henry": "a man"}, "languages": ["english"],
}  # fmt: skip


def test_what_a_server_says_of_its_model_is_checked() -> None:
    entry = {"id": "tiny", "state": "ready", "tasks": ["CustomVoice"], "omnitts": CARD}
    assert servers.described(entry)["omnitts"] == CARD
    assert servers.described({**entry, "omnitts": {"format": 7, "slots": "many"}})["omnitts"]["format"] == 7
    for name in set(CARD) - {"format", "exact", "longest_piece"}:
        for wrong in (None, -5, [], {}, "x" * 2000, True, [[1]], {"a": 1}, float("nan"), 10**400):
            if servers.CARD[name](wrong):
                assert (name, wrong) in [("kinds", []), ("languages", []), ("speakers", {}), ("asked", {}),
                                         ("plain_letters", True)]  # fmt: skip
                continue
            with pytest.raises(ValueError, match=f"not an omnitts server.* {name}"):
                servers.described({**entry, "omnitts": {**CARD, name: wrong}})
    for wrong in (None, 5, [], "x" * 2000):
        with pytest.raises((ValueError, KeyError)):
            servers.described({**entry, "id": wrong})


def dripping(listening: socket.socket, first: bytes, drop: bytes) -> None:
    """Answers with `first`, then with a drop every 20 ms until the other side has gone."""
    link, _ = listening.accept()
    with link:
        try:
            link.recv(65_536)
            link.sendall(first)
            while True:
                link.sendall(drop)
                time.sleep(0.02)
        except OSError:
            return


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    ("first", "drop"),
    [(b"", b"H"), (b"HTTP/1.1 200 OK\r\n", b"x: y\r\n"), (b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 100 -\r\n\r\n"),
     (b"HTTP/1.1 200 OK\r\nContent-Length: 9999999\r\n\r\n", b" ")],
)  # fmt: skip
def test_an_answer_that_drips_ends_in_time(first: bytes, drop: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=dripping, args=(listening, first, drop), daemon=True).start()
        address = Address.of(f"http://127.0.0.1:{listening.getsockname()[1]}")
        with pytest.raises((OSError, http.client.HTTPException)):
            servers.every_model(address, 1.0, 0.5)
