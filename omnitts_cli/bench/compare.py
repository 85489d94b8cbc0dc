"""Compare: a report against an older one, level by level, and what got worse beyond a tolerance."""

from collections.abc import Callable
from dataclasses import dataclass

from omnitts_cli.bench.report import Report
from omnitts_cli.bench.stats import LoadLevel, Spread
from omnitts_cli.errors import InputError

Value = Callable[[LoadLevel], float | None]


def middle(spread: Spread) -> float | None:
    """The median; the mean where an old file has no median."""
    median = spread.get("median")
    return spread.get("mean") if median is None else median


COMPARED: dict[str, tuple[Value, bool]] = {
    "audio-s/s": (lambda level: level.audio_throughput, False),
    "req/s": (lambda level: level.request_throughput, False),
    "E2EL ms": (lambda level: middle(level.e2el_ms), True),
    "TTFP ms": (lambda level: middle(level.ttfp_ms), True),
    "audible ms": (lambda level: middle(level.audible_ms), True),
    "RTF": (lambda level: middle(level.rtf), True),
}
"""The figures that are compared, and whether lower is better. Tail latencies are too noisy to fail on."""


@dataclass(frozen=True)
class Change:
    """One figure of one level, then and now."""

    level: str
    figure: str
    before: float
    now: float
    less_is_better: bool

    @property
    def percent(self) -> float:
        return 100 * (self.now - self.before) / self.before

    @property
    def worse_percent(self) -> float:
        """How much worse; negative is better."""
        return self.percent if self.less_is_better else -self.percent


@dataclass(frozen=True)
class Comparison:
    changes: list[Change]
    regressions: list[str]  # in words, the worst first
    differences: list[str]  # of the circumstances


def named(level: LoadLevel) -> str:
    loop = f"c{level.concurrency}" if level.concurrency is not None else f"{level.rate:g}/s"
    return f"{loop} {level.variant}" if level.variant else loop


def compare(now: Report, before: Report, tolerance_percent: float) -> Comparison:
    """The levels that both reports have; an error if there is none."""
    old = {named(level): level for level in before.levels}
    pairs = [(named(level), level, old[named(level)]) for level in now.levels if named(level) in old]
    if not pairs:
        raise InputError(
            f"nothing to compare: the old report has {', '.join(old) or 'no levels'}",
            cause=f"this one has {', '.join(named(level) for level in now.levels)}",
            hint="measure the same levels: use the same -c or --rate",
        )
    changes = [change for name, level, its in pairs for change in changes_of(name, level, its)]
    worse = sorted((c for c in changes if c.worse_percent > tolerance_percent), key=lambda c: -c.worse_percent)
    regressions = [
        f"{name}: {level.failed} requests failed, then {its.failed}"
        for name, level, its in pairs
        if level.failed > its.failed
    ]
    regressions += [f"{c.level}: {c.figure} {c.before:.4g} -> {c.now:.4g} ({c.percent:+.1f} %)" for c in worse]
    return Comparison(changes, regressions, differences(now, before))


def changes_of(name: str, level: LoadLevel, its: LoadLevel) -> list[Change]:
    found = []
    for figure, (value, less_is_better) in COMPARED.items():
        before, now = value(its), value(level)
        if before and now is not None:  # an old file has 0 for what was not measured
            found.append(Change(name, figure, before, now, less_is_better))
    return found


def differences(now: Report, before: Report) -> list[str]:
    """Conditions that differ, which make a comparison unreliable."""
    found = []
    for name in ("model", "model_sha256", "device", "dtype"):
        mine, its = getattr(now, name), getattr(before, name)
        if mine != its and mine is not None and its is not None:
            found.append(f"{name} was {its}, is {mine}")
    for name in sorted({*now.workload, *before.workload}):
        mine, its = now.workload.get(name), before.workload.get(name)
        if mine != its and mine is not None and its is not None:
            found.append(f"{name} of the workload was {its}, is {mine}")
    return found
