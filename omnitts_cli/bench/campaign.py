"""Campaign: runs every level after a warm-up, the variants of a level alternately, and collects the results."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

from omnitts_cli.bench.load import LEAST_ROUNDS, Extent, Run, apart_loop, arrivals, closed_loop, open_loop
from omnitts_cli.bench.record import Result, Work
from omnitts_cli.bench.stats import PERCENTILES, LoadLevel, level
from omnitts_cli.bench.target import BenchTarget, Ended, Gauge

TURNS = 4
"""How often two variants take turns within a level, so that other load on the machine affects both."""

LEAST_REQUESTS = 8
PER_PLACE = 4
OPEN_S = 10.0
LEAST_WARMUP = 2
MAIN = ""
"""The name of the main target, with which the others are compared."""


@dataclass(frozen=True)
class Shape:
    """How much is asked, and how fast. With `rate` the loop is open, else closed at each of `levels`; `apart`: its
    requests do not begin together."""

    levels: Sequence[int] = (1, 4, 10)
    apart: bool = False
    rate: float | None = None
    burstiness: float = 1.0
    requests: int | None = None
    duration_s: float | None = None
    warmup: int | None = None  # requests before each level; by default one for every place in flight
    percentiles: Sequence[float] = PERCENTILES
    limits: Mapping[str, float] = field(default_factory=dict)
    seed: int = 0

    def steps(self) -> Sequence[int | None]:
        """The levels; one without a number when the loop is open."""
        return [None] if self.rate is not None else self.levels

    def extent(self, step: int | None) -> Extent:
        """How much is sent at a level."""
        if self.duration_s is not None:
            return Extent(duration_s=self.duration_s)
        return Extent(self.requests or max(LEAST_REQUESTS, self._usual(step)))

    def _usual(self, step: int | None) -> int:
        return round(OPEN_S * self.rate) if self.rate is not None else PER_PLACE * (step or 1)

    def warm_ups(self, step: int | None) -> int:
        """Warm-up requests of a level, which are not counted."""
        return max(LEAST_WARMUP, step or 1) if self.warmup is None else self.warmup

    def planned(self) -> int | None:
        """Requests of all levels, for one target; None when it is time that is planned."""
        counts = [self.extent(step).requests for step in self.steps()]
        return None if None in counts else sum(count or 0 for count in counts)


Kept = Callable[[LoadLevel, list[Result]], None]


def campaign(
    targets: Mapping[str, BenchTarget],
    works: Callable[[], Iterator[Work]],
    shape: Shape,
    on_end: Ended | None = None,
    kept: Kept | None = None,
) -> Iterator[LoadLevel]:
    """Yields finished levels. Every target gets the same requests at the same level."""
    for step in shape.steps():
        streams = {name: works() for name in targets}
        for name, target in targets.items():
            warm_up(target, streams[name], step, shape)
        runs = {name: Run(0.0) for name in targets}
        gauges = {name: Gauge() for name in targets}
        least = (step or 1) * (LEAST_ROUNDS if shape.apart else 1)
        for turn, extent in enumerate(turns(shape.extent(step), least, len(targets))):
            for name, target in targets.items():
                with target.gauged() as gauge:
                    run = one_run(target, streams[name], step, extent, shape, turn, on_end)
                runs[name].add(run)
                gauges[name].add(gauge)
        for name, run in runs.items():
            found = summed(run, gauges[name], step, shape, name)
            if kept is not None:
                kept(found, run.results)
            yield found


def one_run(
    target: BenchTarget,
    works: Iterator[Work],
    step: int | None,
    extent: Extent,
    shape: Shape,
    turn: int,
    on_end: Ended | None,
) -> Run:
    if shape.apart:
        return apart_loop(target, works, step or 1, extent, on_end, shape.seed + turn)
    if shape.rate is None:
        return closed_loop(target, works, step or 1, extent, on_end)
    offsets = arrivals(shape.rate, shape.burstiness, shape.seed + turn)
    return open_loop(target, works, offsets, extent, on_end)


def warm_up(target: BenchTarget, works: Iterator[Work], step: int | None, shape: Shape) -> None:
    """Runs requests that are not counted. If all of them fail, there is nothing to measure."""
    count = shape.warm_ups(step)
    if not count:
        return
    run = closed_loop(target, islice(works, count), min(step or 1, count), Extent(count))
    if run.results and all(result.failure for result in run.results):
        raise target.unusable(
            "every warm-up request failed",
            cause=run.results[0].failure,
            hint=target.advice,
        )


def turns(extent: Extent, least: int, targets: int) -> list[Extent]:
    """One run for a single target; several shorter ones of at least `least` requests, when targets alternate."""
    if targets == 1:
        return [extent]
    if extent.duration_s is not None:  # a turn below a second would be mostly start-up and tail
        count = max(2, min(TURNS, int(extent.duration_s)))
        return [Extent(duration_s=extent.duration_s / count)] * count
    assert extent.requests is not None
    count = max(1, min(TURNS, extent.requests // least))
    shares = [extent.requests // count + (index < extent.requests % count) for index in range(count)]
    return [Extent(share) for share in shares]


def summed(run: Run, gauge: Gauge, step: int | None, shape: Shape, name: str) -> LoadLevel:
    return level(
        run,
        concurrency=step,
        rate=shape.rate,
        burstiness=shape.burstiness if shape.rate is not None else None,
        percentiles=shape.percentiles,
        limits=dict(shape.limits),
        host_syncs_per_frame=gauge.syncs_per_frame,
        peak_memory_bytes=gauge.peak_bytes,
        variant=name or None,
    )
