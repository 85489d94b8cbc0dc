"""ServerState: what all requests of a server share, and the limits that a sweep enforces."""

import asyncio
import itertools
import secrets
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from omnitts_cli.errors import Notice
from omnitts_cli.server.clips import Clips
from omnitts_cli.server.guard import Guard
from omnitts_cli.server.hub import Hub, News
from omnitts_cli.server.metrics import Metrics
from omnitts_cli.server.models import Models, ServedModel
from omnitts_cli.server.problems import Problem, busy
from omnitts_cli.server.voices import Saved
from omnitts_cli.settings.commands import Serving
from omnitts_cli.speech.speaking import Stream
from omnitts_cli.speech.tts import TTS
from omnitts_cli.speech.words import Timer

SWEEP_S = 0.25
MOST_WAITING_BYTES = 256 << 20
MOST_NOTICES = 20  # of one request
RESUME_S = 5.0  # a paused request resumes when its client has less than this left to read


@dataclass(eq=False)
class SpeechCall:
    """One request for speech while it is answered."""

    id: str
    client: str
    news: News
    began: float
    stream: Stream | None = None
    model: ServedModel | None = None
    voice: str = ""  # its name
    transport: Any = None
    gone: bool = False  # the client has disconnected
    problem: BaseException | None = None  # found by the sweep
    sending_since: float | None = None  # since when it waits for the client to read
    kept_bytes: int = 0  # of an answer that is sent when it is complete
    held_s: float = 0.0  # total time it waited for the client to read
    first_sound: float | None = None
    paused: bool = False
    reading: bool = False  # its text, in a thread
    timer: Timer | None = None  # with word times: aligns the words of each sentence with its sound
    raised: list[Notice] = field(default_factory=list)
    ignored: list[str] = field(default_factory=list)  # fields without effect, found after the request was checked

    @property
    def notices(self) -> list[str]:
        """Notices about the text or its speech so far, without repeats."""
        return list(dict.fromkeys(map(str, self.raised)))[:MOST_NOTICES]

    @property
    def waiting_bytes(self) -> float:
        """Bytes of sound that the client has not read yet."""
        unread = 0.0 if self.stream is None else self.stream.waiting_s * self.stream.sample_rate * 4
        return unread + self.kept_bytes

    def end(self, problem: BaseException) -> None:
        """Ends the request with an error."""
        if self.problem is None:
            self.problem = problem
            self.news.set()


@dataclass(eq=False)
class ServerState:
    """The server."""

    options: Serving
    guard: Guard
    hub: Hub
    models: Models
    metrics: Any  # Metrics; it reads the state
    clips: Clips
    log: Callable[[str], None] = lambda line: None
    headers: tuple[tuple[bytes, bytes], ...] = ()  # of every answer
    saved: Saved = field(default_factory=Saved)
    calls: set[SpeechCall] = field(default_factory=set)
    clients: Counter[str] = field(default_factory=Counter)
    draining: bool = False
    prefix: str = field(default_factory=lambda: secrets.token_hex(4))  # of the names of requests
    numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    @classmethod
    def of(
        cls, options: Serving, guard: Guard, models: list[ServedModel], load: Callable[[ServedModel], TTS],
        log: Callable[[str], None], headers: tuple[tuple[bytes, bytes], ...] = (),
    ) -> "ServerState":  # fmt: skip
        """The state of a server that begins, on its event loop."""
        hub = Hub()
        clips = Clips(options.max_upload, frozenset(map(str.lower, options.allow_ref_host)))
        served = Models(models, hub, load, log, options.tuned_voices)
        return cls(options, guard, hub, served, Metrics(), clips, log, headers)

    @contextmanager
    def call(self, client: str, transport: Any = None, *, part: bool = False) -> Iterator[SpeechCall]:
        """Admits one request, or raises 429 or 503. `part`: it belongs to a request that was admitted."""
        self._admit(client, part)
        call = SpeechCall(
            f"{self.prefix}{next(self.numbers):08x}", client, News(), time.perf_counter(), transport=transport
        )
        self.calls.add(call)
        self.clients[client] += 1
        try:
            yield call
        finally:
            self.calls.discard(call)
            self.clients[client] -= 1
            if not self.clients[client]:
                del self.clients[client]
            if call.stream is not None:
                call.stream.close()
            if call.model is not None:
                call.model.active -= 1
                call.model.used = time.monotonic()

    def _admit(self, client: str, part: bool) -> None:
        if self.draining and not part:
            raise busy("the server is shutting down", "shutting_down", 5)
        most = self.options.max_per_client
        if most and not part and self.clients[client] >= most:
            raise too_many(f"client '{client[:80]}' has {most} requests already")
        if self.waiting() >= self.options.max_queue:
            raise too_many(f"{self.options.max_queue} requests are waiting")

    def keep(self, call: SpeechCall, count: int) -> None:
        """Counts bytes that a request keeps in memory until its end, or raises 503 if all of them keep too much."""
        if sum(one.kept_bytes for one in self.calls) + count > MOST_WAITING_BYTES:
            raise busy("the server keeps too much sound for other requests", "memory_busy", 5)
        call.kept_bytes += count

    def waiting(self) -> int:
        """How many requests have no sound yet."""
        return sum(call.first_sound is None for call in self.calls)

    async def sweep(self) -> None:
        """Enforces the time limits and the memory limit, until it is cancelled."""
        while True:
            await asyncio.sleep(SWEEP_S)
            now = time.perf_counter()
            for call in list(self.calls):
                self._check(call, now)
            self._balance()
            if isinstance(self.options.idle_unload, float | int):
                self.models.unload_idle(float(self.options.idle_unload))

    def _check(self, call: SpeechCall, now: float) -> None:
        options = self.options
        if call.sending_since is not None:
            if now - call.sending_since > options.slow_timeout:
                call.end(Problem(408, f"the client read nothing for {options.slow_timeout:g} s", code="slow_client"))
                if call.transport is not None:
                    call.transport.abort()
            elif call.stream is not None:
                try:
                    call.stream.take_news()
                except Exception as error:  # raised where the request is answered
                    call.end(error)
            return
        stream = call.stream
        if stream is not None and stream.account.queued_s is None and not stream.admitted:
            if now - call.began > options.queue_timeout:
                call.end(busy(f"no slot was free for {options.queue_timeout:g} s", "queue_timeout", 5))
        if now - call.began - call.held_s > options.request_timeout:
            call.end(busy(f"the request took more than {options.request_timeout:g} s", "request_timeout", 5))

    def _balance(self) -> None:
        """Pauses the requests with the most unread sound while all of them together hold too much."""
        for call in self.calls:
            if call.paused and call.stream is not None and call.stream.waiting_s < RESUME_S:
                call.paused = False
                call.stream.pause(False)
        total = sum(call.waiting_bytes for call in self.calls)
        self.metrics.buffer_bytes.set(total)
        ahead = sorted((call for call in self.calls if not call.paused), key=lambda call: -call.waiting_bytes)
        for call in ahead:
            if total <= MOST_WAITING_BYTES or call.stream is None:
                return
            call.paused = True
            call.stream.pause(True)
            total -= call.waiting_bytes


def too_many(message: str) -> Problem:
    """429."""
    return Problem(429, message, code="rate_limit_exceeded", headers={"Retry-After": "1"})
