"""Messages between two processes: whole, in order, with arrays of their own."""

import socket
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from omnitts_cli.audio.chunk import Chunk
from omnitts_cli.errors import DeviceError
from omnitts_cli.request import Failed
from omnitts_cli.server import channel


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    left, right = channel.pair()
    with left, right:
        yield left, right


def test_messages_arrive_as_they_were_sent(ends: tuple[socket.socket, socket.socket]) -> None:
    """Also one with more arrays than the system sends at once, and more bytes than a socket's buffer holds."""
    rng = np.random.default_rng(0)
    chunks = [
        Chunk(f"s{number}", number, rng.standard_normal(1920).astype(np.float32), np.full((1, 16), number))
        for number in range(channel.MOST_PARTS + 3)
    ]
    failed = Failed("s9", DeviceError("out of memory", cause="a cause", hint="-b 4"))
    sent: list[Any] = [("cancel", "s1"), ("news", chunks), ("news", [failed]), ("alive",)]
    sender = threading.Thread(target=lambda: [channel.send(ends[0], channel.packed(message)) for message in sent])
    sender.start()
    inbox = channel.Inbox(ends[1])
    found = [inbox.receive() for _ in sent]
    sender.join()
    assert found[0] == sent[0] and found[3] == sent[3]
    for one, wanted in zip(found[1][1], chunks, strict=True):
        assert (one.request, one.index) == (wanted.request, wanted.index)
        assert np.array_equal(one.pcm, wanted.pcm) and np.array_equal(one.codes, wanted.codes)
        one.pcm[:] = 0  # the receiver's own
    error = found[2][1][0].error
    assert type(error) is DeviceError and (error.message, error.cause, error.hint) == (
        "out of memory",
        "a cause",
        "-b 4",
    )


def test_the_end_of_the_stream_is_distinguished_from_a_message(ends: tuple[socket.socket, socket.socket]) -> None:
    parts = channel.packed(("news", [np.zeros(9)]))
    channel.send(ends[0], parts)
    ends[0].sendall(b"".join(bytes(part) for part in parts)[:-1])  # the last one is cut
    ends[0].close()
    inbox = channel.Inbox(ends[1])
    assert [kind for kind, _ in inbox.messages()] == ["news"]
    with pytest.raises(EOFError):
        inbox.receive()


class Counted:
    """A socket, and how many of its calls there were."""

    def __init__(self, end: socket.socket) -> None:
        self.end, self.calls = end, 0

    def sendmsg(self, *given: Any) -> int:
        self.calls += 1
        return self.end.sendmsg(*given)

    def recv_into(self, room: Any) -> int:
        self.calls += 1
        return self.end.recv_into(room)


def news_of(number: int, samples: int) -> tuple[str, list[Chunk]]:
    return "news", [Chunk(f"s{number}", 0, np.full(samples, number, np.float32), np.zeros((1, 16), np.int64))]


def test_a_first_packet_takes_one_call_at_each_end_and_no_thread(ends: tuple[socket.socket, socket.socket]) -> None:
    writes, reads = Counted(ends[0]), Counted(ends[1])
    outbox, inbox = channel.Outbox(writes), channel.Inbox(reads)  # type: ignore[arg-type]
    threads = threading.active_count()
    outbox.put(channel.packed(news_of(0, 1920)))
    assert inbox.receive()[1][0].pcm.size == 1920
    assert (writes.calls, reads.calls, threading.active_count()) == (1, 1, threads)
    for number in range(3):
        outbox.put(channel.packed(news_of(number, 1920)))
    assert [inbox.receive()[1][0].pcm[0] for _ in range(3)] == [0, 1, 2] and not inbox.begun
    assert (writes.calls, reads.calls) == (4, 2)
    outbox.close()


@pytest.mark.parametrize("samples", [1920, 40_000], ids=["small", "large"])
def test_a_sender_never_waits_and_messages_keep_order(ends: tuple[socket.socket, socket.socket], samples: int) -> None:
    """Nothing is read until far more has been sent than the buffer of a socket holds."""
    outbox, inbox = channel.Outbox(ends[0]), channel.Inbox(ends[1])
    for number in range(120):
        outbox.put(channel.packed(news_of(number, samples if number % 3 else 10)))
    assert [inbox.receive()[1][0].pcm[0] for _ in range(120)] == list(range(120))
    outbox.close()
    outbox.put(channel.packed(("alive",)))  # the thread has ended, and is not needed


def test_news_for_a_closed_socket_are_dropped(ends: tuple[socket.socket, socket.socket]) -> None:
    outbox = channel.Outbox(ends[0])
    ends[1].close()
    for samples in (10, 100_000, 10):
        outbox.put(channel.packed(news_of(0, samples)))
    outbox.close()
