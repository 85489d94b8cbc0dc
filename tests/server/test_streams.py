"""Doors besides HTTP: where they listen, who may come in, and how they end."""

import json
import os
import socket
import subprocess
from pathlib import Path
from typing import Any

import pytest
from command import PYTHON, Omnitts
from patience import LONG_S, eventually

from omnitts_cli.errors import UsageError
from omnitts_cli.server import streams
from omnitts_cli.server.wyoming import packed


def place(words: str, *, insecure: bool = False, keys: bool = False) -> socket.socket | None:
    return streams.place_of(words, "--wyoming", open_to_all=insecure, has_keys=keys)


@pytest.mark.parametrize("words", ["127.0.0.1:0", "tcp://127.0.0.1:0", "localhost:0"])
def test_an_address_is_listened_at(words: str) -> None:
    found = place(words)
    assert found is not None
    with found:
        assert streams.url_of(found).startswith("tcp://127.0.0.1:")
        with socket.create_connection(found.getsockname(), timeout=LONG_S):
            pass


def test_a_unix_socket_is_for_this_user(tmp_path: Path) -> None:
    found = place(f"unix://{tmp_path / 's'}")
    assert found is not None
    with found:
        assert streams.url_of(found) == f"unix://{tmp_path / 's'}" and (tmp_path / "s").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    "words", ["10200", "127.0.0.1", "127.0.0.1:", ":10200", "http://127.0.0.1:1", "127.0.0.1:99999"]
)
def test_what_is_not_an_address_is_refused(words: str) -> None:
    with pytest.raises(UsageError):
        place(words)


def test_other_machines_and_servers_with_keys_need_insecure() -> None:
    """These protocols have no keys."""
    for words, keys in (("0.0.0.0:0", False), ("127.0.0.1:0", True), ("0.0.0.0:0", True)):
        with pytest.raises(UsageError) as refused:
            place(words, keys=keys)
        assert "--insecure" in (refused.value.hint or "")
        found = place(words, keys=keys, insecure=True)
        assert found is not None
        found.close()
    assert place("stdio://", keys=True) is None  # whoever starts the command needs no key


def test_a_busy_port_and_ray_are_errors(omnitts: Omnitts) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        words = f"127.0.0.1:{taken.getsockname()[1]}"
        done = omnitts("serve", "-m", "random:toy", "--port", "0", "--socket", "off", "--wyoming", words)
    assert done.code == 5 and "--wyoming" in done.err
    assert omnitts("serve", "--ray", "local", "--wyoming", "127.0.0.1:0").code == 2
    assert omnitts("serve", "--json", "--wyoming", "stdio://").code == 2


def test_over_the_standard_streams_nothing_else_is_printed(home: Path) -> None:
    """What was asked for is spoken although stdin has ended; then the command ends."""
    asked = packed("describe", {}, b"") + packed("synthesize", {"text": "Hello there."}, b"")
    command = [*PYTHON, "serve", "-m", "random:toy", "-d", "cpu", "--wyoming", "stdio://"]
    done = subprocess.run(command, input=asked, capture_output=True, timeout=LONG_S, check=False)
    assert done.returncode == 0, done.stderr.decode()
    kinds, rest = [], done.stdout
    while rest:
        line, _, rest = rest.partition(b"\n")
        head = json.loads(line)
        kinds.append(head["type"])
        rest = rest[head.get("data_length", 0) + head.get("payload_length", 0) :]
    assert kinds[:2] == ["info", "audio-start"] and kinds[-1] == "audio-stop" and "audio-chunk" in kinds


def test_the_end_of_a_server_ends_idle_connections(serve: Any) -> None:
    running = serve()
    with socket.create_connection(("127.0.0.1", running.wyoming), timeout=LONG_S) as client:
        eventually(lambda: running.server.door.tasks)
        running.on_loop(running.server.stop)
        assert client.recv(1) == b""
    eventually(lambda: running.code == [0])


def test_regular_files_are_not_standard_streams(home: Path) -> None:
    command = [*PYTHON, "serve", "-m", "random:toy", "-d", "cpu", "--wyoming", "stdio://"]
    (home / "asked").write_bytes(packed("describe", {}, b""))
    with (home / "asked").open("rb") as asked:
        done = subprocess.run(command, stdin=asked, capture_output=True, timeout=LONG_S, check=False, env=os.environ)
    assert done.returncode == 2 and b"pipes" in done.stderr and not done.stdout
