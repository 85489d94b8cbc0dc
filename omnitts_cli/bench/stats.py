"""LoadLevel: the results of one load. Times are of successful requests; failed ones are counted."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from omnitts_cli.bench.load import Run
from omnitts_cli.bench.record import Result

PERCENTILES = (50.0, 90.0, 99.0)
ALWAYS = (90.0, 95.0, 99.0)
"""Percentiles in every file, besides mean and median."""

Spread = dict[str, float | None]
"""mean, median, p90, p95, p99 and other requested percentiles; None if nothing was measured."""


@dataclass
class LoadLevel:
    """One row of the report, with the names of the JSON file."""

    concurrency: int | None  # requests in flight, or
    rate: float | None  # requests per second
    requests: int
    failed: int
    duration_s: float
    request_throughput: float
    audio_s: float
    audio_throughput: float  # seconds of audio per second
    frames: int | None
    e2el_ms: Spread
    ttfp_ms: Spread
    audible_ms: Spread
    rtf: Spread
    underruns: int
    gap_ms_max: float
    guard_hits: int
    host_syncs_per_frame: float | None = None
    peak_memory_bytes: int | None = None
    onset_ms: Spread = field(default_factory=dict)  # leading silence
    client_queue_ms: Spread = field(default_factory=dict)  # waiting time in the client, not in other figures
    most_in_flight: int = 0
    silent: int = 0  # requests that succeeded without one audible sample
    goodput: float | None = None  # share of all requests that met every limit
    failures: dict[str, int] = field(default_factory=dict)  # reasons and counts
    burstiness: float | None = None
    variant: str | None = None
    late: int = 0  # streams that left a player without sound which starts with the first packet


def spread(values: Iterable[float | None], percentiles: Sequence[float] = PERCENTILES) -> Spread:
    """Mean, median and percentiles, with linear interpolation."""
    known = [value for value in values if value is not None]
    ranks = sorted({*percentiles, *ALWAYS} - {50.0})
    if not known:
        return {"mean": None, "median": None, **{f"p{rank:g}": None for rank in ranks}}
    array = np.asarray(known)
    found: Spread = {"mean": float(array.mean()), "median": float(np.median(array))}
    return found | {f"p{rank:g}": float(np.percentile(array, rank)) for rank in ranks}


def in_ms(seconds: float | None) -> float | None:
    return None if seconds is None else seconds * 1000


def level(
    run: Run,
    *,
    concurrency: int | None = None,
    rate: float | None = None,
    percentiles: Sequence[float] = PERCENTILES,
    limits: dict[str, float] | None = None,
    **more: Any,
) -> LoadLevel:
    """The results of a run."""
    good = [result for result in run.results if result.failure is None]
    meters = [result.meter for result in good]
    audio_s = sum(meter.audio_s for meter in meters) if run.heard_s is None else run.heard_s
    frames = [result.frames for result in good]
    known = [count for count in frames if count is not None]
    return LoadLevel(
        concurrency=concurrency,
        rate=rate,
        requests=len(good),
        failed=len(run.results) - len(good),
        duration_s=run.duration_s,
        request_throughput=len(good) / run.duration_s if run.duration_s else 0.0,
        audio_s=audio_s,
        audio_throughput=audio_s / run.duration_s if run.duration_s else 0.0,
        frames=sum(known) if len(known) == len(frames) else None,
        e2el_ms=spread((in_ms(meter.wall_s) for meter in meters), percentiles),
        ttfp_ms=spread((in_ms(meter.first_s) for meter in meters), percentiles),
        audible_ms=spread((in_ms(meter.audible_s) for meter in meters), percentiles),
        rtf=spread((meter.rtf for meter in meters), percentiles),
        underruns=sum(meter.underruns() for meter in meters),
        late=sum(meter.underruns(0.0) > 0 for meter in meters),
        gap_ms_max=max((meter.gap_s for meter in meters), default=0.0) * 1000,
        guard_hits=sum(result.guard_hit for result in good),
        onset_ms=spread((in_ms(meter.onset_s) for meter in meters), percentiles),
        client_queue_ms=spread((in_ms(result.queue_s) for result in run.results), percentiles),
        most_in_flight=run.most_in_flight,
        silent=sum(meter.audible is None for meter in meters),
        goodput=goodput(run.results, limits) if limits else None,
        failures=dict(Counter(result.failure for result in run.results if result.failure)),
        **more,
    )


LIMITS = {
    "ttfp": lambda result: in_ms(result.meter.first_s),
    "audible": lambda result: in_ms(result.meter.audible_s),
    "e2el": lambda result: in_ms(result.meter.wall_s),
    "rtf": lambda result: result.meter.rtf,
    "gap": lambda result: in_ms(result.meter.gap_s),
    "stutters": lambda result: float(result.meter.underruns()),
}
"""The figures that `--goodput` can limit: milliseconds; a plain number for rtf and stutters."""


def goodput(results: Sequence[Result], limits: dict[str, float]) -> float:
    """The share of all requests, including failed ones, within all limits."""

    def meets(one: Result) -> bool:
        values = {name: LIMITS[name](one) for name in limits}
        return one.failure is None and all(v is not None and v <= limits[name] for name, v in values.items())

    return sum(meets(one) for one in results) / len(results) if results else 0.0
