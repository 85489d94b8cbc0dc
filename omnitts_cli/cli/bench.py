"""omnitts bench: measure speed and latency, of a model on this machine or of a server."""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Self

from omnitts_cli.cli.console import console
from omnitts_cli.cli.declare import Opt, fields_of
from omnitts_cli.cli.options import Machine, Network, Speech, Telling
from omnitts_cli.cli.progress import style
from omnitts_cli.errors import InputError, PartialError, RegressionError, UsageError
from omnitts_cli.kinds import SWITCH, TEXT, Kind, number, one_of, whole
from omnitts_cli.settings import EMBEDDED
from omnitts_cli.text.language import LANGUAGES

if TYPE_CHECKING:
    from omnitts_cli.bench.job import Job, Speaker, Texts
    from omnitts_cli.bench.record import Heard
    from omnitts_cli.bench.report import Report
    from omnitts_cli.bench.server import Asking
    from omnitts_cli.bench.stats import Level

MODES = ("voice", "clone", "design")
LIMITS = ("ttfa", "audible", "e2el", "rtf", "gap", "stutters")
SECRET = re.compile(r"""((?:key|token|secret|password)["']?\s*[:=]\s*)("[^"]*"|[^\s,}]+)""", re.IGNORECASE)


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


def refuse_contradictions(load: Load, what: What, server: Server, answer: Answer, machine: Machine) -> None:
    """Before anything is opened."""
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
    for field in fields_of(Server):
        if getattr(server, field.name) != field.default:
            raise UsageError(f"{field.opt.name} does nothing without --url", hint="--url http://127.0.0.1:8000")


def job_of(
    load: Load, what: What, server: Server, answer: Answer, machine: Machine, network: Network, telling: Telling
) -> Job:
    """Everything that was typed, in the words of the bench."""
    from omnitts_cli.bench.campaign import Shape
    from omnitts_cli.bench.job import Job, slot_seconds
    from omnitts_cli.bench.keep import Keeper
    from omnitts_cli.settings import EngineSettings

    shape = Shape(
        levels=load.concurrency or (1, 4, 10),
        rate=load.rate,
        burstiness=load.burstiness,
        requests=load.requests,
        duration_s=load.duration,
        warmup=load.warmup,
        percentiles=answer.percentiles,
        limits=answer.goodput or {},
        seed=load.seed,
    )
    speaker = speaker_of(what)
    auto_slots = None if load.rate is not None else max(shape.levels)
    settings = EngineSettings(
        device=machine.device,
        dtype=machine.dtype,
        slots=auto_slots if machine.batch_size == "auto" else int(machine.batch_size),
        seconds=slot_seconds(load.frames, speaker.reference_s),
        first_chunk=machine.first_chunk,
        chunk=machine.chunk,
        threads=machine.threads,
        offline=network.offline,
    )
    return Job(
        model=what.model or EMBEDDED,
        settings=settings,
        shape=shape,
        speaker=speaker,
        texts=texts_of(what),
        command=shown_command(sys.argv),
        frames=load.frames,
        versus=what.vs,
        url=server.url,
        asking=asking_of(what, server) if server.url else None,
        keeper=Keeper(Path(answer.save_audio)) if answer.save_audio else None,
        fetched=fetching(telling),
    )


def speaker_of(what: What) -> Speaker:
    from omnitts_cli.bench.job import Speaker

    clip, rate = None, 24_000
    if what.ref_audio is not None:
        from omnitts_cli.audio.read import read_clip

        recording = read_clip(what.ref_audio)
        clip, rate = recording.sound, recording.rate
    clones = what.ref_audio is not None or what.ref_text is not None or what.ref_fresh
    mode = "clone" if what.mode is None and clones else what.mode
    return Speaker(mode, what.voice, what.instruct, clip, rate, what.ref_text, what.ref_fresh)


def texts_of(what: What) -> Texts:
    from omnitts_cli.bench.job import Texts
    from omnitts_cli.bench.workload import read_texts

    language = LANGUAGES.get(what.lang)
    given = tuple(read_texts(Path(what.texts), language)) if what.texts else ()
    return Texts(given, what.length, language)  # type: ignore[arg-type]


def asking_of(what: What, server: Server) -> Asking:
    from omnitts_cli.bench.server import Asking

    return Asking(
        model=what.model or "default",
        voice=what.voice,
        sound=server.wire,
        stream=server.stream,
        sample_rate=server.wire_rate,
        api_key=key_in(server.api_key_file) if server.api_key_file else None,
        body=fields_in(server.body) if server.body else {},
    )


def key_in(path: str) -> str:
    try:
        key = Path(path).read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"the key file {path} cannot be read", cause=getattr(error, "strerror", None)) from None
    if not key or not key.isascii() or not key.isprintable():
        raise InputError(f"the key file {path} holds no key", hint="one line of plain letters and digits")
    return key


def fields_in(text: str) -> dict[str, Any]:
    try:
        table = json.loads(text)
    except ValueError as error:
        raise UsageError("--body is no JSON", cause=str(error), hint="""--body '{"language": "English"}'""") from None
    if not isinstance(table, dict):
        raise UsageError("--body is no JSON object", hint="""--body '{"language": "English"}'""")
    return table


def shown_command(arguments: list[str]) -> str:
    """The command line for the report, without what looks like a secret."""
    return SECRET.sub(r"\1***", shlex.join(["omnitts", *arguments[1:]]))


def fetching(telling: Telling) -> Callable[[Any], None]:
    """What is said while a model is fetched."""
    from omnitts_cli.cli.models import tell
    from omnitts_cli.cli.progress import Progress

    bar = Progress("fetching", telling.progress)

    def report(news: Any) -> None:
        tell(bar, news)
        if news.done_bytes >= news.total_bytes:
            bar.clear()

    return report


class Watcher:
    """Progress on stderr: a bar on a terminal, a line per level elsewhere, JSON for programs."""

    def __init__(self, job: Job, wanted: str) -> None:
        planned = job.shape.planned()
        self._planned = planned * (2 if job.versus else 1) if planned else None
        self._style, self._done, self._bar = style(wanted), 0, None

    def __enter__(self) -> Self:
        if self._style == "bar":
            from tqdm import tqdm

            self._bar = tqdm(
                total=self._planned, unit="req", desc="bench", leave=False, file=sys.stderr, dynamic_ncols=True
            )
        return self

    def __exit__(self, *exc: object) -> None:
        if self._bar is not None:
            self._bar.close()

    def heard(self, heard: Heard) -> None:
        """A request has ended."""
        self._done += 1
        if self._bar is not None:
            self._bar.update()
        if self._style == "json":
            event = {"event": "progress", "done": self._done, "of": self._planned, "failure": heard.failure}
            console.event(json.dumps(event))

    def known(self, level: Level) -> None:
        """A level is finished."""
        from omnitts_cli.bench.show import one_line

        if self._bar is not None:
            self._bar.set_postfix_str(one_line(level))
        elif self._style == "plain":
            console.note(one_line(level))


def present(report: Report, answer: Answer) -> None:
    """The report in every form that was asked for."""
    from omnitts_cli.bench import plot, show
    from omnitts_cli.bench import report as reports

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
    """What people read, on stdout only where nothing but people reads it."""
    if console.json or answer.report_format in ("csv", "json"):
        console.note(text)
    else:
        console.result("\n" + text)


def judge(report: Report, before: Report, answer: Answer) -> None:
    """--compare."""
    from omnitts_cli.bench import show
    from omnitts_cli.bench.compare import compare

    found = compare(report, before, answer.tolerance)
    beside(show.comparison(found, answer.tolerance), answer)
    if found.regressions:
        more = f", and {len(found.regressions) - 1} more" if len(found.regressions) > 1 else ""
        raise RegressionError(
            f"worse than {answer.compare} by more than {answer.tolerance:g} %",
            cause=found.regressions[0] + more,
            hint="measure again on an idle machine, or allow more: --tolerance",
        )


def refuse_failures(report: Report) -> None:
    """Requests that failed make the command fail, after everything was shown."""
    failed = sum(level.failed for level in report.levels)
    if failed:
        asked = failed + sum(level.requests for level in report.levels)
        reasons = {reason for level in report.levels for reason in level.failures}
        raise PartialError(f"{failed} of {asked} requests failed", cause="; ".join(sorted(reasons))[:300])
