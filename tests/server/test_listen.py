"""Sockets of the server: where it listens, who may open them, and what it refuses."""

import os
import socket
import stat
from pathlib import Path

import pytest
from patience import LONG_S

from omnitts_cli.errors import DeviceError, UsageError
from omnitts_cli.server import listen


def test_a_free_port_is_taken_and_one_in_use_is_refused() -> None:
    with listen.tcp("127.0.0.1", 0) as found:
        assert listen.url_of(found, "127.0.0.1") == f"http://127.0.0.1:{found.getsockname()[1]}"
        assert listen.url_of(found, "[::1]").startswith("http://[::1]:")
        assert not found.getblocking()
        with socket.create_connection(found.getsockname(), timeout=LONG_S):
            pass
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(DeviceError, match=f"port {port}"):
            listen.tcp("127.0.0.1", port)
    with pytest.raises(UsageError, match=r"999\.0\.0\.1 is not an address"):
        listen.tcp("999.0.0.1", 0)


def test_a_unix_socket_is_for_its_user_alone(tmp_path: Path) -> None:
    path = tmp_path / "run" / "serve.sock"
    found = listen.unix(path, ours=True)
    assert found is not None
    with found:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600 and stat.S_IMODE(path.parent.stat().st_mode) == 0o700
        assert listen.in_use(path) and listen.url_of(found, "") == f"unix:{path}"
        assert listen.unix(path, ours=True) is None
        with pytest.raises(DeviceError, match="another server listens"):
            listen.unix(path, ours=False)


def test_the_socket_of_a_killed_server_is_replaced_and_a_file_is_not(tmp_path: Path) -> None:
    path = tmp_path / "serve.sock"
    with socket.socket(socket.AF_UNIX) as killed:
        killed.bind(str(path))
    assert path.exists() and not listen.in_use(path)
    again = listen.unix(path, ours=False)
    assert again is not None
    again.close()
    file = tmp_path / "file"
    file.write_text("kept")
    assert listen.unix(file, ours=True) is None and file.read_text() == "kept"
    with pytest.raises(DeviceError, match="cannot listen"):
        listen.unix(file, ours=False)


def test_sockets_of_systemd(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert listen.from_systemd() == []
    monkeypatch.setenv("LISTEN_FDS", "1")
    monkeypatch.setenv("LISTEN_PID", str(os.getpid() + 1))
    assert listen.from_systemd() == [], "they are meant for another process"
    bound = socket.socket()
    bound.bind(("127.0.0.1", 0))
    monkeypatch.setattr(listen, "FIRST_SYSTEMD", bound.detach())
    monkeypatch.setenv("LISTEN_PID", str(os.getpid()))
    (found,) = listen.from_systemd()
    with found, socket.create_connection(found.getsockname(), timeout=LONG_S):
        pass
    listen.notify("READY=1")  # nobody asked for it
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(tmp_path / "notify"))
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        listen.notify("READY=1")
        systemd.settimeout(5)
        assert systemd.recv(100) == b"READY=1"


@pytest.mark.parametrize("kind", ["writable", "link", "file"])
def test_a_folder_that_others_could_change_gets_no_socket(tmp_path: Path, kind: str) -> None:
    folder = tmp_path / "run"
    if kind == "writable":
        folder.mkdir()
        folder.chmod(0o777)
    elif kind == "link":
        (tmp_path / "elsewhere").mkdir()
        folder.symlink_to(tmp_path / "elsewhere")
    else:
        folder.write_text("")
    assert listen.unix(folder / "serve.sock", ours=True) is None
    assert not (tmp_path / "elsewhere" / "serve.sock").exists()
