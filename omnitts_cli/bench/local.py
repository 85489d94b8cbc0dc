"""The engine in this process as a target: the loop of the speech API turns it, any thread sends."""

import itertools
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

from omnitts_cli.audio.chunk import Chunk
from omnitts_cli.bench.meter import RequestMeter
from omnitts_cli.bench.record import Result, Work
from omnitts_cli.bench.target import Closed, Ended, Gauge
from omnitts_cli.errors import ModelError, OmniError
from omnitts_cli.request import Failed
from omnitts_cli.speech.loop import Loop

if TYPE_CHECKING:
    from omnitts_cli.engine.engine import Engine


class EngineTarget:
    """Sound counts as received when the loop calls back with it."""

    def __init__(self, engine: "Engine", *, keep: bool = False) -> None:
        self._engine, self._keep = engine, keep
        self.unusable: type[OmniError] = ModelError
        self.advice = 'omnitts say "Hello" -o hello.wav   with the same -m shows why'
        self._loop = Loop(engine)
        self._rate = engine.model.facts.sample_rate
        self._numbers = itertools.count(1)
        self._open: dict[int, tuple[Result, Ended]] = {}
        self.broken: BaseException | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: Any) -> None:
        self.broken = self.broken or Closed()  # requests that end from here on must not start new ones
        self._loop.close()
        for number in list(self._open):
            self._end(number, "cancelled")

    @contextmanager
    def gauged(self) -> Iterator[Gauge]:
        gauge, before = Gauge(), self._engine.frames_launched
        with self._engine.device.count_syncs() as waits:
            yield gauge
        gauge.frames = self._engine.frames_launched - before
        gauge.syncs = waits()
        gauge.peak_bytes = self._engine.device.peak_bytes() or None

    def send(self, work: Work, wanted: float, ended: Ended) -> None:
        number = next(self._numbers)
        result = Result(work, wanted, RequestMeter(self._rate, time.perf_counter()), self._keep, frames=0)
        self._open[number] = (result, ended)
        if work.encode is None:
            self._submit(number, work)
        else:  # the clip is encoded while other requests run, as in a server
            threading.Thread(target=self._encode, args=(number, work), daemon=True).start()

    def _submit(self, number: int, work: Work) -> None:
        self._loop.submit(work.request, lambda news: self._take(number, news))

    def _encode(self, number: int, work: Work) -> None:
        assert work.encode is not None
        try:
            voice = work.encode()
        except Exception as error:
            self._end(number, None, f"{type(error).__name__}: {error}")
            return
        self._submit(number, replace(work, request=replace(work.request, voice=voice)))

    # ---- on the loop's thread

    def _take(self, number: int, news: Any) -> None:
        now, (result, _) = time.perf_counter(), self._open[number]
        if isinstance(news, Chunk):
            result.add(news.pcm, now)
            result.frames = (result.frames or 0) + len(news.codes)
            if news.last:
                self._end(number, news.stopped)
        elif isinstance(news, Failed):
            self._end(number, None, news.error.message)
        else:  # raised again in the thread that waits for the load
            self.broken = news
            self._end(number, None, f"{type(news).__name__}: {news}")

    def _end(self, number: int, stopped: Any, failure: str | None = None) -> None:
        result, ended = self._open.pop(number)
        result.end(time.perf_counter(), stopped, *([failure] if failure is not None else []))
        ended(result)
