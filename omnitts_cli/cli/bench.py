"""omnitts bench: measure speed and latency, of a model on this machine or of a server."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from omnitts_cli.cli.bench_checks import refuse_contradictions
from omnitts_cli.cli.bench_job import job_of
from omnitts_cli.cli.bench_shown import Watcher, judge, present, refuse_failures
from omnitts_cli.settings.commands import Answer, Load, Server, What
from omnitts_cli.settings.table import Machine, Messages, Network

if TYPE_CHECKING:
    from omnitts_cli.bench.report import Report


def bench(
    load: Load, what: What, server: Server, answer: Answer, machine: Machine, network: Network, messages: Messages
) -> None:
    """Measure speed and latency.

    \b
    omnitts bench                                    closed loop at 1, 4 and 10 requests in flight
    omnitts bench -d cuda -c 1,8,64 --save new.json --compare old.json --tolerance 5
    omnitts bench --rate 10 --duration 60            requests that arrive by chance
    omnitts bench --url http://127.0.0.1:8000        any server that speaks OpenAI's /v1/audio/speech
    """
    from omnitts_cli.bench import report as reports

    refuse_contradictions(load, what, server, answer, machine)
    before = reports.read(Path(answer.compare)) if answer.compare else None
    job = job_of(load, what, server, answer, machine, network, messages)
    with Watcher(job, messages.progress) as watcher:

        def known(report: Report) -> None:
            watcher.known(report.levels[-1])
            if answer.save and not answer.append:  # what is measured outlives a run that is cut short
                reports.save(Path(answer.save), report)

        report = job.run(watcher.heard, known)
    present(report, answer)
    if before is not None:
        judge(report, before, answer)
    refuse_failures(report)
