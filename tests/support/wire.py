"""A plain HTTP client for tests, and a socket for what no client sends."""

import http.client
import json
import socket
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

WAIT_S = 60.0  # stops a test that hangs


@dataclass(frozen=True)
class Answer:
    """The answer to a request, all of it."""

    status: int
    headers: dict[str, str]  # names in lower case
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def events(self) -> list[Any]:
        """The data of server-sent events; each has the name of its type."""
        found = []
        for block in self.body.decode().split("\n\n")[:-1]:
            name, data = block.split("\n")
            found.append(json.loads(data.removeprefix("data: ")))
            assert name == f"event: {found[-1]['type']}"
        return found

    @property
    def error(self) -> dict[str, Any]:
        """The error object; every error has these four fields."""
        assert self.headers["content-type"] == "application/json", self.body[:200]
        error = self.json["error"]
        assert set(error) >= {"message", "type", "param", "code"}
        assert "Traceback" not in error["message"] and 'File "' not in error["message"]
        return dict(error)


def ask(
    url: str,
    path: str,
    body: str | bytes | Iterable[bytes] | Mapping[str, Any] | None = None,
    *,
    method: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> Answer:
    """One request. A mapping is sent as JSON, an iterator in chunks."""
    given = dict(headers or {})
    if isinstance(body, Mapping):
        body = json.dumps(body).encode()
        given = {"Content-Type": "application/json", **given}
    if isinstance(body, str):
        body = body.encode()
    elif body is None and method == "POST":
        body = b""
    where = urlsplit(url)
    link = http.client.HTTPConnection(where.hostname or "", where.port, timeout=WAIT_S)
    try:
        link.putrequest(method or ("GET" if body is None else "POST"), path, skip_host="Host" in given)
        for name, value in given.items():
            link.putheader(name, value)
        if isinstance(body, bytes) and "Content-Length" not in given:
            link.putheader("Content-Length", str(len(body)))
        chunked = body is not None and not isinstance(body, bytes)
        if chunked:
            link.putheader("Transfer-Encoding", "chunked")
        try:
            link.endheaders(body, encode_chunked=chunked)
        except (BrokenPipeError, ConnectionResetError):
            pass  # the server has answered before it was told everything
        answer = link.getresponse()
        return Answer(answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read())
    finally:
        link.close()


def multipart(
    fields: Iterable[tuple[str, bytes | str]], files: Iterable[tuple[str, str, bytes]] = ()
) -> tuple[bytes, str]:
    """A form's body and its content type."""
    edge, parts = "edge-of-the-form", []
    for name, value in fields:
        data = value.encode() if isinstance(value, str) else value
        parts.append(f'--{edge}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n'.encode() + data + b"\r\n")
    for name, filename, data in files:
        head = f'--{edge}\r\nContent-Disposition: form-data; name="{name}"; filename="{filename}"\r\n'
        parts.append(head.encode() + b"Content-Type: audio/wav\r\n\r\n" + data + b"\r\n")
    return b"".join(parts) + f"--{edge}--\r\n".encode(), f"multipart/form-data; boundary={edge}"


def connect(url: str) -> socket.socket:
    """An open connection to a server."""
    where = urlsplit(url)
    return socket.create_connection((where.hostname, where.port), timeout=WAIT_S)


def raw(url: str, data: bytes, wait_s: float = WAIT_S) -> bytes:
    """What a server answers to these bytes until it closes the connection; fails if it does not close in time."""
    with connect(url) as link:
        try:
            link.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            pass
        return rest(link, wait_s)


def rest(link: socket.socket, wait_s: float = WAIT_S) -> bytes:
    """All that still comes on a connection that the other side closes."""
    got, end = b"", time.monotonic() + wait_s
    while True:
        link.settimeout(max(0.01, end - time.monotonic()))
        try:
            part = link.recv(1 << 16)
        except (ConnectionResetError, BrokenPipeError):
            return got
        if not part:
            return got
        got += part


def status(answer: bytes) -> int:
    """The status of a raw answer; 0 if the connection was closed without one."""
    return int(answer.split(b" ", 2)[1]) if answer.startswith(b"HTTP/1.") else 0
