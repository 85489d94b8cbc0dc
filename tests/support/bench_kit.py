"""The bench in tests: an engine that does what a script says, requests to send, and reports."""

import itertools
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np

from omnitts_cli.audio.chunk import Chunk, Stopped
from omnitts_cli.bench.record import Work
from omnitts_cli.bench.report import Report
from omnitts_cli.bench.stats import LoadLevel
from omnitts_cli.errors import ModelError
from omnitts_cli.request import Failed, Request

RATE = 24_000
FRAME = 1920


@dataclass(frozen=True)
class Packet:
    """`frames` of sound, `at_s` after submission. The first `silent` samples of it are zero."""

    at_s: float
    frames: int
    silent: int = 0
    nan: bool = False


@dataclass(frozen=True)
class Script:
    """What happens to one request; after the packets it ends, stops for another reason, or fails."""

    packets: Sequence[Packet]
    stopped: Stopped = "end"
    failure: str | None = None
    end_s: float | None = None  # an empty last chunk, so late

    @property
    def audio_s(self) -> float:
        return sum(packet.frames for packet in self.packets) * FRAME / RATE


@dataclass
class Delivery:
    """What really happened to a request, by the fake engine's own clock."""

    script: Script
    submitted: float
    arrivals: list[tuple[float, int]] = field(default_factory=list)  # (time, frames)
    ended: float = 0.0


class Clock:
    """Stands in for the module `time`: time passes while an engine sleeps, and only then."""

    def __init__(self) -> None:
        self.now = 100.0
        self.runs: Callable[[], bool] = lambda: True

    def perf_counter(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        if self.runs():
            self.now += seconds
        else:
            threading.Event().wait(0.001)


class FakeEngine:
    """Plays scripts in real time, or in that of a Clock: each request by the next one. Writes down when it did what."""

    def __init__(self, scripts: Sequence[Script]) -> None:
        self.model = SimpleNamespace(facts=SimpleNamespace(sample_rate=RATE))
        self.device = SimpleNamespace(count_syncs=count_syncs, peak_bytes=lambda: 123 << 20)
        self.plan = SimpleNamespace(slots=99, capture=False)
        self.frames_launched = 0
        self.deliveries: list[Delivery] = []
        self.requests: list[Request] = []
        self.most_at_once = 0
        self._scripts = itertools.cycle(scripts)
        self._events: dict[str, list[tuple[float, Chunk | Failed]]] = {}
        self._names: dict[str, Delivery] = {}

    @property
    def busy(self) -> bool:
        return bool(self._events)

    def submit(self, request: Request, *, live: bool = False, priority: int = 0, client: str = "") -> str:
        now, script = time.perf_counter(), next(self._scripts)
        delivery = Delivery(script, now)
        self.deliveries.append(delivery)
        self.requests.append(request)
        name = request.id or f"r{len(self.requests)}"
        self._names[name] = delivery
        self._events[name] = list(events(name, script, now))
        self.most_at_once = max(self.most_at_once, len(self._events))
        return name

    def cancel(self, name: str) -> None:
        now = time.perf_counter()
        if name in self._events:
            self._events[name] = [(now, Chunk(name, 0, silence(0), codes(0), True, "cancelled"))]

    def step(self) -> list[Chunk | Failed]:
        time.sleep(0.0002)
        news: list[Chunk | Failed] = []
        for name, waiting in list(self._events.items()):
            while waiting and waiting[0][0] <= time.perf_counter():
                news.append(waiting.pop(0)[1])
            if not waiting:
                del self._events[name]
        now = time.perf_counter()
        for one in news:
            self._write_down(one, now)
        return news

    def _write_down(self, one: Chunk | Failed, now: float) -> None:
        delivery = self._names[one.request]
        if isinstance(one, Chunk) and len(one.codes):
            delivery.arrivals.append((now, len(one.codes)))
            self.frames_launched += len(one.codes)
        if isinstance(one, Failed) or one.last:
            delivery.ended = now


@contextmanager
def count_syncs() -> Iterator[Callable[[], int | None]]:
    yield lambda: 7


def silence(frames: int) -> np.ndarray:
    return np.zeros(frames * FRAME, np.float32)


def codes(frames: int) -> np.ndarray:
    return np.zeros((frames, 4), np.int64)


def sound(packet: Packet) -> np.ndarray:
    """A loud tone behind the silence that was asked for."""
    pcm = 0.5 * np.ones(packet.frames * FRAME, np.float32)
    pcm[: packet.silent] = 0
    if packet.nan:
        pcm[-1] = np.nan
    return pcm


def events(name: str, script: Script, now: float) -> Iterator[tuple[float, Chunk | Failed]]:
    count = len(script.packets)
    at_end = script.failure is None and script.end_s is None
    for index, packet in enumerate(script.packets):
        last = at_end and index == count - 1
        stopped = script.stopped if last else None
        yield now + packet.at_s, Chunk(name, index, sound(packet), codes(packet.frames), last, stopped)
    latest = script.packets[-1].at_s if script.packets else 0.0
    if script.failure is not None:
        yield now + (script.end_s or latest), Failed(name, ModelError(script.failure))
    elif not at_end or not count:
        yield now + (script.end_s or latest), Chunk(name, count, silence(0), codes(0), True, script.stopped)


def fake_engine(*scripts: Script) -> FakeEngine:
    return FakeEngine(scripts)


def script(*packets: tuple[float, int] | tuple[float, int, int] | tuple[float, int, int, bool], **end: Any) -> Script:
    """(at_s, frames[, silent[, nan]]) for each packet, and how it ends."""
    return Script([Packet(*packet) for packet in packets], **end)


def works(**fields: Any) -> Iterator[Work]:
    """The same request without end."""
    return itertools.repeat(Work(Request("hello", **fields)))


def a_level(**given: Any) -> LoadLevel:
    """A level; what a test cares about is given by name, spreads by their median."""
    spreads = {"e2el_ms": 900.0, "ttfp_ms": 30.0, "audible_ms": 35.0, "rtf": 0.2}
    fields: dict[str, Any] = {
        name: {"mean": value, "median": value, "p90": value, "p99": value}
        for name, value in (spreads | {key: given.pop(key) for key in spreads if key in given}).items()
    }
    base = {"concurrency": 4, "rate": None, "requests": 16, "failed": 0, "duration_s": 4.0}
    base |= {"request_throughput": 4.0, "audio_s": 80.0, "audio_throughput": 20.0, "frames": 1000}
    return LoadLevel(**(base | {"underruns": 0, "gap_ms_max": 90.0, "guard_hits": 0} | fields | given))


def a_report() -> Report:
    return Report(
        created="2026-11-21T04:00:00+00:00",
        command="omnitts bench",
        model="random:toy",
        model_sha256=None,
        device="cpu, a processor",
        dtype="float32",
        versions={"python": "3.11.7"},
        seed=0,
        workload={"loop": "closed", "texts": 3},
        levels=[a_level(concurrency=1), a_level(concurrency=4)],
    )
