"""Settings of one command: the clip of clone, the takes of design, the figures of bench."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

from omnitts_cli.settings.kinds import ANY_TEXT, SWITCH, TEXT, Kind, number, one_of, whole
from omnitts_cli.settings.setting import Setting, fields_of
from omnitts_cli.settings.table import SHARED, Speech
from omnitts_cli.text.language import LANGUAGES

for_voice = partial(Setting, group="voice")
for_load = partial(Setting, group="load")
for_server = partial(Setting, group="server")
for_report = partial(Setting, group="report")


@dataclass(frozen=True)
class Clip:
    """The clip whose voice is heard, and what is known about it."""

    ref_audio: Annotated[
        tuple[str, ...],
        for_voice(
            "-r --ref-audio", TEXT, "Clip of one speaker, 3 to 30 s; - is stdin. Repeatable.", "PATH|-", many=True
        ),
    ] = ()
    ref_text: Annotated[
        tuple[str, ...],
        for_voice(
            "--ref-text", ANY_TEXT, "The exact words of the clip, or @FILE. Repeatable.", "TEXT|@FILE", many=True
        ),
    ] = ()
    transcribe: Annotated[
        bool, for_voice("--transcribe", SWITCH, "Have a recogniser write the words down; needs faster-whisper.")
    ] = False
    ref_start: Annotated[
        float | None, for_voice("--ref-start", number(0, 1e6), "Use the clip from here.", "S", shown="its start")
    ] = None
    ref_end: Annotated[
        float | None, for_voice("--ref-end", number(0, 1e6), "Use the clip up to here.", "S", shown="its end")
    ] = None
    ref_pad: Annotated[float, for_voice("--ref-pad", number(0, 5), "Silence behind the clip.", "S")] = 0.0
    save_voice: Annotated[str | None, for_voice("--save-voice", TEXT, "Keep the voice for say -v NAME.", "NAME")] = None
    consent: Annotated[
        str | None, for_voice("--consent", TEXT, "Who agreed, and when; kept with the voice.", "TEXT")
    ] = None
    check: Annotated[bool, for_voice("--check/--no-check", SWITCH, "Look for silence, noise and clipping.")] = True


@dataclass(frozen=True)
class Takes:
    """How many tries of a voice, where they go, and whether one is kept."""

    candidates: Annotated[int, for_voice("--candidates", whole(1, 100), "Takes with different seeds.", "N")] = 1
    output_dir: Annotated[str | None, for_voice("-O --output-dir", TEXT, "Folder for take-1, take-2 ...", "DIR")] = None
    save_voice: Annotated[
        str | None, for_voice("--save-voice", TEXT, "Keep the voice of the one take, by cloning it.", "NAME")
    ] = None


@dataclass(frozen=True)
class Live:
    """How text is heard that is still being written."""

    live: Annotated[bool, for_voice("--live", SWITCH, "Word by word, into an open text feed.")] = False


MODES = ("voice", "clone", "design")
LIMITS = ("ttfa", "audible", "e2el", "rtf", "gap", "stutters")


def shared(name: str) -> Setting:
    """An option of the commands that speak, as it is declared there."""
    return next(field.setting for field in fields_of(Speech) if field.name == name)


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
        for_load("-c --concurrency", LEVELS, "Requests in flight, one level after another.", "LIST", shown="1,4,10"),
    ] = None
    rate: Annotated[
        float | None, for_load("--rate", number(0.001, 100_000), "Requests per second instead, waiting for none.", "R")
    ] = None
    burstiness: Annotated[
        float, for_load("--burstiness", number(0.01, 1000), "With --rate: 1 is Poisson, less comes in bursts.", "B")
    ] = 1.0
    requests: Annotated[
        int | None,
        for_load("-n --requests", whole(1, 1_000_000), "Per level.", "N", shown="4 x level, at least 8"),
    ] = None
    duration: Annotated[
        float | None, for_load("--duration", number(0.1, 86_400), "Instead: send for so long, per level.", "S")
    ] = None
    warmup: Annotated[
        int | None,
        for_load("--warmup", whole(0, 10_000), "Before a level, not counted.", "N", shown="one round, at least 2"),
    ] = None
    frames: Annotated[
        int | None,
        for_load("--frames", whole(1, 20_000), "Exactly so many frames each, whatever the end code says.", "N"),
    ] = None
    seed: Annotated[int, for_load("--seed", whole(0, 2**62), "Same seed, same requests.", "N", shown="0")] = 0


@dataclass(frozen=True)
class What:
    """Who speaks what."""

    model: Annotated[str | None, shared("model")] = None
    mode: Annotated[
        str | None, for_load("--mode", one_of(*MODES), "What the model is asked for.", shown="the first it can")
    ] = None
    voice: Annotated[str | None, for_load("-v --voice", TEXT, "A voice of the model.", "NAME", shown="the first")] = (
        None
    )
    style: Annotated[str | None, shared("style")] = None
    ref_audio: Annotated[
        str | None, for_load("-r --ref-audio", TEXT, "Clip for --mode clone.", "PATH", shown="6 s of made-up tones")
    ] = None
    ref_text: Annotated[
        str | None,
        for_load("--ref-text", TEXT, "Its words: clone with the clip's frames, not the voice alone.", "TEXT"),
    ] = None
    ref_fresh: Annotated[bool, for_load("--ref-fresh", SWITCH, "Hear the clip anew for each request.")] = False
    language: Annotated[
        str,
        for_load(
            "-l --language",
            one_of("auto", *LANGUAGES),
            "Language of the texts.",
            "CODE",
            shown="all the model has",
            former="lang",
        ),
    ] = "auto"
    texts: Annotated[str | None, for_load("--texts", TEXT, "Texts, one per line.", "FILE")] = None
    length: Annotated[str, for_load("--length", one_of("short", "medium", "long", "mix"), "Of the built-in texts.")] = (
        "mix"
    )
    vs: Annotated[
        str | None,
        for_load(
            "--vs", one_of("eager", "cpu", "nobuckets"), "In turn with it, the same uncaptured, on the CPU, or padded."
        ),
    ] = None


@dataclass(frozen=True)
class Server:
    """A server instead of a model of this machine."""

    url: Annotated[str | None, for_server("--url", TEXT, "Any that speaks OpenAI's /v1/audio/speech.", "URL")] = None
    api_key_file: Annotated[str | None, for_server("--api-key-file", TEXT, "Its key is in this file.", "PATH")] = None
    stream: Annotated[bool, for_server("--stream/--no-stream", SWITCH, "Ask for sound as it is made.")] = True
    wire: Annotated[str, for_server("--wire", one_of("pcm", "wav"), "What the sound comes in.")] = "pcm"
    wire_rate: Annotated[int, for_server("--wire-rate", whole(4000, 384_000), "Of pcm that does not say it.", "HZ")] = (
        24_000
    )
    body: Annotated[str | None, for_server("--body", TEXT, "More fields of the request.", "JSON")] = None


@dataclass(frozen=True)
class Answer:
    """What is done with the figures."""

    percentiles: Annotated[
        tuple[float, ...], for_report("--percentiles", PERCENTILES, "To show.", "LIST", shown="50,90,99")
    ] = (50, 90, 99)
    goodput: Annotated[
        dict[str, float] | None,
        for_report(
            "--goodput", GOODPUT, "Share of requests within: ttfa, audible, e2el, gap in ms; rtf; stutters.", "LIMITS"
        ),
    ] = None
    save: Annotated[str | None, for_report("--save", TEXT, "Keep the report as JSON.", "FILE")] = None
    append: Annotated[bool, for_report("--append", SWITCH, "Add it to that file as one line.")] = False
    compare: Annotated[str | None, for_report("--compare", TEXT, "Against a kept report; worse is exit 9.", "OLD")] = (
        None
    )
    tolerance: Annotated[float, for_report("--tolerance", number(0, 1000), "What is not yet worse.", "PERCENT")] = 5.0
    report_format: Annotated[str, for_report("--format", one_of("table", "md", "csv", "json"), "Of the answer.")] = (
        "table"
    )
    plot: Annotated[
        str | None, for_report("--plot", TEXT, "Draw latency and throughput; - in the terminal.", "PATH|-")
    ] = None
    save_audio: Annotated[str | None, for_report("--save-audio", TEXT, "Keep the sound that was measured.", "DIR")] = (
        None
    )


BENCH = (Load, What, Server, Answer)
ALL = (*SHARED, Clip, Takes, Live, *BENCH)
"""Every group of settings there is."""
