"""What was typed behind `omnitts bench`, in the words of the bench."""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omnitts_cli.errors import InputError, UsageError
from omnitts_cli.settings.environment import EMBEDDED
from omnitts_cli.text.language import LANGUAGES

if TYPE_CHECKING:
    from omnitts_cli.bench.job import Job, Speaker, Texts
    from omnitts_cli.bench.server import Asking
    from omnitts_cli.settings.commands import Answer, Load, Server, What
    from omnitts_cli.settings.table import Machine, Messages, Network

SECRET = re.compile(r"""((?:key|token|secret|password)["']?\s*[:=]\s*)("[^"]*"|[^\s,}]+)""", re.IGNORECASE)


def job_of(
    load: Load, what: What, server: Server, answer: Answer, machine: Machine, network: Network, messages: Messages
) -> Job:
    from omnitts_cli.bench.campaign import Shape
    from omnitts_cli.bench.job import Job, slot_seconds
    from omnitts_cli.bench.keep import Keeper
    from omnitts_cli.settings.engine import EngineSettings

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
        slots=auto_slots if machine.slots == "auto" else int(machine.slots),
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
        fetched=fetching(messages),
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
    return Speaker(mode, what.voice, what.style, clip, rate, what.ref_text, what.ref_fresh)


def texts_of(what: What) -> Texts:
    from omnitts_cli.bench.job import Texts
    from omnitts_cli.bench.workload import read_texts

    language = LANGUAGES.get(what.language)
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


def fetching(messages: Messages) -> Callable[[Any], None]:
    """What is said while a model is fetched."""
    from omnitts_cli.cli.models import tell
    from omnitts_cli.terminal.progress import Progress

    bar = Progress("fetching", messages.progress)

    def report(news: Any) -> None:
        tell(bar, news)
        if news.done_bytes >= news.total_bytes:
            bar.clear()

    return report
