"""What `omnitts bench` shows while it measures and afterwards, and what makes it fail."""

import json
from pathlib import Path
from typing import Self

from omnitts_cli.bench import plot, show
from omnitts_cli.bench import report as reports
from omnitts_cli.bench.compare import compare
from omnitts_cli.bench.job import BenchJob
from omnitts_cli.bench.record import Result
from omnitts_cli.bench.report import Report
from omnitts_cli.bench.show import one_line
from omnitts_cli.bench.stats import LoadLevel
from omnitts_cli.errors import PartialError, RegressionError
from omnitts_cli.settings.commands import Answer
from omnitts_cli.terminal.console import console
from omnitts_cli.terminal.progress import Progress


class Watcher:
    """Progress on stderr: a bar on a terminal, a line per level elsewhere, or JSON."""

    def __init__(self, job: BenchJob, wanted: str) -> None:
        planned = job.shape.planned()
        self._planned = planned * (2 if job.versus else 1) if planned else None
        self._line, self._done, self._level = Progress("bench", wanted), 0, ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._line.clear()

    def ended(self, result: Result) -> None:
        """A request has ended."""
        self._done += 1
        if self._line.style == "json":
            event = {"event": "progress", "done": self._done, "of": self._planned, "failure": result.failure}
            console.event(json.dumps(event))
        elif self._line.style == "bar":
            share = self._done / self._planned if self._planned else None
            self._line.update(share, f"{self._done} requests {self._level}".rstrip())

    def known(self, level: LoadLevel) -> None:
        """A level is finished."""
        self._level = one_line(level)
        if self._line.style == "plain":
            console.note(self._level)


def present(report: Report, answer: Answer) -> None:
    """Prints and saves the report in the requested forms."""
    if answer.save:
        reports.save(Path(answer.save), report, append=answer.append)
    console.record(status="ok", **report.to_json())
    forms = {"table": show.table, "md": show.markdown, "csv": show.comma_separated, "json": reports.text}
    console.result(forms[answer.report_format](report))
    if answer.plot == "-":
        beside(plot.in_letters(report), answer)
    elif answer.plot is not None:
        plot.draw(report, Path(answer.plot))


def beside(text: str, answer: Answer) -> None:
    """Text for people: on stdout, unless that carries JSON or CSV."""
    if console.json or answer.report_format in ("csv", "json"):
        console.note(text)
    else:
        console.result("\n" + text)


def judge(report: Report, before: Report, answer: Answer) -> None:
    """--compare."""
    found = compare(report, before, answer.tolerance)
    beside(show.comparison(found, answer.tolerance), answer)
    if found.regressions:
        more = f", and {len(found.regressions) - 1} more" if len(found.regressions) > 1 else ""
        raise RegressionError(
            f"worse than {answer.compare} by more than {answer.tolerance:g} %",
            cause=found.regressions[0] + more,
            hint="--tolerance PERCENT   allows more; or measure again on an idle machine",
        )


def refuse_failures(report: Report) -> None:
    """Failed requests fail the command, after everything has been printed."""
    failed = sum(level.failed for level in report.levels)
    if failed:
        asked = failed + sum(level.requests for level in report.levels)
        reasons = {reason for level in report.levels for reason in level.failures}
        raise PartialError(f"{failed} of {asked} requests failed", cause="; ".join(sorted(reasons))[:300])
