"""What `serve.py` opens in the engine process: a model whose throughput is measured before the server uses it, or an
engine without a model that takes as long as a GPU would, to measure everything around an engine on any machine.

The step of a PacedEngine holds Python's interpreter lock for `host_ms`, in bursts as between calls of torch, and waits
without the lock for a device that needs `frame_ms` a frame at 64 streams. Chunks grow as they do on a GPU.
"""

from __future__ import annotations

import itertools
import json
import sys
import threading
import time
from collections import deque
from dataclasses import dataclass, field, replace
from pathlib import Path
from queue import SimpleQueue
from types import SimpleNamespace
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np

from omnitts_cli.audio.chunk import Chunk
from omnitts_cli.errors import Notice
from omnitts_cli.request import BULK, Request
from omnitts_cli.speech import tts
from omnitts_cli.speech.loop import Loop
from omnitts_cli.speech.tts import TTS
from omnitts_cli.voices import Named

TEXTS = (
    "The kettle is on, and the bread is still warm from the oven.",
    "Nobody had told him that the last train left an hour ago.",
    "She folded the letter twice and put it back into the drawer.",
    "Two grey herons stood in the shallow water by the bridge.",
)
KEPT = 0.7
CHUNKS = (1, 1, 2, 2, 4, 4, 8, 8, 8, 12)
"""Frames in each chunk of a request of 50, about as measured on an H200 at 64 streams."""
AHEAD = 2
FIXED = 0.4  # share of a frame's time that does not depend on the number of streams
SAMPLES, GROUPS = 1920, 16


@dataclass
class Row:
    """One request."""

    request: Request
    frames: int = 0
    given: int = 0
    chunks: Any = field(default_factory=lambda: itertools.chain(CHUNKS, itertools.repeat(16)))
    due: int = 0
    index: int = 0
    cancelled: bool = False


class PacedEngine:
    """Has what `speech.loop` needs of an engine."""

    sleeping = False

    def __init__(self, frame_ms: float, prefill_ms: float, host_ms: float, calls: int, gather: int, slots: int) -> None:
        self.gather, self.gather_from = gather, 32
        self.frame_s, self.prefill_s, self.host_s, self.calls = (
            frame_ms / 1000,
            prefill_ms / 1000,
            host_ms / 1000,
            calls,
        )
        facts = SimpleNamespace(sample_rate=24_000, samples_per_frame=SAMPLES, frame_rate=12.5, hidden=64)
        self.model = SimpleNamespace(
            name="paced", facts=facts, speakers={"one": "a voice"}, languages=("english",), sha256=None, dtype="none",
            kinds=frozenset({"named", "cloned", "designed"}), longest_piece=None, plain_letters=False, vector_of=None,
            cloner=None,
        )  # fmt: skip
        self.plan = SimpleNamespace(slots=slots)
        self.device = SimpleNamespace(name="paced", card="none", synchronize=lambda: None)
        self._inbox: SimpleQueue[Any] = SimpleQueue()
        self._ids = itertools.count(1)
        self.admitted: dict[str, float] = {}
        self._rows: dict[str, Row] = {}
        self._waiting: dict[str, Row] = {}
        self._held = 0
        self._flight: deque[tuple[float, list[Row]]] = deque()
        self._device_free = 0.0
        self._sound = (0.1 * np.random.default_rng(0).standard_normal(64 * SAMPLES)).astype(np.float32)

    @property
    def queued(self) -> int:
        """How many requests wait for a step."""
        return len(self._waiting)

    @property
    def busy(self) -> bool:
        """Whether anything is left to do."""
        return bool(self._rows or self._waiting or self._flight) or not self._inbox.empty()

    def submit(self, request: Request, *, live: bool = False, priority: int = BULK, client: str = "") -> str:
        """Queues a request."""
        request = replace(request, id=request.id or f"r{next(self._ids)}")
        self._inbox.put(("submit", request))
        return request.id

    def cancel(self, name: str) -> None:
        """Ends a request."""
        self._inbox.put(("cancel", name))

    def pause(self, name: str) -> None:
        """Not supported: goes on."""

    resume = finish = pause

    def feed(self, name: str, text: str) -> None:
        """Not supported."""

    def step(self) -> list[Chunk]:
        """One frame for all."""
        while not self._inbox.empty():
            kind, what = self._inbox.get()
            if kind == "submit":
                self._waiting[what.id] = Row(what)
            elif row := self._rows.get(what) or self._waiting.get(what):
                row.cancelled = True
        newcomers = len(self._waiting)
        if newcomers and len(self._rows) >= self.gather_from and newcomers < 8 and self._held < self.gather:
            self._held, newcomers = self._held + 1, 0
        else:
            self._held = 0
            self._rows |= self._waiting
            self.admitted |= dict.fromkeys(self._waiting, time.perf_counter())
            self._waiting.clear()
        rows = list(self._rows.values())
        host = self.host_s * (FIXED + (1 - FIXED) * len(rows) / 64)
        for _ in range(self.calls):
            until = time.thread_time() + host / self.calls
            while time.thread_time() < until:
                pass
            time.sleep(0)  # releases the lock, as a call of torch does
        takes = self.frame_s * (FIXED + (1 - FIXED) * len(rows) / 64) + -(-newcomers // 16) * self.prefill_s
        self._device_free = max(self._device_free, time.perf_counter()) + takes
        self._flight.append((self._device_free, rows))
        news: list[Chunk] = []
        while self._flight and (len(self._flight) >= AHEAD or not self._rows):
            ready, done = self._flight.popleft()
            if (wait := ready - time.perf_counter()) > 0:
                time.sleep(wait)
            for row in done:
                news += self._frame(row)
        return news

    def _frame(self, row: Row) -> list[Chunk]:
        name = row.request.id
        if name not in self._rows:
            return []
        row.frames += 1
        row.due = row.due or next(row.chunks)
        last = row.frames >= (row.request.max_frames or 50) or row.cancelled
        if row.frames - row.given < row.due and not last:
            return []
        count, row.given, row.due, row.index = row.frames - row.given, row.frames, 0, row.index + 1
        if last:
            del self._rows[name], self.admitted[name]
        stopped: Any = ("cancelled" if row.cancelled else "limit") if last else None
        return [Chunk(name, row.index - 1, self._sound[: count * SAMPLES].copy(), np.zeros((count, GROUPS), np.int64),
                      last, stopped)]  # fmt: skip


def load(
    source: str,
    *,
    tell: Any,
    paced: str | None,
    slots: int,
    frames: int,
    levels: list[int],
    seconds: float,
    **settings: Any,
) -> TTS:
    """An open model. First the engine speaks by itself, so many streams at a time; the figures go to `tell` as JSON."""
    opened = paced_engine(paced, slots) if paced else tts.load(source, slots=slots, **settings)
    for streams in levels:
        throughput(opened, streams, 1.0, frames)  # not counted
        together = throughput(opened, streams, seconds, frames)
        spread = throughput(opened, streams, seconds, frames, spread=True)
        tell(Notice(json.dumps({"streams": streams, "engine_audio_s_per_s": round(spread, 1),
                                "all_at_once_audio_s_per_s": round(together, 1)})))  # fmt: skip
    return opened


def throughput(opened: TTS, streams: int, seconds: float, frames: int, *, spread: bool = False) -> float:
    """Sound per second of the engine by itself: requests through its loop, without HTTP, in the last 70 % of the time.

    All requests are equally long. Begun together, they end together, and the engine reads the prompts of all that
    follow in a few goes. `spread`: the first ones are shorter by different amounts, so that requests begin one by one,
    as those of clients do.
    """
    model, lock, done = opened.engine.model, threading.Lock(), threading.Event()
    until = time.perf_counter() + seconds
    arrived: list[tuple[float, int]] = []
    state = {"number": 0, "running": 0}
    voice = Named(next(iter(model.speakers), ""))
    language = "english" if "english" in model.languages else None

    def submit() -> None:
        state["number"] += 1
        first = spread and state["number"] <= streams
        request = Request(TEXTS[state["number"] % len(TEXTS)], voice, language, seed=state["number"],
                          max_frames=max(1, frames * state["number"] // streams) if first else frames,
                          ignore_end=True)  # fmt: skip

        def on_news(news: Any) -> None:
            arrived.append((time.perf_counter(), news.pcm.size))
            if not news.last:
                return
            with lock:
                state["running"] -= 1
                again = time.perf_counter() < until
                state["running"] += again
                if not state["running"]:
                    done.set()
            if again:
                submit()

        opened.engine.submit(request, on_news)

    state["running"] = streams
    for _ in range(streams):
        submit()
    done.wait()
    since = until - seconds * KEPT
    return sum(count for at, count in arrived if since <= at < until) / (until - since) / opened.sample_rate


def paced_engine(source: str, slots: int) -> TTS:
    """A PacedEngine; `source` is FRAME_MS,PREFILL_MS,HOST_MS,CALLS,GATHER."""
    frame_ms, prefill_ms, host_ms, calls, gather = map(float, source.split(","))
    engine: Any = PacedEngine(frame_ms, prefill_ms, host_ms, int(calls), int(gather), slots)
    return TTS(Loop(engine))
