"""omnitts bench: measure speed and latency, of a model on this machine or of a server."""

import json
import re
import shlex
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from omnitts_cli import files
from omnitts_cli.audio.read import read_clip
from omnitts_cli.bench import plot
from omnitts_cli.bench import report as reports
from omnitts_cli.bench.answers import AnswerWorkload, lines, measured
from omnitts_cli.bench.campaign import Shape
from omnitts_cli.bench.job import BenchJob, BenchTexts, BenchVoice, slot_seconds
from omnitts_cli.bench.keep import Keeper
from omnitts_cli.bench.load import LEAST_ROUNDS
from omnitts_cli.bench.present import Watcher, judge, present, refuse_failures
from omnitts_cli.bench.report import Report
from omnitts_cli.bench.server import Asking
from omnitts_cli.bench.workload import read_texts
from omnitts_cli.cli.job import ModelOpener
from omnitts_cli.cli.models import tell
from omnitts_cli.errors import InputError, UsageError
from omnitts_cli.parse import ParseError, json_object
from omnitts_cli.settings.commands import Answer, Lengths, Load, Server, What
from omnitts_cli.settings.engine import EngineSettings
from omnitts_cli.settings.environment import API_KEY, EMBEDDED, variable
from omnitts_cli.settings.setting import fields_of
from omnitts_cli.settings.table import Machine, Messages
from omnitts_cli.speech.reference import RECORD
from omnitts_cli.terminal.console import console
from omnitts_cli.terminal.progress import Progress
from omnitts_cli.text.language import LANGUAGES

SENTENCES = 8  # for --quality
SECRET = re.compile(r"""((?:key|token|secret|password)["']?\s*[:=]\s*)("[^"]*"|[^\s,}]+)""", re.IGNORECASE)


def bench(
    load: Load,
    what: What,
    server: Server,
    answer: Answer,
    lengths: Lengths,
    opener: ModelOpener,
    subject: list[str] | None = None,
    quality: bool = False,
) -> None:
    """Measure speed and latency."""
    if quality:
        return bench_quality(subject, load, what, server, answer, opener)
    if subject:
        return bench_ask(subject, load, what, server, answer, lengths, opener)
    if lengths != Lengths():
        given = [f.setting.option for f in fields_of(Lengths) if getattr(lengths, f.name) != f.default]
        raise UsageError(f"{given[0]} is for omnitts bench ask", hint=f"omnitts bench ask {given[0]} ...")

    refuse_contradictions(load, what, server, answer, opener.machine)
    before = reports.read(Path(answer.compare)) if answer.compare else None
    job = job_of(load, what, server, answer, opener)
    with Watcher(job, opener.messages.progress) as watcher:

        def known(report: Report) -> None:
            watcher.known(report.levels[-1])
            if answer.save and not answer.append:  # results survive an interrupted run
                reports.save(Path(answer.save), report)

        report = job.run(watcher.ended, known)
    present(report, answer)
    if before is not None:
        judge(report, before, answer)
    refuse_failures(report)


def bench_ask(
    subject: list[str], load: Load, what: What, server: Server, answer: Answer, lengths: Lengths, opener: ModelOpener,
) -> None:  # fmt: skip
    """Measures answers of fixed lengths, a level of users after another."""
    if subject != ["ask"]:
        raise UsageError(
            f"unexpected: {' '.join(subject)}",
            hint="omnitts bench --help   or   omnitts bench ask   or   omnitts bench --quality",
        )
    kept = {Load: {"concurrency", "requests", "seed"}, What: {"model"}, Answer: {"save"}}
    refuse_others("bench ask", kept, load, what, server, answer)
    check_save(answer)
    workload = AnswerWorkload(lengths.prompt_tokens, lengths.answer_tokens, lengths.spoken, lengths.recording)
    with Progress("measuring", opener.messages.progress) as progress:
        report = measured(
            what.model or "omni", load.concurrency or (1, 4, 16, 32), load.requests, workload, load.seed,
            opener.settings, progress.update,
        )  # fmt: skip
    for level in report.levels:
        show(lines(level), {**report.about, **level.record()})
    save(report.record(), answer)


def bench_quality(
    subject: list[str] | None, load: Load, what: What, server: Server, answer: Answer, opener: ModelOpener,
) -> None:  # fmt: skip
    """Compares a model in 8 bits with the same in float32."""
    from omnitts_cli.bench import quality  # nothing else needs it

    if subject:
        raise UsageError(f"unexpected: {' '.join(subject)}", hint="omnitts bench --quality")
    kept = {Load: {"requests", "seed"}, What: {"model"}, Answer: {"save"}}
    refuse_others("--quality", kept, load, what, server, answer)
    check_save(answer)
    with Progress("comparing", opener.messages.progress) as progress:
        found = quality.measured(
            what.model or EMBEDDED,
            load.requests or SENTENCES,
            load.seed,
            opener.settings,
            progress.update,
            console.notice,
        )
    show(found.lines(), found.record())
    save(found.record(), answer)


def check_save(answer: Answer) -> None:
    """Refuses a file that could not be written, before anything is measured."""
    if answer.save is not None:
        reports.check(Path(answer.save), "--save")


def show(said: Iterable[str], record: dict[str, Any]) -> None:
    for line in said:
        console.result(line)
    console.record(status="ok", **record)


def save(record: dict[str, Any], answer: Answer) -> None:
    if answer.save is not None:
        Path(answer.save).write_text(json.dumps(record, indent=1) + "\n", "utf-8")


def refuse_others(command: str, kept: Mapping[type, set[str]], *groups: Any) -> None:
    """Refuses options that were given but have no effect with `command`."""
    for group in groups:
        kind: type = type(group)
        for field in fields_of(kind):
            unused = field.name not in kept.get(kind, set())
            if unused and getattr(group, field.name) != field.default:
                raise UsageError(f"{field.setting.option} has no effect with {command}", hint="leave it out")


def refuse_contradictions(load: Load, what: What, server: Server, answer: Answer, machine: Machine) -> None:
    if load.rate is not None and load.concurrency is not None:
        raise UsageError("use either -c or --rate, not both", hint="omnitts help bench")
    if load.arrivals == "apart":
        refuse_apart(load)
    if load.requests is not None and load.duration is not None:
        raise UsageError("use either -n or --duration, not both", hint="leave one of them out")
    if what.mode not in (None, "clone"):
        refuse_references(what)
    if server.url is not None:
        refuse_with_server(what, machine)
    elif what.vs == "engine":
        raise UsageError("--vs engine has no effect without --url", hint="--url http://127.0.0.1:8000 --vs engine")
    if answer.save is not None:
        reports.check(Path(answer.save), "--save")
    if answer.plot is not None:
        plot.check(answer.plot)


def refuse_apart(load: Load) -> None:
    if load.rate is not None:
        raise UsageError("--arrivals apart has no effect with --rate", hint="-c 64 --arrivals apart")
    most = LEAST_ROUNDS * max(load.concurrency or Shape.levels)
    if load.requests is not None and load.requests < most:
        raise UsageError(
            f"--arrivals apart needs at least {LEAST_ROUNDS} times as many requests as -c", hint=f"-n {most}"
        )


def refuse_references(what: What) -> None:
    given = {"--ref-audio": what.ref_audio, "--ref-text": what.ref_text, "--ref-fresh": what.ref_fresh or None}
    for name, value in given.items():
        if value is not None:
            raise UsageError(f"{name} has no effect with --mode {what.mode}", hint="--mode clone")


def refuse_with_server(what: What, machine: Machine) -> None:
    """Refuses options that need a local engine."""
    elsewhere = "-d auto   (overrides settings files and OMNITTS_DEVICE)"
    fields = """--body '{"ref_text": "..."}'   sends more fields to the server"""
    given = {
        "--vs": (None if what.vs == "engine" else what.vs, "--vs engine   measures the model here too"),
        "--ref-audio": (what.ref_audio, fields),
        "--ref-text": (what.ref_text, fields),
        "--ref-fresh": (what.ref_fresh or None, fields),
        "--mode": (what.mode, fields),
        "--device": (None if machine.device == "auto" or what.vs == "engine" else machine.device, elsewhere),
    }
    for name, (value, hint) in given.items():
        if value is not None:
            raise UsageError(f"{name} cannot be used with --url", hint=hint)


def job_of(load: Load, what: What, server: Server, answer: Answer, opener: ModelOpener) -> BenchJob:
    shape = Shape(
        levels=load.concurrency or Shape.levels,
        apart=load.arrivals == "apart",
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
    slots = auto_slots if opener.machine.slots == "auto" else int(opener.machine.slots)
    seconds = slot_seconds(load.frames, speaker.reference_s)
    settings = EngineSettings(**{**opener.settings, "slots": slots, "seconds": seconds})
    return BenchJob(
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
        fetched=fetching(opener.messages),
    )


def speaker_of(what: What) -> BenchVoice:
    clip, rate = None, 24_000
    if what.ref_audio is not None:
        recording = read_clip(what.ref_audio, record=RECORD)
        clip, rate = recording.sound, recording.rate
    clones = what.ref_audio is not None or what.ref_text is not None or what.ref_fresh
    mode = "clone" if what.mode is None and clones else what.mode
    return BenchVoice(mode, what.voice, what.style, clip, rate, what.ref_text, what.ref_fresh)


def texts_of(what: What) -> BenchTexts:
    language = LANGUAGES.get(what.language)
    given = tuple(read_texts(Path(what.texts), language)) if what.texts else ()
    return BenchTexts(given, what.length, language)  # type: ignore[arg-type]


def asking_of(what: What, server: Server) -> Asking:
    return Asking(
        model=what.model,
        voice=what.voice,
        sound=server.wire,
        stream=server.stream,
        sample_rate=server.wire_rate,
        api_key=key_in(server.api_key_file) if server.api_key_file else variable(API_KEY),
        body=fields_in(server.body) if server.body else {},
    )


def key_in(path: str) -> str:
    try:
        key = files.read_text(path, files.SMALL, pipes=True).strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read key file {path}", cause=getattr(error, "strerror", None)) from None
    if not key or not key.isascii() or not key.isprintable():
        raise InputError(f"key file {path} does not hold a key", hint="the file must be one line of ASCII characters")
    return key


def fields_in(text: str) -> dict[str, Any]:
    if text.startswith("@"):
        try:
            text = files.read_text(text[1:], files.LARGE, pipes=True)
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"cannot read {text[1:]}", cause=getattr(error, "strerror", None)) from None
    try:
        return json_object(text)
    except ParseError as error:
        raise UsageError(f"--body {error}", hint="""--body '{"language": "English"}'""") from None


def shown_command(arguments: list[str]) -> str:
    """The command line for the report, without what looks like a secret."""
    return SECRET.sub(r"\1***", shlex.join(["omnitts", *arguments[1:]]))


def fetching(messages: Messages) -> Callable[[Any], None]:
    """Reports the progress of a download."""
    bar = Progress("downloading", messages.progress)

    def report(news: Any) -> None:
        tell(bar, news)
        if news.done_bytes >= news.total_bytes:
            bar.clear()

    return report
