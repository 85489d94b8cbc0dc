"""Two checkouts over HTTP in turn, on a CPU: first packets, throughput, and processor time of a request.

    git worktree add ../old 6b951fa && (cd ../old && python -m omnitts_cli.kernels.cpu)
    python benchmarks/over_http.py ../old . --rounds 60 --bursts 20
    python benchmarks/over_http.py ../old . -m random:toy --count     only processor time: other load matters little

Both servers run all the time with the weights of OLD, and answer the same requests of a fixed length in turn, in an
order that changes from round to round. Each row: medians of OLD and NEW, the median of NEW over OLD of the pairs, its
95 % interval (bootstrap) and the quartiles of the pairs. First packet: from sending to the first bytes of sound, on a
connection that has just been opened. Run nothing else meanwhile. Linux only.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np

FRAMES_A_SECOND = 12.5
TEXT = "The boats came home before the storm, and the harbour was quiet again."
TICKS = os.sysconf("SC_CLK_TCK")
WAIT_S = 300


@dataclass
class Server:
    """A running server of one checkout."""

    address: str
    process: int
    frames: int
    open: list[http.client.HTTPConnection] = field(default_factory=list)

    def request(self, connection: http.client.HTTPConnection, seed: int) -> tuple[float, int]:
        """Seconds to the first bytes of sound, and all bytes."""
        body = {"input": TEXT, "response_format": "pcm", "seed": seed, "max_new_tokens": self.frames,
                "ignore_eos": True}  # fmt: skip
        began = time.perf_counter()
        connection.request("POST", "/v1/audio/speech", json.dumps(body), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        data = answer.read1(1 << 16)
        first = time.perf_counter() - began
        size = len(data) + len(answer.read())
        if answer.status != http.client.OK:
            raise SystemExit(f"{answer.status}: {data[:300]!r}")
        return first, size

    def connections(self, count: int) -> list[http.client.HTTPConnection]:
        """Open connections. The server closes those that are idle while the other one has its turn."""
        while len(self.open) < count:
            self.open.append(http.client.HTTPConnection(self.address, timeout=WAIT_S))
        for connection in self.open[:count]:
            connection.close()
            connection.connect()
        return self.open[:count]

    def first_packet(self, seed: int) -> float:
        """Milliseconds to the first packet of one request."""
        return 1000 * self.request(self.connections(1)[0], seed)[0]

    def burst(self, streams: int, seed: int) -> float:
        """Seconds of sound a second of requests that begin together."""
        threads = [threading.Thread(target=self.request, args=(connection, seed + n))
                   for n, connection in enumerate(self.connections(streams))]  # fmt: skip
        began = time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return streams * self.frames / FRAMES_A_SECOND / (time.perf_counter() - began)

    def processor_s(self) -> tuple[float, float]:
        """Seconds of processor time so far: of the server's process, and of its children."""
        return spent(self.process), sum(map(spent, children(self.process)))


def children(pid: int) -> list[int]:
    """The processes that a process has started."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            if int(path.read_text().rpartition(")")[2].split()[1]) == pid:
                found.append(int(path.parent.name))
        except OSError:  # it has ended
            continue
    return found


def spent(pid: int) -> float:
    """Seconds of processor time of a process, of all of its threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


@contextmanager
def started(folder: Path, model: str, frames: int) -> Iterator[Server]:
    """A server of a checkout."""
    command = [sys.executable, "-m", "omnitts_cli", "serve", "-m", model, "-d", "cpu", "--port", "0", "--socket", "off"]
    with tempfile.TemporaryDirectory() as voices:
        process = subprocess.Popen(
            [*command, "--voices-dir", voices], cwd=folder, env={**os.environ, "PYTHONPATH": str(folder)},
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )  # fmt: skip
        assert process.stdout
        try:
            yield Server(urlsplit(process.stdout.readline().strip()).netloc, process.pid, frames)
        finally:
            process.terminate()
            process.wait(WAIT_S)


def in_turn(count: int) -> Iterator[tuple[int, tuple[int, int]]]:
    """Rounds, and which of the two comes first in each."""
    for number in range(count):
        yield number, ((0, 1) if number % 2 == 0 else (1, 0))


def row(name: str, old: list[float], new: list[float]) -> None:
    """A line about pairs."""
    ratios = np.array(new) / np.array(old)
    drawn = np.random.default_rng(0).choice(ratios, (2000, ratios.size))
    low, high = np.percentile(np.median(drawn, axis=1), (2.5, 97.5))
    quartiles = np.percentile(ratios, (25, 75))
    spread = f"({low:.3f} to {high:.3f})   quartiles {quartiles[0]:.3f} {quartiles[1]:.3f}   {ratios.size} pairs"
    print(f"{name:34} {statistics.median(old):9.3f} {statistics.median(new):9.3f}   {np.median(ratios):.3f} {spread}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("-m", "--model", help="for both; default: the embedded voice of OLD")
    parser.add_argument("--rounds", type=int, default=60, help="pairs of first packets")
    parser.add_argument("--bursts", type=int, default=20, help="pairs of requests at once")
    parser.add_argument("--streams", type=int, default=8, help="requests at once")
    parser.add_argument("--frames", type=int, default=25, help="of each request, 12.5 a second")
    parser.add_argument("--count", action="store_true", help="only processor time")
    given = parser.parse_args()
    old, new = given.old.resolve(), given.new.resolve()
    model = given.model or str(old / "omnitts_cli" / "embedded" / "tiny")
    with started(old, model, given.frames) as one, started(new, model, given.frames) as other:
        servers = (one, other)
        for server in servers:  # warm: every size of batch, every connection
            for seed in range(3):
                server.burst(given.streams, seed)
                server.first_packet(seed)
        if not given.count:
            timed(servers, given)
        counted(servers, given)


def timed(servers: tuple[Server, Server], given: argparse.Namespace) -> None:
    """First packets and throughput."""
    first: tuple[list[float], list[float]] = ([], [])
    for number, order in in_turn(given.rounds):
        for side in order:
            first[side].append(servers[side].first_packet(number))
    row("first packet, ms", *first)
    rates: tuple[list[float], list[float]] = ([], [])
    for number, order in in_turn(given.bursts):
        for side in order:
            rates[side].append(servers[side].burst(given.streams, 100 * number))
    row(f"{given.streams} at once, s of sound a second", *rates)


def counted(servers: tuple[Server, Server], given: argparse.Namespace) -> None:
    """Processor time of a request: blocks of bursts, since a tick of the clock is 10 ms."""
    own: tuple[list[float], list[float]] = ([], [])
    engine: tuple[list[float], list[float]] = ([], [])
    blocks, block = max(given.bursts // 2, 4), 6
    for number, order in in_turn(blocks):
        for side in order:
            before = servers[side].processor_s()
            for turn in range(block):
                servers[side].burst(given.streams, 10_000 + 100 * number + turn)
            after = servers[side].processor_s()
            for found, index in ((own, 0), (engine, 1)):
                found[side].append(1000 * (after[index] - before[index]) / block / given.streams)
    row("server's process, ms a request", *own)
    row("engine's process, ms a request", *engine)


if __name__ == "__main__":
    main()
