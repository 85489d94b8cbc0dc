"""Show: a report as text (a block per level), Markdown or CSV."""

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from omnitts_cli.bench.compare import Comparison, named
from omnitts_cli.bench.report import Report
from omnitts_cli.bench.stats import LoadLevel, Spread

WIDTH = 58
VOCABULARY = (
    "TTFP: from the request to the first playable packet. audible: to the first sample above -60 dBFS.",
    "RTF: end-to-end time of a request / its seconds of audio; less is better. audio-s/s: seconds of audio per second.",
    "gap: longest pause between packets. underruns: times a player with a 200 ms buffer would run dry.",
    "late: streams whose player, started with the first packet, would run dry.",
    "queue: time spent waiting in the client; not included in the other figures.",
    "Successful requests only; warm-up is not counted.",
)


def number(value: float | None, digits: int = 2) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def one_line(level: LoadLevel) -> str:
    """A level in one line, for progress."""
    failed = f", {level.failed} failed" if level.failed else ""
    count = f"{level.requests} request{'s' * (level.requests != 1)}{failed}"
    return (
        f"{named(level)}: {count}, {number(level.audio_throughput)} audio-s/s, "
        f"RTF {number(level.rtf.get('median'), 3)}, TTFP {number(level.ttfp_ms.get('median'), 1)} ms"
    )


def table(report: Report) -> str:
    """A block per level, in the usual layout of serving benchmarks."""
    blocks = ["\n".join(block(level)) for level in report.levels]
    return "\n\n".join([*blocks, *([ratio_lines(report)] if report.ratios else []), "\n".join(VOCABULARY)])


def block(level: LoadLevel) -> Iterator[str]:
    yield f" Speech benchmark: {named(level)} ".center(WIDTH, "=")
    yield from lines(counted(level))
    for title, rows in spreads(level):
        yield f" {title} ".center(WIDTH, "-")
        yield from lines(rows)
    yield " Continuity and device ".center(WIDTH, "-")
    yield from lines(felt(level))
    yield "=" * WIDTH


def lines(rows: Sequence[tuple[str, str]]) -> Iterator[str]:
    for words, value in rows:
        yield f"{words + ':':<40}{value:>{WIDTH - 40}}"


def counted(level: LoadLevel) -> list[tuple[str, str]]:
    rows = [("Successful requests", str(level.requests)), ("Failed requests", str(level.failed))]
    rows += [(f"  {reason[:30]}", str(count)) for reason, count in level.failures.items()]
    if level.rate is not None:
        rows.append(("Request rate (req/s)", number(level.rate)))
        if level.burstiness not in (None, 1.0):
            rows.append(("Burstiness", number(level.burstiness)))
    else:
        rows.append(("Concurrency", str(level.concurrency)))
    return [
        *rows,
        ("Maximum requests in flight", str(level.most_in_flight)),
        ("Benchmark duration (s)", number(level.duration_s)),
        ("Request throughput (req/s)", number(level.request_throughput)),
        ("Total audio (s)", number(level.audio_s)),
        ("Audio throughput (audio-s/s)", number(level.audio_throughput)),
        *([("Frames", str(level.frames))] if level.frames is not None else []),
        *([("Goodput (share within limits)", number(level.goodput))] if level.goodput is not None else []),
    ]


def spreads(level: LoadLevel) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    yield "End-to-end latency", spread_rows("E2EL (ms)", level.e2el_ms)
    yield "Time to first packet", spread_rows("TTFP (ms)", level.ttfp_ms)
    yield "Audible first sound", spread_rows("audible (ms)", level.audible_ms)
    yield "Real-time factor (less is better)", spread_rows("RTF", level.rtf, 4)


def spread_rows(unit: str, spread: Spread, digits: int = 2) -> list[tuple[str, str]]:
    names = {key: key.capitalize() for key in spread}
    return [(f"{names[key]} {unit}", number(value, digits)) for key, value in spread.items()]


def felt(level: LoadLevel) -> list[tuple[str, str]]:
    memory = level.peak_memory_bytes
    return [
        ("Longest gap (ms)", number(level.gap_ms_max)),
        ("Underruns", str(level.underruns)),
        ("Late streams", str(level.late)),
        ("Guard hits", str(level.guard_hits)),
        *([("Silent results", str(level.silent))] if level.silent else []),
        ("Median leading silence (ms)", number(level.onset_ms.get("median"))),
        ("P99 client queue (ms)", number(level.client_queue_ms.get("p99"))),
        ("Host synchronisations per frame", number(level.host_syncs_per_frame, 4)),
        ("Peak memory so far (GiB)", number(None if memory is None else memory / 2**30)),
    ]


def ratio_lines(report: Report) -> str:
    rows = []
    for ratio in report.ratios:
        loop = f"c{ratio['concurrency']}" if ratio["concurrency"] is not None else f"{ratio['rate']:g}/s"
        figures = [("RTF", "rtf"), ("E2EL", "e2el"), ("TTFP", "ttfp"), ("time per audio-s", "seconds_per_audio_s")]
        parts = [f"{words} {number(ratio[name])} x" for words, name in figures]
        rows.append(f"{ratio['variant']} against this, {loop}: " + ", ".join(parts))
    return "\n".join(rows)


HEAD = (
    "load", "failed", "E2EL mean / med / p99 ms", "req/s", "audio s", "audio-s/s", "TTFP mean / med / p99 ms",
    "audible p50 / p99 ms", "RTF mean / med / p99", "underruns", "gap ms", "guard", "GiB",
)  # fmt: skip


def cells(level: LoadLevel) -> list[str]:
    memory = level.peak_memory_bytes
    return [
        named(level),
        f"{level.failed} of {level.requests + level.failed}",
        three(level.e2el_ms, 0),
        number(level.request_throughput),
        number(level.audio_s, 1),
        number(level.audio_throughput),
        three(level.ttfp_ms, 1),
        f"{number(level.audible_ms.get('median'), 1)} / {number(level.audible_ms.get('p99'), 1)}",
        three(level.rtf, 3),
        str(level.underruns),
        number(level.gap_ms_max, 0),
        str(level.guard_hits),
        number(None if memory is None else memory / 2**30, 1),
    ]


def three(spread: Spread, digits: int) -> str:
    return " / ".join(number(spread.get(key), digits) for key in ("mean", "median", "p99"))


def markdown(report: Report) -> str:
    """One row per level, in the columns of the published tables."""
    rows = [HEAD, ["---"] * len(HEAD), *(cells(level) for level in report.levels)]
    shown = "\n".join("| " + " | ".join(row) + " |" for row in rows)
    about = f"{report.model}, {report.dtype or 'dtype unknown'}, {report.device or 'device unknown'}"
    parts = [about, shown, *([ratio_lines(report)] if report.ratios else []), *VOCABULARY]
    return "\n\n".join(parts)


def flat(level: LoadLevel) -> dict[str, Any]:
    """A level with flat names: e2el_ms_mean and so on."""
    row: dict[str, Any] = {}
    for name, value in asdict(level).items():
        if name == "failures":
            row[name] = "; ".join(f"{reason} x{count}" for reason, count in value.items())
        elif isinstance(value, dict):
            row |= {f"{name}_{key}": part for key, part in value.items()}
        else:
            row[name] = value
    return row


def comma_separated(report: Report) -> str:
    about = {"model": report.model, "device": report.device, "dtype": report.dtype, "created": report.created}
    rows = [about | flat(level) for level in report.levels]
    text = io.StringIO()
    names = list(dict.fromkeys(name for row in rows for name in row))
    writer = csv.DictWriter(text, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().rstrip("\n")


def comparison(found: Comparison, tolerance_percent: float) -> str:
    """Old and new, one line per figure."""
    rows = [("load", "figure", "then", "now", "change")]
    rows += [
        (c.level, c.figure, f"{c.before:.4g}", f"{c.now:.4g}", mark(c.percent, c.worse_percent, tolerance_percent))
        for c in found.changes
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(5)]
    shown = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join([*shown, *(f"differs: {words}" for words in found.differences)])


def mark(percent: float, worse_percent: float, tolerance_percent: float) -> str:
    word = "worse" if worse_percent > tolerance_percent else "better" if worse_percent < -tolerance_percent else ""
    return f"{percent:+.1f} % {word}".rstrip()
