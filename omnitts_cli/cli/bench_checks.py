"""Options of `omnitts bench` that contradict each other, refused before anything is opened."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from omnitts_cli.errors import UsageError
from omnitts_cli.settings.setting import fields_of

if TYPE_CHECKING:
    from omnitts_cli.settings.commands import Answer, Load, Server, What
    from omnitts_cli.settings.table import Machine


def refuse_contradictions(load: Load, what: What, server: Server, answer: Answer, machine: Machine) -> None:
    from omnitts_cli.bench import plot
    from omnitts_cli.bench import report as reports

    if load.rate is not None and load.concurrency is not None:
        raise UsageError(
            "-c and --rate exclude each other", hint="-c keeps requests in flight, --rate lets them arrive"
        )
    if load.rate is None and load.burstiness != 1.0:
        raise UsageError("--burstiness is about arrivals", hint="--rate 10 --burstiness 0.5")
    if load.requests is not None and load.duration is not None:
        raise UsageError("-n and --duration exclude each other", hint="leave one of them out")
    if answer.append and answer.save is None:
        raise UsageError("--append needs a file", hint="--save results.jsonl --append")
    if what.mode not in (None, "clone"):
        refuse_references(what)
    if server.url is not None:
        refuse_with_server(load, what, machine)
    else:
        refuse_without_server(server)
    if answer.save is not None:
        reports.check(Path(answer.save), "--save")
    if answer.plot is not None:
        plot.check(answer.plot)


def refuse_references(what: What) -> None:
    given = {"--ref-audio": what.ref_audio, "--ref-text": what.ref_text, "--ref-fresh": what.ref_fresh or None}
    for name, value in given.items():
        if value is not None:
            raise UsageError(f"{name} does nothing in --mode {what.mode}", hint="--mode clone")


def refuse_with_server(load: Load, what: What, machine: Machine) -> None:
    """What only an engine of this process can do."""
    given = {
        "--vs": what.vs,
        "--frames": load.frames,
        "--ref-audio": what.ref_audio,
        "--ref-text": what.ref_text,
        "--ref-fresh": what.ref_fresh or None,
        "--mode": what.mode,
        "--device": None if machine.device == "auto" else machine.device,
    }
    for name, value in given.items():
        if value is not None:
            raise UsageError(
                f"{name} and --url exclude each other", hint="""tell the server: --body '{"ref_text": "..."}'"""
            )


def refuse_without_server(server: Server) -> None:
    """What only says how to ask one."""
    group: type = type(server)
    for field in fields_of(group):
        if getattr(server, field.name) != field.default:
            raise UsageError(f"{field.setting.option} does nothing without --url", hint="--url http://127.0.0.1:8000")
