"""The engine's own loop over a modelled card, in virtual time: what an order of work costs, without a card.

Admission, the order of frames, chunk sizes and the queue are the engine's. Only the captured steps are replaced: each
takes as long as was measured on an H200 for the 1.7B (2026-11-23), and streams that are busy at once share the card. A
run is the same each time. It is a model: it compares orders of work, and its figures are not measurements.
"""

import heapq
import itertools
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import numpy as np
import torch
from torch import Tensor

from omnitts_cli.audio.chunk import Chunk
from omnitts_cli.engine import codec_jobs, engine
from omnitts_cli.engine.engine import Engine
from omnitts_cli.engine.slots import Plan, State, Stop
from omnitts_cli.families.toy import toy
from omnitts_cli.request import Request
from omnitts_cli.voices import Named

FRAME_MS = {1: 1.5, 8: 1.83, 16: 2.51, 32: 3.34, 64: 3.45, 96: 4.2, 128: 4.34, 192: 5.47, 224: 5.6, 256: 5.75}
"""A captured frame alone, by rows."""
PROMPT_MS = {16: 1.3, 32: 1.3, 64: 1.3, 128: 1.5, 256: 1.9, 512: 3.0, 768: 3.9, 1024: 4.8, 2048: 9.2}
"""A step of prompts alone, by rows."""
PROMPT_ROWS = 16
"""Of each prompt, without its prefix, which is kept."""
CHUNK_ROWS = (1, 8, 16, 24, 32, 48, 64)
CHUNK_MS = {
    1: (0.53, 0.67, 0.82, 0.96, 1.07, 1.45, 1.62), 2: (0.59, 0.81, 0.99, 1.18, 1.34, 1.85, 2.22),
    4: (0.65, 1.04, 1.52, 1.96, 2.33, 3.07, 3.68), 8: (0.68, 1.51, 2.37, 3.08, 3.68, 5.36, 6.72),
    16: (0.90, 2.46, 3.58, 5.18, 6.50, 9.64, 12.59),
}  # fmt: skip
"""A captured chunk of the codec alone, by frames, for each of the rows."""
TOGETHER = 1.0
"""Work of two busy streams in the time of one: 1.03 at 64 rows, 0.98 at 256."""
STEP_MS, ROW_MS, JOB_MS, CHUNK_ROW_MS, ADMISSION_MS, NEWCOMER_MS = 0.25, 0.01, 0.25, 0.02, 0.35, 0.09
"""The engine's own thread: a frame and its rows, a codec job and its rows, a step of prompts and its newcomers."""
REQUEST_MS, SEND_MS, CLIENT_MS = 0.4, 0.1, 0.6
"""The event loop of HTTP, one thing after the other, and a client between its last byte and its next request (mean)."""
FRAME_S = 0.08

TEXT = "The kettle is on, and the bread is still warm from the oven."


class Clock:
    """Virtual seconds. Stands in for the module `time` in the engine's modules."""

    now = 0.0

    def perf_counter(self) -> float:
        return self.now


@dataclass(eq=False)
class Work:
    """Something that a stream has to do."""

    left: float  # seconds of the whole card
    after: list["Work"] = field(default_factory=list)
    ended: float | None = None


class Card:
    """Streams that share a card: all that have work go on at once, each with its share."""

    def __init__(self, clock: Clock, together: float) -> None:
        self.clock, self.together, self.at = clock, together, 0.0
        self.queues: list[deque[Work]] = []

    def advance(self, until: float) -> None:
        """Work up to a time."""
        while self.at < until:
            if not self._turn(until):
                self.at = until

    def finish(self, work: Work) -> None:
        """Work until something is done; the host waits for it."""
        self.advance(self.clock.now)
        while work.ended is None:
            assert self._turn(float("inf")), "the card waits for work that was never launched"
        self.clock.now = max(self.clock.now, work.ended)

    def _turn(self, until: float) -> bool:
        heads = [queue[0] for queue in self.queues if queue and all(w.ended is not None for w in queue[0].after)]
        if not heads:
            return False
        speed = (1.0 if len(heads) == 1 else self.together) / len(heads)
        takes = min(min(head.left for head in heads) / speed, until - self.at)
        self.at += takes
        for head in heads:
            head.left -= takes * speed
            if head.left <= 1e-12:
                head.ended = self.at
        for queue in self.queues:
            while queue and queue[0].ended is not None:
                queue.popleft()
        return True


class Stream:
    """A stream of the card."""

    def __init__(self, card: Card) -> None:
        self.card, self.queue = card, deque[Work]()
        card.queues.append(self.queue)
        self.latest = Work(0.0, ended=0.0)
        self.waits: list[Work] = []

    def __enter__(self) -> "Stream":
        return self

    def __exit__(self, *exc: object) -> None: ...

    def launch(self, ms: float) -> Work:
        """Work of so many milliseconds."""
        self.card.advance(self.card.clock.now)
        self.latest, self.waits = Work(ms / 1000, self.waits), []
        self.queue.append(self.latest)
        return self.latest

    def record_event(self) -> object:
        return self.latest

    def wait_event(self, event: object) -> None:
        assert isinstance(event, Work)
        self.waits.append(event)

    def keep_alive(self, *tensors: Tensor) -> None: ...

    def follow(self, other: "Stream", *tensors: Tensor) -> None:
        self.wait_event(other.record_event())

    def hurry(self, fetch: "Fetch") -> None: ...

    def fetch(self, *tensors: Tensor) -> "Fetch":
        return Fetch(self.card, self.latest, [tensor.numpy().copy() for tensor in tensors])


@dataclass
class Fetch:
    """What a stream brings back after its latest work."""

    card: Card
    work: Work
    arrays: list[np.ndarray]

    def done(self) -> bool:
        self.card.advance(self.card.clock.now)
        return self.work.ended is not None

    def result(self) -> list[np.ndarray]:
        self.card.finish(self.work)
        return self.arrays


class Device:
    """What the engine asks of a device."""

    captures = pads = True

    def __init__(self, card: Card) -> None:
        self.card = card

    def stream(self, urgent: bool = False) -> Stream:
        return Stream(self.card)

    def workers(self) -> None:
        return None

    def to_device(self, array: np.ndarray) -> Tensor:
        return torch.from_numpy(array)

    def synchronize(self) -> None: ...


def between(size: int, known: dict[int, float]) -> float:
    """The milliseconds of a size, from those of sizes around it."""
    return float(np.interp(size, list(known), list(known.values())))


def spend(device: Device, ms: float) -> None:
    """The host computes."""
    device.card.clock.now += ms / 1000


class Frames:
    """Frames of no content: each slot has one more."""

    def __init__(self, context: Any, stream: Stream) -> None:
        self.context, self.stream = context, stream

    def launch(self, slots: Sequence[int], last: int) -> None:
        table, rows = self.context.table, torch.tensor(slots)
        spend(self.context.device, STEP_MS + ROW_MS * len(slots))
        bucket = min(size for size in self.context.plan.buckets if size >= len(slots))
        self.stream.launch(between(bucket, FRAME_MS))
        table.made[rows] += 1
        table.stop[rows] = torch.where(table.made[rows] >= table.limit[rows], int(Stop.LIMIT), int(Stop.RUNNING))


class Prefill:
    """Prompts that take their time."""

    longest = 256

    def __init__(self, context: Any, stream: Stream) -> None:
        self.context, self.stream = context, stream

    def launch(self, runs: Sequence[Any]) -> None:
        spend(self.context.device, ADMISSION_MS + NEWCOMER_MS * len(runs))
        sizes, left = self.context.plan.prefill_rows, PROMPT_ROWS * len(runs)
        while left > 0:
            self.stream.launch(between(min(size for size in sizes if size >= min(left, sizes[-1])), PROMPT_MS))
            left -= sizes[-1]


class Sounds:
    """Chunks of silence."""

    def __init__(self, context: Any, stream: Stream) -> None:
        self.context, self.stream = context, stream
        self.most_rows = min(context.plan.slots, max(context.plan.sound_rows))
        self.beside = False

    def clear(self, slots: Sequence[int]) -> None: ...

    def launch(self, frames: int, slots: Sequence[int], starts: Sequence[int]) -> Fetch:
        spend(self.context.device, JOB_MS + CHUNK_ROW_MS * len(slots))
        rows = min(size for size in self.context.plan.sound_rows if size >= len(slots))
        self.stream.launch(between(rows, dict(zip(CHUNK_ROWS, CHUNK_MS[frames], strict=True))))
        codes = torch.zeros((rows, frames, self.context.model.facts.groups), dtype=torch.int64)
        return self.stream.fetch(torch.zeros((rows, frames)), codes)


@dataclass
class Found:
    """What a run has shown."""

    audio_s_per_s: float
    first_ms: tuple[float, float]  # p50 and p95
    least_lead_ms: float  # of a player that starts with the first packet; below 0 it would have stopped
    waiting: float  # requests that have their frames and wait for the codec, on average
    ms_a_frame: float


class Server:
    """The engine's thread, what calls it, and the event loop of HTTP."""

    def __init__(self, clock: Clock, slots: int, together: float, plan: dict[str, Any]) -> None:
        self.clock, self.card, model = clock, Card(clock, together), toy()
        device: Any = Device(self.card)
        self.engine = Engine(model, device, Plan.of(slots, 30.0, model.facts.frame_rate, **plan))
        self.rng, self.numbers = np.random.default_rng(0), itertools.count()
        self.events: list[tuple[float, int, Callable[[], None]]] = []
        self.calls: dict[str, Callable[[Chunk], None]] = {}
        self.http_free = 0.0
        self.sent: list[tuple[float, int]] = []  # when, and how many frames
        self.first: list[float] = []  # seconds to the first packet
        self.least: list[float] = []  # the least lead of each request that has ended
        self.waiting = self.turns = 0

    def at(self, when: float, what: Callable[[], None]) -> None:
        """Call something then."""
        heapq.heappush(self.events, (when, next(self.numbers), what))

    def http(self, ms: float) -> float:
        """When the event loop has done so many more milliseconds of work."""
        self.http_free = max(self.http_free, self.clock.now) + ms / 1000
        return self.http_free

    def ask(self, frames: int, then: Callable[[], None], *, http: bool) -> None:
        """A request; `then` when its last sound has reached the client."""
        asked, runs_dry, least = self.clock.now, 0.0, float("inf")
        request = Request(TEXT, Named("ann"), "english", id=f"{next(self.numbers)}", max_frames=frames, ignore_end=True)

        def send(chunk: Chunk) -> None:
            nonlocal runs_dry, least
            sent, count = self.http(SEND_MS) if http else self.clock.now, chunk.codes.shape[0]
            self.sent.append((sent, count))
            if chunk.index == 0:
                self.first.append(sent - asked)
                runs_dry = sent
            elif count:
                least = min(least, runs_dry - sent)
            runs_dry += FRAME_S * count
            if chunk.last:
                del self.calls[request.id]
                self.least.append(least)
                if http:
                    self.at(sent + CLIENT_MS / 1000 * self.rng.exponential(), then)
                else:
                    then()

        def submit() -> None:
            self.calls[request.id] = send
            self.engine.submit(request)

        if http:
            self.at(self.http(REQUEST_MS), submit)
        else:
            submit()

    def run(self, until: float = float("inf")) -> None:
        """Steps and calls, in the order of their times."""
        while self.clock.now < until:
            while self.events and self.events[0][0] <= self.clock.now:
                heapq.heappop(self.events)[2]()
            if self.engine.busy:
                for chunk in self.engine.step():
                    assert isinstance(chunk, Chunk)
                    self.calls[chunk.request](chunk)
                held = self.engine.snapshot().requests.values()
                self.waiting += sum(request.state is State.FINISHING for request in held)
                self.turns += 1
            elif self.events:
                self.clock.now = max(self.clock.now, self.events[0][0])
            else:
                return

    def found(self, since: float) -> Found:
        """What there was from `since` on, and of the later two thirds of the requests."""
        seconds, first = self.clock.now - since, self.first[len(self.first) // 3 :]
        return Found(
            sum(count for at, count in self.sent if since <= at < self.clock.now) * FRAME_S / seconds,
            (1000 * float(np.percentile(first, 50)), 1000 * float(np.percentile(first, 95))),
            1000 * min(self.least),
            self.waiting / self.turns,
            1000 * self.clock.now / self.engine.frames_launched,
        )


@contextmanager
def server(slots: int = 64, together: float = TOGETHER, **plan: Any) -> Iterator[Server]:
    """A server whose engine is made of modelled steps; the rest goes to the plan."""
    clock = Clock()
    with (
        mock.patch.object(engine, "frame_steps", Frames),
        mock.patch.object(engine, "PrefillSteps", Prefill),
        mock.patch.object(codec_jobs, "SoundSteps", Sounds),
        mock.patch.object(engine, "time", clock),
        mock.patch.object(codec_jobs, "time", clock),
    ):
        yield Server(clock, slots, together, plan)


def closed(
    streams: int, seconds: float, *, http: bool, spread: bool, varied: float = 0.0, frames: int = 50, seed: int = 0,
    **plan: Any,
) -> Found:  # fmt: skip
    """So many at a time. `spread`: they begin one by one. `varied`: by how much of `frames` their lengths differ."""
    with server(**plan) as one:
        rng = one.rng = np.random.default_rng(seed)

        def again() -> None:
            one.ask(max(1, round(frames * (1 + varied * rng.uniform(-1, 1)))), again, http=http)

        for _ in range(streams):
            if spread:  # the first ones are shorter by different amounts
                one.ask(max(1, round(frames * rng.uniform())), again, http=http)
            else:
                again()
        one.run(seconds)
        return one.found(0.3 * seconds)


def arrivals(rate: float, seconds: float, *, frames: int = 50, **plan: Any) -> Found:
    """Requests over HTTP that arrive at random, so many a second."""
    rng, at = np.random.default_rng(int(rate * 1000)), 0.0
    with server(**plan) as one:
        while (at := at + rng.exponential(1 / rate)) < seconds:
            one.at(at, lambda: one.ask(frames, lambda: None, http=True))
        one.run()
        return one.found(0.0)
