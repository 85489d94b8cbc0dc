"""Without what Windows lacks: commands work, or say that they do not. Nothing here has run on Windows itself."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path
from urllib.request import Request, urlopen

import pytest
import warm
import windows
from patience import LONG_S

from omnitts_cli.audio import player
from omnitts_cli.errors import UsageError
from omnitts_cli.server import decode, listen, streams
from omnitts_cli.settings import environment
from omnitts_cli.speech import servers

SUPPORT = Path(windows.__file__).parent
START = "import sys, windows; windows.pretend(); "
RUN = START + "sys.argv = ['omnitts', *sys.argv[1:]]; from omnitts_cli.__main__ import main; main()"
EVERY = (
    START
    + """
import importlib, pkgutil, omnitts_cli
for found in pkgutil.walk_packages(omnitts_cli.__path__, "omnitts_cli."):
    if not any(part in found.name for part in ("triton", "cuda", "npu", "ray", "__main__", "training")):
        importlib.import_module(found.name)
print("all")
"""
)


def started(code: str, *words: str, folder: Path) -> warm.Process:
    paths = [str(SUPPORT), *filter(None, [os.environ.get("PYTHONPATH")])]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "XDG_RUNTIME_DIR": str(folder)}
    return warm.Process(
        [sys.executable, "-c", code, *words], cwd=folder, env=env, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def finished(code: str, *words: str, folder: Path) -> tuple[int, str, str]:
    process = started(code, *words, folder=folder)
    out, err = process.communicate(timeout=LONG_S)
    return process.returncode, out, err


def test_every_file_can_be_imported(tmp_path: Path) -> None:
    code, out, err = finished(EVERY, folder=tmp_path)
    assert (code, out) == (0, "all\n"), err


def test_say_speaks_into_a_file(tmp_path: Path) -> None:
    code, _, err = finished(RUN, "say", "-m", "random:toy", "-d", "cpu", "One two.", "-o", "a.wav", folder=tmp_path)
    assert code == 0, err
    assert (tmp_path / "a.wav").stat().st_size > 1000


@pytest.mark.parametrize(
    "words", [("serve", "--socket", "here.sock", "--port", "0"), ("batch", "rows.jsonl", "-O", "out")]
)
def test_what_does_not_work_says_so(words: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text('{"id": "a", "text": "One."}\n')
    code, _, err = finished(RUN, *words, "-m", "random:toy", folder=tmp_path)
    assert code == 2 and "Traceback" not in err
    assert "error: " in err and "\n  try: " in err


def test_a_server_answers_and_ends_with_a_signal(tmp_path: Path) -> None:
    """Its engine is in its own process, because no socket can be given to another one."""
    server = started(RUN, "serve", "-m", "random:toy", "-d", "cpu", "--port", "0", folder=tmp_path)
    try:
        assert server.stdout is not None
        url = server.stdout.readline().strip()
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+", url)
        body = json.dumps({"input": "One two.", "response_format": "wav"})
        asked = Request(f"{url}/v1/audio/speech", body.encode(), {"Content-Type": "application/json"})
        with urlopen(asked, timeout=LONG_S) as answer:
            assert answer.status == 200 and answer.read(4) == b"RIFF"
    finally:
        server.send_signal(signal.SIGTERM)
        _, err = server.communicate(timeout=LONG_S)
    assert server.returncode == 0, err


def test_no_unix_sockets(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with socket.socket() as plain:
        monkeypatch.delattr(socket, "AF_UNIX")
        assert not listen.is_unix(plain)
        assert listen.unix(tmp_path / "a", ours=True) is None and servers.own_socket() is None
        with pytest.raises(UsageError):
            listen.unix(tmp_path / "a", ours=False)
    monkeypatch.setenv("NOTIFY_SOCKET", "/run/x")
    listen.notify("READY=1")
    assert not environment.unix_sockets() and environment.server_socket().name == "serve.sock"


def test_pipes_cannot_be_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    read, write = os.pipe()
    try:
        streams.require_pipes(read, write)
        monkeypatch.setattr(streams.sys, "platform", "win32")
        with pytest.raises(UsageError) as caught:
            streams.require_pipes(read, write)
        assert caught.value.hint
    finally:
        os.close(read)
        os.close(write)


def test_a_player_that_cannot_be_paused_plays_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(player.COMMANDS, "sleep", "60")
    output = player.PlayerOutput("sleep", "sleep", 24_000)
    monkeypatch.delattr(signal, "SIGSTOP")
    monkeypatch.delattr(signal, "SIGCONT")
    output.pause(True)
    assert output._child.poll() is None
    output.stop()
    assert output._child.poll() is not None


def test_a_limit_that_the_system_refuses_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """macOS does not limit the memory of a process that has mapped more."""
    import resource

    asked: list[int] = []

    def refused(kind: int, most: tuple[int, int]) -> None:
        asked.append(kind)
        if kind == resource.RLIMIT_AS:
            raise ValueError("current limit exceeds maximum limit")

    monkeypatch.setattr(resource, "setrlimit", refused)
    decode.limit()
    assert len(asked) == 4
    monkeypatch.setitem(sys.modules, "resource", None)
    decode.limit()
    assert len(asked) == 4
