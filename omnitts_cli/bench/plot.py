"""Plot: latency and throughput against load, as a picture or as text."""

import os
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

from omnitts_cli.audio.target import put
from omnitts_cli.bench import report as reports
from omnitts_cli.bench.compare import named
from omnitts_cli.bench.report import Report
from omnitts_cli.bench.stats import LoadLevel
from omnitts_cli.errors import UsageError

SUFFIXES = (".png", ".svg", ".pdf")
BAR = 40


STYLE = "matplotlibrc"


def check(target: str) -> None:
    """Checks before measuring whether this plot can be drawn."""
    if target == "-":
        return
    if Path(target).suffix.lower() not in SUFFIXES:
        raise UsageError(f"--plot {target} must end in {', '.join(SUFFIXES)}", hint="--plot out.png   or   --plot -")
    reports.check(Path(target), "--plot")
    if os.path.lexists(STYLE):
        what = f"--plot {target}: matplotlib would read {STYLE} in this folder, which may be someone else's"
        raise UsageError(what, hint="start in another folder   or   --plot -   for the terminal")
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise UsageError(
            f"--plot {target} needs matplotlib, which is not installed",
            hint="pip install matplotlib   or   --plot -   for the terminal",
        ) from None


def draw(report: Report, path: Path) -> None:
    """Draws throughput above and latency below."""
    import matplotlib

    matplotlib.use("Agg")  # to a file, without a window
    from matplotlib import pyplot

    figure, (above, below) = pyplot.subplots(2, 1, sharex=True, figsize=(7, 7), layout="constrained")
    for variant, levels in by_variant(report).items():
        at = [load_of(level) for level in levels]
        above.plot(at, [level.audio_throughput for level in levels], marker="o", label=f"audio-s/s{variant}")
        for words, key, style in (("median", "median", "-"), ("p99", "p99", "--")):
            spreads = [("TTFP", [level.ttfp_ms for level in levels]), ("E2EL", [level.e2el_ms for level in levels])]
            for figure_name, values in spreads:
                heights = [value.get(key) for value in values]
                if any(height is not None for height in heights):
                    label = f"{figure_name} {words}{variant}"
                    below.plot(at, numbers(heights), style, marker="o", label=label)
    axes(above, below, report)
    drawn = BytesIO()
    figure.savefig(drawn, format=path.suffix[1:].lower())
    pyplot.close(figure)
    put(path, drawn.getvalue())


def axes(above: Any, below: Any, report: Report) -> None:
    above.set_title(f"{report.model} on {report.device or 'an unknown device'}")
    above.set_ylabel("audio seconds per second")
    below.set_ylabel("ms")
    below.set_yscale("log")
    below.set_xlabel("requests per second" if report.levels[0].rate is not None else "requests in flight")
    for one in (above, below):
        one.grid(alpha=0.3)
        one.legend(fontsize="small")


def numbers(values: Sequence[float | None]) -> list[float]:
    """Missing values leave a gap in the line."""
    return [float("nan") if value is None else value for value in values]


def load_of(level: LoadLevel) -> float:
    return float(level.rate if level.rate is not None else level.concurrency or 0)


def by_variant(report: Report) -> dict[str, list[LoadLevel]]:
    found: dict[str, list[LoadLevel]] = {}
    for level in report.levels:
        found.setdefault(f" ({level.variant})" if level.variant else "", []).append(level)
    return found


def in_letters(report: Report) -> str:
    """The same as text bars."""
    parts = [
        bars("audio-s/s", report, [level.audio_throughput for level in report.levels]),
        bars("TTFP median ms", report, [level.ttfp_ms.get("median") for level in report.levels]),
        bars("E2EL median ms", report, [level.e2el_ms.get("median") for level in report.levels]),
        bars("RTF median", report, [level.rtf.get("median") for level in report.levels]),
    ]
    return "\n\n".join(parts)


def bars(title: str, report: Report, values: Sequence[float | None]) -> str:
    most = max((value for value in values if value), default=1.0)
    names = [named(level) for level in report.levels]
    width = max(len(name) for name in names)
    rows = [f"{name:>{width}} {bar(value, most)}" for name, value in zip(names, values, strict=True)]
    return "\n".join([title, *rows])


def bar(value: float | None, most: float) -> str:
    if value is None:
        return "-"
    return f"{'█' * max(1, round(BAR * value / most)) if value else ''} {value:.4g}".lstrip()
