"""Long runs of the server: memory over thousands of requests, and chaos. Short ones run always, long ones are slow."""

import http.client
import json
import random
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from patience import eventually
from served import Inside, Served, command, serving
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect as open_websocket
from wire import ask, connect

SPEECH = "/v1/audio/speech"
SOCKET = "/v1/audio/speech/stream"
MARKS = 64
WORDS = "red green blue white black brown grey pink".split()
BROKEN = (OSError, http.client.HTTPException)


def body_of(mark: int, **more: Any) -> bytes:
    """A request whose text and seed belong to this mark alone; a few sentences."""
    text = f"Mark {WORDS[mark % 8]} {WORDS[mark // 8]}. The {WORDS[mark // 8]} line is {WORDS[mark % 8]}. So it goes."
    return json.dumps({"input": text, "seed": 1000 + mark, "response_format": "pcm", **more}).encode()


def head_of(server: Served, length: int) -> bytes:
    lines = [f"POST {SPEECH} HTTP/1.1", f"Host: {server.host}", "Content-Type: application/json"]
    return "\r\n".join([*lines, f"Content-Length: {length}", "", ""]).encode()


def pcm(server: Served, mark: int, **more: Any) -> bytes:
    answer = ask(server.url, SPEECH, body_of(mark, **more), headers={"Content-Type": "application/json"})
    assert answer.status == 200, answer.body[:200]
    return answer.body


# ---- memory


def short(number: int, **more: Any) -> bytes:
    return body_of(number % MARKS, **{"input": "Go.", **more})


def mixed(number: int) -> tuple[str, str, bytes | None, int]:
    """The method, path, body and status of one of many kinds of requests."""
    kinds: list[tuple[str, str, bytes | None, int]] = [
        ("POST", SPEECH, short(number), 200),
        ("POST", SPEECH, short(number, response_format="wav", stream=False), 200),
        ("POST", SPEECH, short(number, stream_format="sse"), 200),
        ("POST", SPEECH, short(number, response_format="mp3"), 200),
        ("POST", SPEECH, short(number, voice="nobody"), 404),
        ("POST", SPEECH, short(number, speed=9), 400),
        ("GET", "/v1/models", None, 200),
        ("POST", SPEECH, short(number, task_type="VoiceDesign", instructions="deep"), 200),
    ]
    return kinds[number % len(kinds)]


def failed(server: Served, number: int) -> str:
    """Sends one of the requests; says what is wrong with its answer, if anything."""
    method, path, body, status = mixed(number)
    answer = ask(server.url, path, body, method=method, headers={"Content-Type": "application/json"})
    return "" if answer.status == status else f"{path} {body!r}: {answer.status}"


def memory_over(server: Served, requests: int, every: int) -> tuple[np.ndarray, np.ndarray]:
    """The memory of the server in bytes after each `every` requests, and its threads and descriptors then."""
    sizes, counts = [], list[tuple[int, int]]()
    with ThreadPoolExecutor(4) as clients:
        for first in range(0, requests, every):
            assert not [*filter(None, clients.map(partial(failed, server), range(first, first + every)))]
            end = time.monotonic() + 10  # until the server has closed the connections of clients that have gone
            while counts and server.descriptors() > counts[0][1] and time.monotonic() < end:
                time.sleep(0.02)
            sizes.append(server.memory())
            counts.append((server.threads(), server.descriptors()))
    return np.array(sizes), np.array(counts)


@pytest.mark.parametrize(
    ("requests", "warm", "every", "most"),
    [
        (320, 160, 40, 20_000),
        pytest.param(10_000, 1000, 500, 1000, marks=[pytest.mark.slow, pytest.mark.timeout(1800)]),
    ],
    ids=["short", "10,000"],
)
def test_memory_threads_and_files_stay_level(tmp_path: Path, requests: int, warm: int, every: int, most: int) -> None:
    with command(tmp_path) as server:
        sizes, counts = memory_over(server, requests, every)
    kept = sizes[warm // every :]
    slope = np.polyfit(np.arange(kept.size) * every, kept, 1)[0]
    print(f"\n{requests} requests: {slope:.0f} bytes a request after the first {warm}; MB: {(sizes / 1e6).round(1)}")
    print(f"threads and descriptors: {counts[0]} -> {counts[-1]}")
    assert slope < most
    assert (counts[-1] <= counts[warm // every - 1] + 2).all(), counts.tolist()


# ---- chaos


class Chaos:
    """Clients that behave in all ways at once. What each receives must be what its text sounds like alone."""

    def __init__(self, server: Inside, expected: list[bytes], seconds: float) -> None:
        self.server, self.expected = server, expected
        self.end = time.monotonic() + seconds
        self.done: Counter[str] = Counter()
        self.wrong: list[str] = []
        self.open: list[socket.socket] = []  # half-open peers

    def run(self, clients: int) -> None:
        threads = [threading.Thread(target=self._client, args=(n,), daemon=True) for n in range(clients)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for link in self.open:
            link.close()

    def _client(self, number: int) -> None:
        draw = random.Random(number)
        ways: list[Callable[[random.Random, int], None]] = [
            self.whole, self.whole, self.leaves, self.leaves, self.resets,
            self.slow, self.half_open, self.talks, self.batch,
        ]  # fmt: skip
        while time.monotonic() < self.end or not (self.done["whole"] and self.done["leaves"]):
            way, mark = draw.choice(ways), draw.randrange(MARKS)
            try:
                way(draw, mark)
                self.done[way.__name__] += 1
            except BROKEN as error:
                self.done[f"{way.__name__}: {type(error).__name__}"] += 1
            except Exception as error:
                self.wrong.append(f"{way.__name__}: {error!r}")

    def received(self, way: str, mark: int, sound: bytes, complete: bool) -> None:
        """Compares sound with what it must be."""
        expected = self.expected[mark]
        if sound != (expected if complete else expected[: len(sound)]):
            others = [n for n, other in enumerate(self.expected) if sound[:2000] == other[:2000]]
            self.wrong.append(
                f"{way} mark {mark}: {len(sound)} of {len(expected)} bytes differ; it is that of {others}"
            )

    def whole(self, draw: random.Random, mark: int) -> None:
        more = draw.choice([{}, {"stream": True, "stream_format": "audio"}])
        answer = ask(self.server.url, SPEECH, body_of(mark, **more), headers={"Content-Type": "application/json"})
        if answer.status == 200:
            self.received("whole", mark, answer.body, complete=True)
        elif answer.status not in (429, 503):
            self.wrong.append(f"{answer.status}: {answer.body[:200]!r}")

    def _begin(self, mark: int) -> tuple[socket.socket, http.client.HTTPResponse]:
        body = body_of(mark)
        link = connect(self.server.url)
        link.sendall(head_of(self.server, len(body)) + body)
        answer = http.client.HTTPResponse(link)
        answer.begin()
        return link, answer

    def leaves(self, draw: random.Random, mark: int) -> None:
        link, answer = self._begin(mark)
        with link:
            if answer.status == 200:
                self.received("leaves", mark, answer.read(draw.choice([1, 100, 3000, 20_000])), complete=False)

    def resets(self, draw: random.Random, mark: int) -> None:
        body = body_of(mark)
        with connect(self.server.url) as link:
            link.sendall(head_of(self.server, len(body)) + body[: draw.randrange(len(body) + 1)])
            time.sleep(draw.random() / 20)
            link.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    def slow(self, draw: random.Random, mark: int) -> None:
        link, answer = self._begin(mark)
        with link:
            sound = b""
            while answer.status == 200 and len(sound) < 3000 and (part := answer.read(draw.randrange(1, 400))):
                sound += part
                time.sleep(0.05)
            self.received("slow", mark, sound if answer.status == 200 else b"", complete=False)

    def half_open(self, draw: random.Random, mark: int) -> None:
        body = body_of(mark)
        sent = head_of(self.server, len(body)) + body
        link = connect(self.server.url)
        link.sendall(sent[: draw.choice([0, 10, len(sent) - 5, len(sent)])])
        self.open.append(link)
        if len(self.open) > 40:
            self.open.pop(0).close()
        time.sleep(0.05)

    def talks(self, draw: random.Random, mark: int) -> None:
        url = self.server.url.replace("http", "ws", 1) + SOCKET
        try:
            with open_websocket(url, proxy=None, close_timeout=0.3) as link:
                config = {"type": "session.config", "response_format": "pcm", "stream_audio": True, "seed": mark}
                link.send(json.dumps(config))
                for word in "and so it goes on and on".split()[: draw.randrange(8)]:
                    link.send(json.dumps({"type": "input.text", "text": word + " "}))
                if draw.random() < 0.5:
                    link.send(json.dumps({"type": draw.choice(["response.cancel", "input.done"])}))
                with suppress(TimeoutError):
                    link.recv(timeout=draw.random())
        except (ConnectionClosed, TimeoutError):
            pass

    def batch(self, draw: random.Random, mark: int) -> None:
        items = [json.loads(body_of((mark + n) % MARKS)) for n in range(3)]
        answer = ask(self.server.url, SPEECH + "/batch", {"items": items})
        if answer.status not in (200, 429, 503):
            self.wrong.append(f"batch: {answer.status}")


@pytest.mark.parametrize(
    ("seconds", "clients"),
    [(1.5, 8), pytest.param(600, 24, marks=[pytest.mark.slow, pytest.mark.timeout(1800)])],
    ids=["short", "10 minutes"],
)
def test_in_chaos_every_client_gets_its_own_sound_and_no_slot_is_lost(
    tmp_path: Path, seconds: float, clients: int
) -> None:
    with serving(tmp_path, slots=8, limits={"header_s": 30.0, "body_s": 30.0}, slow_timeout=3.0) as server:
        expected = [pcm(server, mark) for mark in range(MARKS)]
        assert len(set(expected)) == MARKS and all(expected)
        threads = server.threads()
        chaos = Chaos(server, expected, seconds)
        chaos.run(clients)
        assert server.idle(), f"a slot is lost: {server.left()}"
        print(f"\n{seconds} s of chaos: {sum(chaos.done.values())} requests; {dict(chaos.done.most_common())}")
        assert chaos.wrong == []
        assert chaos.done["whole"] > 0 and chaos.done["leaves"] > 0
        assert [pcm(server, mark) for mark in range(0, MARKS, 9)] == expected[::9]
        eventually(lambda: server.threads() <= threads + 8)  # the pools of threads fill up once
        eventually(lambda: not server.server.state.calls)
