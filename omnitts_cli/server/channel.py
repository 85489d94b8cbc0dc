"""Channel: Python objects over a stream socket between the server and the process of its engines.

A first packet passes through here, so a small message takes one call of the system at each end and no other thread.
"""

import pickle
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import suppress
from queue import SimpleQueue
from typing import Any

SIZES = struct.Struct("<II")  # bytes of the pickle, number of buffers
LENGTH = struct.Struct("<Q")
MOST_PARTS = 512  # of one sendmsg; Linux takes 1024
READ = 256 << 10  # bytes; about as many as the socket holds
SMALL = 64 << 10  # bytes of a message that its thread sends itself; copying more takes time


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
        views = unsent(views, out.sendmsg(views[:MOST_PARTS]))


def unsent(views: list[memoryview], sent: int) -> list[memoryview]:
    """The buffers without their first `sent` bytes."""
    while views and sent >= len(views[0]):
        sent -= len(views.pop(0))
    if sent:
        views[0] = views[0][sent:]
    return views


class Outbox:
    """Sends messages in order and never waits: a thread sends what the socket does not take at once."""

    def __init__(self, out: socket.socket) -> None:
        self._out, self._lock = out, threading.Lock()
        self._held: SimpleQueue[list[Any] | None] = SimpleQueue()
        self._left = 0  # messages that the thread has to send
        self._thread: threading.Thread | None = None

    def put(self, parts: list[Any]) -> None:
        """Sends a message, from any thread. One for a socket that is closed is dropped."""
        with self._lock:
            if not self._left and len(parts) <= MOST_PARTS and sum(memoryview(part).nbytes for part in parts) <= SMALL:
                views = [memoryview(part).cast("B") for part in parts if len(part)]
                try:
                    parts = unsent(views, self._out.sendmsg(views, (), socket.MSG_DONTWAIT))
                except BlockingIOError:
                    pass
                except OSError:
                    return
                if not parts:
                    return
            self._left += 1
            self._held.put(parts)
            if self._thread is None:
                self._thread = threading.Thread(target=self._send, daemon=True)
                self._thread.start()

    def close(self, wait_s: float | None = None) -> None:
        """Waits until everything has been sent."""
        self._held.put(None)
        if self._thread is not None:
            self._thread.join(wait_s)

    def _send(self) -> None:
        while (parts := self._held.get()) is not None:
            with suppress(OSError):  # the other process has closed
                send(self._out, parts)
            with self._lock:
                self._left -= 1


class Inbox:
    """The messages that arrive at a socket. Reads all that is there at once."""

    def __init__(self, source: socket.socket) -> None:
        self._source, self._room = source, memoryview(bytearray(READ))
        self._held = self._room[:0]

    @property
    def begun(self) -> bool:
        """Whether a part of the next message has been read."""
        return bool(self._held)

    def receive(self) -> Any:
        """The next message. Its arrays may be written to. Raises EOFError at the end of the stream."""
        length, count = SIZES.unpack(self._exactly(SIZES.size))
        sizes = [size for (size,) in LENGTH.iter_unpack(self._exactly(LENGTH.size * count))]
        body = self._exactly(length)
        return pickle.loads(body, buffers=[self._exactly(size) for size in sizes])

    def messages(self) -> Iterator[Any]:
        """All messages until the other side closes."""
        while True:
            try:
                message = self.receive()
            except (EOFError, OSError):
                return
            yield message

    def _exactly(self, size: int) -> bytearray:
        data = bytearray(size)
        view = memoryview(data)
        while view:
            if self._held:
                count = min(len(view), len(self._held))
                view[:count], self._held = self._held[:count], self._held[count:]
            elif len(view) >= READ:
                count = self._source.recv_into(view)
            else:
                self._held = self._room[: self._source.recv_into(self._room)]
                if self._held:
                    continue
                count = 0
            if not count:
                raise EOFError
            view = view[count:]
        return data
