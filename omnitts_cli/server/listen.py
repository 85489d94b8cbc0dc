"""Listening: TCP and Unix sockets, sockets from systemd, and telling it that the server is ready."""

import os
import socket
import stat
import sys
from contextlib import suppress
from pathlib import Path

from omnitts_cli.errors import DeviceError, UsageError
from omnitts_cli.settings.environment import is_private, unix_sockets, variable

FIRST_SYSTEMD = 3
SEND_BYTES = 128 << 10
BACKLOG = 1024
USER_TIMEOUT_MS = 30_000


class Local(socket.socket):
    """A Unix socket that this server made, so it removes the file. systemd removes the files of its own sockets."""


def tcp(host: str, port: int, option: str = "--host") -> socket.socket:
    """A listening TCP socket. `option` named the address."""
    name = host.strip("[]")
    try:
        family, _, _, _, address = socket.getaddrinfo(name, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        found = socket.socket(family, socket.SOCK_STREAM)
    except OSError as error:
        usual = "127.0.0.1" if option == "--host" else f"127.0.0.1:{port}"
        raise UsageError(f"{option} {host} is not an address", cause=error.strerror, hint=f"{option} {usual}") from None
    try:
        if sys.platform != "win32":  # elsewhere, two servers could then have one port
            found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind(address)
    except OSError as error:
        found.close()
        reason = (error.strerror or str(error)).lower()
        raise DeviceError(
            f"cannot listen on {host} port {port}: {reason}",
            hint="--port 0   takes a free one" if option == "--host" else f"{option} {host}:0   takes a free one",
        ) from None
    return prepared(found)


def prepared(found: socket.socket) -> socket.socket:
    """A socket with small buffers and quick notice of peers that have gone; accepted connections inherit these."""
    found.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BYTES)
    if not is_unix(found):
        found.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if hasattr(socket, "TCP_USER_TIMEOUT"):
            found.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, USER_TIMEOUT_MS)
    found.listen(BACKLOG)
    found.setblocking(False)
    return found


def is_unix(found: socket.socket) -> bool:
    """Whether this is a Unix socket."""
    return unix_sockets() and found.family == socket.AF_UNIX


def unix(path: Path, *, ours: bool) -> socket.socket | None:
    """A listening Unix socket that only this user may open. None if another server has our usual one, or if this system
    has no Unix sockets.
    """
    if not unix_sockets():
        if ours:
            return None
        raise UsageError(f"--socket {path} is not possible: this system has no Unix sockets", hint="--port 8000")
    if in_use(path):
        if ours:
            return None
        raise DeviceError(f"another server listens on {path}", hint="--socket off   or   --socket PATH")
    found = Local(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        if ours:
            path.parent.mkdir(mode=0o700, exist_ok=True)
            if not is_private(path.parent):  # others with write access could replace the socket
                found.close()
                return None
        with suppress(FileNotFoundError):
            if stat.S_ISSOCK(path.lstat().st_mode):  # of a server that was killed
                path.unlink()
        before = os.umask(0o177)
        try:
            found.bind(str(path))
        finally:
            os.umask(before)
        os.chmod(path, 0o600)
    except OSError as error:
        found.close()
        if ours:
            return None
        raise DeviceError(
            f"cannot listen on {path}: {(error.strerror or str(error)).lower()}", hint="--socket off"
        ) from None
    return prepared(found)


def in_use(path: Path) -> bool:
    """Whether a server answers there."""
    if not path.exists():
        return False
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(0.5)
        try:
            probe.connect(str(path))
        except OSError:
            return False
    return True


def from_systemd() -> list[socket.socket]:
    """The sockets that systemd opened for this process."""
    if variable("LISTEN_PID") != str(os.getpid()):
        return []
    count = int(variable("LISTEN_FDS") or 0)
    return [prepared(socket.socket(fileno=FIRST_SYSTEMD + n)) for n in range(count)]


def notify(words: str) -> None:
    """Tells systemd: READY=1, STOPPING=1."""
    address = variable("NOTIFY_SOCKET")
    if not address or not unix_sockets():
        return
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as out:
        out.sendto(words.encode(), "\0" + address[1:] if address.startswith("@") else address)


def url_of(found: socket.socket, host: str) -> str:
    """The address as one types it."""
    if is_unix(found):
        return f"unix:{found.getsockname()}"
    port = found.getsockname()[1]
    name = host.strip("[]")
    return f"http://[{name}]:{port}" if ":" in name else f"http://{name}:{port}"
