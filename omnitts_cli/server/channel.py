"""Channel: Python objects over a stream socket between the server and the process of its engines."""

from __future__ import annotations

import pickle
import socket
import struct
from collections.abc import Iterator
from typing import Any

SIZES = struct.Struct("<II")  # bytes of the pickle, number of buffers
LENGTH = struct.Struct("<Q")
MOST_PARTS = 512  # of one sendmsg; Linux takes 1024


def pair() -> tuple[socket.socket, socket.socket]:
    """Two connected sockets."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)


def packed(message: Any) -> list[Any]:
    """The message as parts to send. Arrays are sent from their own memory, so they must not change until then."""
    arrays: list[pickle.PickleBuffer] = []
    body = pickle.dumps(message, protocol=5, buffer_callback=arrays.append)
    views = [array.raw() for array in arrays]
    sizes = b"".join(LENGTH.pack(view.nbytes) for view in views)
    return [SIZES.pack(len(body), len(views)) + sizes + body, *views]


def send(out: socket.socket, parts: list[Any]) -> None:
    """Sends the parts of a message."""
    views = [memoryview(part).cast("B") for part in parts if len(part)]
    while views:
        sent = out.sendmsg(views[:MOST_PARTS])
        while views and sent >= len(views[0]):
            sent -= len(views.pop(0))
        if sent:
            views[0] = views[0][sent:]


def receive(source: socket.socket) -> Any:
    """The next message. Its arrays may be written to. Raises EOFError at the end of the stream."""
    length, count = SIZES.unpack(_exactly(source, SIZES.size))
    sizes = [size for (size,) in LENGTH.iter_unpack(_exactly(source, LENGTH.size * count))]
    body = _exactly(source, length)
    return pickle.loads(body, buffers=[_exactly(source, size) for size in sizes])


def messages(source: socket.socket) -> Iterator[Any]:
    """All messages until the other side closes."""
    while True:
        try:
            message = receive(source)
        except (EOFError, OSError):
            return
        yield message


def _exactly(source: socket.socket, size: int) -> bytearray:
    data = bytearray(size)
    view = memoryview(data)
    while view:
        count = source.recv_into(view)
        if not count:
            raise EOFError
        view = view[count:]
    return data
