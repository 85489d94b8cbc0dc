"""omnitts bench: measure speed and latency, of a model on this machine or of a server."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from omnitts_cli.cli.bench_checks import refuse_contradictions
from omnitts_cli.cli.bench_job import job_of
from omnitts_cli.cli.bench_shown import Watcher, judge, present, refuse_failures
from omnitts_cli.cli.declare import Opt, fields_of
from omnitts_cli.cli.options import Machine, Network, Speech, Telling
from omnitts_cli.kinds import SWITCH, TEXT, Kind, number, one_of, whole
from omnitts_cli.text.language import LANGUAGES

if TYPE_CHECKING:
    from omnitts_cli.bench.report import Report

MODES = ("voice", "clone", "design")
LIMITS = ("ttfa", "audible", "e2el", "rtf", "gap", "stutters")


def shared(name: str) -> Opt:
    """An option of the commands that speak, as it is declared there."""
    return next(field.opt for field in fields_of(Speech) if field.name == name)


def numbers(kind: Kind, words: str) -> Kind:
    """Several, with commas between them; each once, ascending."""

    def parse(text: str) -> tuple[Any, ...]:
        return tuple(sorted({kind.read(part) for part in text.split(",")}))

    return Kind(words, parse, lambda values: bool(values) and all(kind.accepts(value) for value in values))


def parse_limits(text: str) -> dict[str, float]:
    pairs = [part.partition(":") for part in text.split(",")]
    if any(name not in LIMITS for name, _, _ in pairs):
        raise ValueError(text)
    return {name: number(0, 1e9).read(value) for name, _, value in pairs}


LEVELS = numbers(whole(1, 1024), "whole numbers from 1 to 1024 with commas between")
PERCENTILES = numbers(number(0, 100), "numbers from 0 to 100 with commas between")
GOODPUT = Kind("limits such as ttfa:300,rtf:1", parse_limits, lambda value: isinstance(value, dict))


@dataclass(frozen=True)
class Load:
    """How much is asked, and how fast."""

    concurrency: Annotated[
        tuple[int, ...] | None,
        Opt("-c --concurrency", LEVELS, "Requests in flight, one level after another.", "LIST", shown="1,4,10"),
    ] = None
    rate: Annotated[
        float | None, Opt("--rate", number(0.001, 100_000), "Requests per second instead, waiting for none.", "R")
    ] = None
    burstiness: Annotated[
        float, Opt("--burstiness", number(0.01, 1000), "With --rate: 1 is Poisson, less comes in bursts.", "B")
    ] = 1.0
    requests: Annotated[
        int | None,
        Opt("-n --requests", whole(1, 1_000_000), "Per level.", "N", shown="4 x level, at least 8"),
    ] = None
    duration: Annotated[
        float | None, Opt("--duration", number(0.1, 86_400), "Instead: send for so long, per level.", "S")
    ] = None
    warmup: Annotated[
        int | None,
        Opt("--warmup", whole(0, 10_000), "Before a level, not counted.", "N", shown="one round, at least 2"),
    ] = None
    frames: Annotated[
        int | None,
        Opt("--frames", whole(1, 20_000), "Exactly so many frames each, whatever the end code says.", "N"),
    ] = None
    seed: Annotated[int, Opt("--seed", whole(0, 2**62), "Same seed, same requests.", "N", shown="0")] = 0


@dataclass(frozen=True)
class What:
    """Who speaks what."""

    model: Annotated[str | None, shared("model")] = None
    mode: Annotated[
        str | None, Opt("--mode", one_of(*MODES), "What the model is asked for.", shown="the first it can")
    ] = None
    voice: Annotated[str | None, Opt("-v --voice", TEXT, "A voice of the model.", "NAME", shown="the first")] = None
    instruct: Annotated[str | None, shared("instruct")] = None
    ref_audio: Annotated[
        str | None, Opt("-r --ref-audio", TEXT, "Clip for --mode clone.", "PATH", shown="6 s of made-up tones")
    ] = None
    ref_text: Annotated[
        str | None, Opt("--ref-text", TEXT, "Its words: clone with the clip's frames, not the voice alone.", "TEXT")
    ] = None
    ref_fresh: Annotated[bool, Opt("--ref-fresh", SWITCH, "Hear the clip anew for each request.")] = False
    lang: Annotated[
        str, Opt("-l --lang", one_of("auto", *LANGUAGES), "Language of the texts.", "CODE", shown="all the model has")
    ] = "auto"
    texts: Annotated[str | None, Opt("--texts", TEXT, "Texts, one per line.", "FILE")] = None
    length: Annotated[str, Opt("--length", one_of("short", "medium", "long", "mix"), "Of the built-in texts.")] = "mix"
    vs: Annotated[
        str | None,
        Opt(
            "--vs", one_of("eager", "cpu", "nobuckets"), "In turn with it, the same uncaptured, on the CPU, or padded."
        ),
    ] = None


@dataclass(frozen=True)
class Server:
    """A server instead of a model of this machine."""

    url: Annotated[str | None, Opt("--url", TEXT, "Any that speaks OpenAI's /v1/audio/speech.", "URL")] = None
    api_key_file: Annotated[str | None, Opt("--api-key-file", TEXT, "Its key is in this file.", "PATH")] = None
    stream: Annotated[bool, Opt("--stream/--no-stream", SWITCH, "Ask for sound as it is made.")] = True
    wire: Annotated[str, Opt("--wire", one_of("pcm", "wav"), "What the sound comes in.")] = "pcm"
    wire_rate: Annotated[int, Opt("--wire-rate", whole(4000, 384_000), "Of pcm that does not say it.", "HZ")] = 24_000
    body: Annotated[str | None, Opt("--body", TEXT, "More fields of the request.", "JSON")] = None


@dataclass(frozen=True)
class Answer:
    """What is done with the figures."""

    percentiles: Annotated[
        tuple[float, ...], Opt("--percentiles", PERCENTILES, "To show.", "LIST", shown="50,90,99")
    ] = (50, 90, 99)
    goodput: Annotated[
        dict[str, float] | None,
        Opt("--goodput", GOODPUT, "Share of requests within: ttfa, audible, e2el, gap in ms; rtf; stutters.", "LIMITS"),
    ] = None
    save: Annotated[str | None, Opt("--save", TEXT, "Keep the report as JSON.", "FILE")] = None
    append: Annotated[bool, Opt("--append", SWITCH, "Add it to that file as one line.")] = False
    compare: Annotated[str | None, Opt("--compare", TEXT, "Against a kept report; worse is exit 9.", "OLD")] = None
    tolerance: Annotated[float, Opt("--tolerance", number(0, 1000), "What is not yet worse.", "PERCENT")] = 5.0
    report_format: Annotated[str, Opt("--format", one_of("table", "md", "csv", "json"), "Of the answer.")] = "table"
    plot: Annotated[str | None, Opt("--plot", TEXT, "Draw latency and throughput; - in the terminal.", "PATH|-")] = None
    save_audio: Annotated[str | None, Opt("--save-audio", TEXT, "Keep the sound that was measured.", "DIR")] = None


GROUPS = (Load, What, Server, Answer)


def bench(
    load: Load, what: What, server: Server, answer: Answer, machine: Machine, network: Network, telling: Telling
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
    job = job_of(load, what, server, answer, machine, network, telling)
    with Watcher(job, telling.progress) as watcher:

        def known(report: Report) -> None:
            watcher.known(report.levels[-1])
            if answer.save and not answer.append:  # what is measured outlives a run that is cut short
                reports.save(Path(answer.save), report)

        report = job.run(watcher.heard, known)
    present(report, answer)
    if before is not None:
        judge(report, before, answer)
    refuse_failures(report)
