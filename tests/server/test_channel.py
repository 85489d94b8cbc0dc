"""Messages between two processes: whole, in order, with arrays of their own."""

from __future__ import annotations

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
    found = [channel.receive(ends[1]) for _ in sent]
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


def test_the_end_of_the_stream_is_told_from_a_message(ends: tuple[socket.socket, socket.socket]) -> None:
    parts = channel.packed(("news", [np.zeros(9)]))
    channel.send(ends[0], parts)
    ends[0].sendall(b"".join(bytes(part) for part in parts)[:-1])  # the last one is cut
    ends[0].close()
    assert [kind for kind, _ in channel.messages(ends[1])] == ["news"]
    with pytest.raises(EOFError):
        channel.receive(ends[1])
