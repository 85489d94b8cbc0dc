"""The engine in this process as a target: one thread turns it, any thread sends."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

from omnitts_cli.audio.chunk import Chunk
from omnitts_cli.bench.gauge import Gauge
from omnitts_cli.bench.record import Heard, Work
from omnitts_cli.bench.target import Closed, Ended
from omnitts_cli.engine.meter import RequestMeter
from omnitts_cli.errors import OmniError

if TYPE_CHECKING:
    from omnitts_cli.engine.engine import Engine, News


class EngineTarget:
    """Sound counts as heard when `step` has handed it out: that is when a caller has it."""

    def __init__(self, engine: Engine, *, keep: bool = False) -> None:
        self._engine, self._keep = engine, keep
        self._rate = engine.model.facts.sample_rate
        self._names = itertools.count(1)
        self._open: dict[str, tuple[Heard, Ended]] = {}
        self._wake = threading.Event()
        self._closing = False
        self.broken: BaseException | None = None
        self._thread = threading.Thread(target=self._turn, name="engine", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exc: Any) -> None:
        self._closing = True
        self.broken = self.broken or Closed()  # the ends that follow must not bring new requests
        for name in list(self._open):
            self._engine.cancel(name)
        self._wake.set()
        self._thread.join()

    @contextmanager
    def gauged(self) -> Iterator[Gauge]:
        gauge, before = Gauge(), self._engine.frames_launched
        with self._engine.device.count_syncs() as waits:
            yield gauge
        gauge.frames = self._engine.frames_launched - before
        gauge.syncs = waits()
        gauge.peak_bytes = self._engine.device.peak_bytes() or None

    def send(self, work: Work, wanted: float, ended: Ended) -> None:
        name = f"bench{next(self._names)}"
        heard = Heard(work, wanted, RequestMeter(self._rate, time.perf_counter()), self._keep, frames=0)
        self._open[name] = (heard, ended)
        if work.listen is None:
            self._submit(name, work)
        else:  # a clip is heard beside the running frames, as a server would
            threading.Thread(target=self._listen, args=(name, work), daemon=True).start()

    def _submit(self, name: str, work: Work) -> None:
        self._engine.submit(replace(work.request, id=name))
        self._wake.set()

    def _listen(self, name: str, work: Work) -> None:
        assert work.listen is not None
        try:
            voice = work.listen()
        except Exception as error:
            heard, ended = self._open.pop(name)
            heard.end(time.perf_counter(), None, f"{type(error).__name__}: {error}")
            ended(heard)
            return
        self._submit(name, replace(work, request=replace(work.request, voice=voice)))

    # ---- the engine's thread

    def _turn(self) -> None:
        try:
            while not self._closing or self._engine.busy:
                if not self._engine.busy:
                    self._wake.wait()
                    self._wake.clear()
                    continue
                for news in self._engine.step():
                    self._take(news)
        except BaseException as error:  # raised again in the thread that waits for the load
            self.broken = error
            for name in list(self._open):
                heard, ended = self._open.pop(name)
                heard.end(time.perf_counter(), None, f"{type(error).__name__}: {error}")
                ended(heard)

    def _take(self, news: News) -> None:
        now = time.perf_counter()
        heard, ended = self._open[news.request]
        if isinstance(news, Chunk):
            heard.hear(news.pcm, now)
            heard.frames = (heard.frames or 0) + len(news.codes)
            if not news.last:
                return
            heard.end(now, news.stopped)
        else:
            error = news.error
            heard.end(now, None, error.message if isinstance(error, OmniError) else str(error))
        del self._open[news.request]
        ended(heard)
