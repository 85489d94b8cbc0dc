"""Every shared option, declared once: its letter, what it takes, its default and its help."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from omnitts_cli.cli.console import console
from omnitts_cli.cli.declare import Opt
from omnitts_cli.errors import UsageError
from omnitts_cli.kinds import ANY_TEXT, SWITCH, TARGET, TEXT, either, number, one_of, whole
from omnitts_cli.presets import RULES
from omnitts_cli.settings import EMBEDDED
from omnitts_cli.text.language import LANGUAGES

INPUT_FORMATS = ("auto", "text", "md", "ssml", "srt", "epub")


def preset_names(incomplete: str) -> list[str]:
    from omnitts_cli import presets

    return [name for name in presets.names() if name.startswith(incomplete)]


def voice_names(incomplete: str) -> list[str]:
    """The saved voices and those that the embedded model describes; its family would take seconds to import."""
    import json

    from omnitts_cli import voice_files
    from omnitts_cli.weights.find import TINY

    config = TINY / "config.json"
    described = json.loads(config.read_text("utf-8"))["omnitts"]["voices"] if config.is_file() else {}
    return [name for name in [*voice_files.names(), *described] if name.startswith(incomplete)]


def model_names(incomplete: str) -> list[str]:
    return [name for name in (EMBEDDED, "0.6b", "1.7b", "omni") if name.startswith(incomplete)]


Words = Annotated[
    list[str] | None,
    typer.Argument(metavar="TEXT", show_default=False, help="Text; put -- first if it begins with a dash."),
]


@dataclass(frozen=True)
class TextIn:
    """Where the text comes from and how it is read and cut."""

    file: Annotated[
        tuple[str, ...], Opt("-f --file", TEXT, "Text to speak; - is stdin. Repeatable.", "PATH", many=True)
    ] = ()
    input_format: Annotated[
        str,
        Opt(
            "--input-format",
            one_of(*INPUT_FORMATS),
            "What the text is written in.",
            shown="by suffix, else text",
        ),
    ] = "auto"
    encoding: Annotated[
        str | None, Opt("--encoding", TEXT, "Character encoding of the text.", "NAME", shown="utf-8, or by its mark")
    ] = None
    split: Annotated[str, Opt("--split", RULES["split"], "Where the text is cut into pieces.")] = "auto"
    sentence_gap: Annotated[int, Opt("--sentence-gap", RULES["sentence_gap"], "Silence between pieces.", "MS")] = 250
    paragraph_gap: Annotated[
        int, Opt("--paragraph-gap", RULES["paragraph_gap"], "Silence between paragraphs.", "MS")
    ] = 600
    lexicon: Annotated[
        tuple[str, ...],
        Opt("--lexicon", TEXT, "File of lines 'word<TAB>spoken form'. Repeatable.", "FILE", many=True),
    ] = ()
    normalize: Annotated[
        bool | None,
        Opt(
            "--normalize/--no-normalize",
            SWITCH,
            "Numbers, dates, units and signs as words.",
            shown="on where the model reads letters only",
        ),
    ] = None


@dataclass(frozen=True)
class Model:
    """Which model does it."""

    model: Annotated[
        str | None,
        Opt(
            "-m --model",
            TEXT,
            "tiny, 0.6b, 1.7b, omni, a folder, or hf:ORG/REPO[@REV].",
            "NAME|DIR",
            shown=EMBEDDED,
            complete=model_names,
        ),
    ] = None


@dataclass(frozen=True)
class Speech(Model):
    """Who speaks and how."""

    voice: Annotated[
        str | None,
        Opt(
            "-v --voice",
            TEXT,
            "A voice of the model, a saved one, or a .voice file; a:60,b:40 blends.",
            "NAME|FILE",
            shown="the model's first",
            complete=voice_names,
        ),
    ] = None
    lang: Annotated[
        str,
        Opt(
            "-l --lang",
            one_of("auto", "detect", *LANGUAGES),
            "zh en ja ko de fr ru pt es it; auto leaves it to the model, detect looks at the text.",
            "CODE",
        ),
    ] = "auto"
    instruct: Annotated[
        str | None, Opt("-i --instruct", ANY_TEXT, "How to speak, or for design who speaks.", "TEXT")
    ] = None
    speed: Annotated[float, Opt("-s --speed", RULES["speed"], "Pace, pitch kept; 0.5 to 2.", "X")] = 1.0
    volume: Annotated[float, Opt("--volume", RULES["volume"], "Louder or softer.", "DB")] = 0.0
    loudness: Annotated[
        float | str,
        Opt("--loudness", either("off", RULES["loudness"]), "Bring the whole to this level.", "LUFS|off"),
    ] = "off"
    seed: Annotated[
        int | None, Opt("--seed", whole(0, 2**63 - 1), "Same seed, same speech.", "N", shown="random, and told")
    ] = None
    temperature: Annotated[
        float | None, Opt("--temperature", RULES["temperature"], "0 is greedy.", "X", shown="the model's")
    ] = None
    top_p: Annotated[
        float | None,
        Opt("--top-p", RULES["top_p"], "Keep the likeliest codes up to this share.", "X", shown="the model's"),
    ] = None
    top_k: Annotated[
        int | None,
        Opt("--top-k", RULES["top_k"], "Keep the K likeliest codes; 0 keeps all.", "K", shown="the model's"),
    ] = None
    repetition_penalty: Annotated[
        float | None,
        Opt("--repetition-penalty", RULES["repetition_penalty"], "Above 1: fewer repeats.", "X", shown="the model's"),
    ] = None
    text_mode: Annotated[
        str | None,
        Opt(
            "--text-mode",
            RULES["text_mode"],
            "How the model hears the text.",
            shown="the official one",
        ),
    ] = None
    max_frames: Annotated[
        int | None,
        Opt(
            "--max-frames",
            whole(1, 1_000_000),
            "Cap per piece; replaces the guard.",
            "N",
            shown="100 + 12 per token",
        ),
    ] = None
    max_seconds: Annotated[
        float | None, Opt("--max-seconds", number(0.001, 100_000), "The same cap in seconds.", "S")
    ] = None
    retries: Annotated[int, Opt("--retries", RULES["retries"], "New tries after a runaway or silent piece.", "N")] = 2
    safe: Annotated[
        bool | None,
        Opt("--safe/--no-safe", SWITCH, "Check each piece whole before it is heard.", shown="on for files"),
    ] = None


@dataclass(frozen=True)
class Output:
    """Where the sound goes."""

    output: Annotated[
        str | None,
        Opt("-o --output", TARGET, "File for the sound; - is stdout.", "PATH|-", shown="play, else speech.wav"),
    ] = None
    format: Annotated[
        str | None,
        Opt(
            "-F --format",
            RULES["format"],
            "Format of the sound.",
            shown="by suffix, else wav",
        ),
    ] = None
    sample_rate: Annotated[
        int | None, Opt("--sample-rate", RULES["sample_rate"], "8000 to 192000.", "HZ", shown="the model's")
    ] = None
    subtype: Annotated[str, Opt("--subtype", RULES["subtype"], "Samples of wav and flac.")] = "pcm16"
    play: Annotated[bool | None, Opt("--play/--no-play -p", SWITCH, "Play while generating.")] = None
    audio_device: Annotated[
        str | None,
        Opt("--audio-device", TEXT, "Sound output; list shows them.", "NAME|INDEX|list", shown="the system's"),
    ] = None
    no_clobber: Annotated[bool, Opt("--no-clobber", SWITCH, "Do not replace an existing file.")] = False


@dataclass(frozen=True)
class Results(Output):
    """Where everything goes."""

    subs: Annotated[str | None, Opt("--subs", TARGET, "Times of the sentences, as .srt, .vtt or .json.", "PATH")] = None
    codes: Annotated[str | None, Opt("--codes", TARGET, "The generated codes, as safetensors.", "PATH")] = None
    dry_run: Annotated[bool, Opt("--dry-run", SWITCH, "Show the pieces; load nothing.")] = False


@dataclass(frozen=True)
class Machine:
    """What it runs on."""

    device: Annotated[str, Opt("-d --device", TEXT, "auto, cpu, cuda[:N] or npu[:N].", "NAME")] = "auto"
    dtype: Annotated[str, Opt("--dtype", RULES["dtype"], "Numbers of the model.")] = "auto"
    batch_size: Annotated[
        int | str, Opt("-b --batch-size", either("auto", RULES["batch_size"]), "Pieces made together.", "N|auto")
    ] = "auto"
    first_chunk: Annotated[
        int, Opt("--first-chunk", RULES["first_chunk"], "Frames in the first chunk of sound.", "N")
    ] = 1
    chunk: Annotated[int, Opt("--chunk", RULES["chunk"], "Most frames in a later one.", "N")] = 16
    threads: Annotated[
        int | None, Opt("-t --threads", whole(1, 1024), "Threads on a CPU.", "N", shown="physical cores")
    ] = None


@dataclass(frozen=True)
class Intent:
    """Named settings."""

    preset: Annotated[
        str | None,
        Opt(
            "--preset",
            TEXT,
            "fast, studio, live or batch, or one of the settings file.",
            "NAME",
            complete=preset_names,
        ),
    ] = None


@dataclass(frozen=True)
class Network:
    """Whether the network may be used."""

    offline: Annotated[bool, Opt("--offline", SWITCH, "No network call at all.")] = False


@dataclass(frozen=True)
class Telling:
    """What is said while working, and how."""

    quiet: Annotated[bool, Opt("-q --quiet", SWITCH, "Errors only.")] = False
    verbose: Annotated[bool, Opt("--verbose", SWITCH, "More about what goes on.")] = False
    debug: Annotated[bool, Opt("--debug", SWITCH, "Also the traceback of an internal error.")] = False
    progress: Annotated[
        str,
        Opt("--progress", one_of("auto", "bar", "plain", "json", "none"), "On stderr."),
    ] = "auto"
    json: Annotated[bool, Opt("--json", SWITCH, "One JSON object per result.")] = False
    color: Annotated[str, Opt("--color", one_of("auto", "always", "never"), "Colours on stderr.")] = "auto"
    no_input: Annotated[bool, Opt("--no-input", SWITCH, "Never ask anything.")] = False

    def apply(self) -> None:
        if self.quiet and self.verbose:
            raise UsageError("-q and --verbose contradict each other", hint="leave one of them out")
        console.listen_to(quiet=self.quiet, verbose=self.verbose, debug=self.debug, json=self.json, color=self.color)


GROUPS = (TextIn, Speech, Results, Machine, Intent, Network, Telling)
