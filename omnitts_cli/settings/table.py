"""The table of settings. Options, presets, settings files and the engine's settings are views of it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, partial
from typing import Annotated

from omnitts_cli.settings.environment import EMBEDDED
from omnitts_cli.settings.kinds import ANY_TEXT, SWITCH, TARGET, TEXT, either, number, one_of, whole
from omnitts_cli.settings.setting import Setting, fields_of
from omnitts_cli.text.language import LANGUAGES

SLOTS = whole(1, 1024)
INPUT_FORMATS = ("auto", "text", "md", "html", "ssml", "srt", "epub")

for_text = partial(Setting, group="text")
for_voice = partial(Setting, group="voice")
for_sampling = partial(Setting, group="sampling", project=True)
for_output = partial(Setting, group="output")
for_machine = partial(Setting, group="machine")
for_messages = partial(Setting, group="messages")


@dataclass(frozen=True)
class TextIn:
    """Where the text comes from and how it is read and cut."""

    file: Annotated[
        tuple[str, ...],
        for_text("-f --file", TEXT, "Text to speak; - is stdin. Repeatable.", "PATH", many=True, main=True),
    ] = ()
    input_format: Annotated[
        str,
        for_text(
            "--input-format",
            one_of(*INPUT_FORMATS),
            "What the text is written in.",
            shown="by suffix, else text",
            project=True,
        ),
    ] = "auto"
    encoding: Annotated[
        str | None,
        for_text(
            "--encoding",
            TEXT,
            "Character encoding of the text.",
            "NAME",
            shown="utf-8, or by its mark",
            project=True,
        ),
    ] = None
    split: Annotated[
        str,
        for_text(
            "--split",
            one_of("auto", "line", "paragraph", "none"),
            "Where the text is cut into pieces.",
            preset=True,
            project=True,
        ),
    ] = "auto"
    sentence_gap: Annotated[
        int,
        for_text("--sentence-gap", whole(0, 60_000), "Silence between pieces.", "MS", preset=True, project=True),
    ] = 250
    paragraph_gap: Annotated[
        int,
        for_text("--paragraph-gap", whole(0, 60_000), "Silence between paragraphs.", "MS", preset=True, project=True),
    ] = 600
    lexicon: Annotated[
        tuple[str, ...],
        for_text("--lexicon", TEXT, "File of lines 'word<TAB>spoken form'. Repeatable.", "FILE", many=True),
    ] = ()
    normalize: Annotated[
        bool | None,
        for_text(
            "--normalize/--no-normalize",
            SWITCH,
            "Numbers, dates, units and signs as words.",
            shown="on where the model reads letters only",
            preset=True,
            project=True,
        ),
    ] = None


@dataclass(frozen=True)
class Model:
    """Which model does it."""

    model: Annotated[
        str | None,
        for_voice(
            "-m --model",
            TEXT,
            "tiny, 0.6b, 1.7b, omni, a folder, or hf:ORG/REPO[@REV].",
            "NAME|DIR",
            shown=EMBEDDED,
            main=True,
            preset=True,
            complete="models",
        ),
    ] = None


@dataclass(frozen=True)
class Speech(Model):
    """Who speaks and how."""

    voice: Annotated[
        str | None,
        for_voice(
            "-v --voice",
            TEXT,
            "A voice of the model, a saved one, or a .voice file; a:60,b:40 blends.",
            "NAME|FILE",
            shown="the model's first",
            main=True,
            preset=True,
            project=True,
            complete="voices",
        ),
    ] = None
    language: Annotated[
        str,
        for_voice(
            "-l --language",
            one_of("auto", "detect", *LANGUAGES),
            "zh en ja ko de fr ru pt es it; auto leaves it to the model, detect looks at the text.",
            "CODE",
            main=True,
            preset=True,
            project=True,
            former="lang",
        ),
    ] = "auto"
    style: Annotated[
        str | None,
        for_voice(
            "-i --style",
            ANY_TEXT,
            "How to speak, or for design who speaks.",
            "TEXT",
            main=True,
            preset=True,
            project=True,
            former="instruct",
        ),
    ] = None
    speed: Annotated[
        float,
        for_voice(
            "-s --speed", number(0.5, 2), "Pace, pitch kept; 0.5 to 2.", "X", main=True, preset=True, project=True
        ),
    ] = 1.0
    volume: Annotated[
        float, for_output("--volume", number(-60, 40), "Louder or softer.", "DB", preset=True, project=True)
    ] = 0.0
    loudness: Annotated[
        float | str,
        for_output(
            "--loudness",
            either("off", number(-70, 0)),
            "Bring the whole to this level.",
            "LUFS|off",
            preset=True,
            project=True,
        ),
    ] = "off"
    seed: Annotated[
        int | None,
        for_sampling(
            "--seed", whole(0, 2**63 - 1), "Same seed, same speech.", "N", shown="random, and told", main=True
        ),
    ] = None
    temperature: Annotated[
        float | None,
        for_sampling("--temperature", number(0, 10), "0 is greedy.", "X", shown="the model's", preset=True),
    ] = None
    top_p: Annotated[
        float | None,
        for_sampling(
            "--top-p",
            number(0, 1),
            "Keep the likeliest codes up to this share.",
            "X",
            shown="the model's",
            preset=True,
        ),
    ] = None
    top_k: Annotated[
        int | None,
        for_sampling(
            "--top-k",
            whole(0, 1_000_000),
            "Keep the K likeliest codes; 0 keeps all.",
            "K",
            shown="the model's",
            preset=True,
        ),
    ] = None
    repetition_penalty: Annotated[
        float | None,
        for_sampling(
            "--repetition-penalty",
            number(0.01, 10),
            "Above 1: fewer repeats.",
            "X",
            shown="the model's",
            preset=True,
        ),
    ] = None
    text_mode: Annotated[
        str | None,
        for_sampling(
            "--text-mode",
            one_of("whole", "streamed"),
            "How the model hears the text.",
            shown="the official one",
            preset=True,
        ),
    ] = None
    max_frames: Annotated[
        int | None,
        for_sampling(
            "--max-frames", whole(1, 1_000_000), "Cap per piece; replaces the guard.", "N", shown="100 + 12 per token"
        ),
    ] = None
    max_seconds: Annotated[
        float | None, for_sampling("--max-seconds", number(0.001, 100_000), "The same cap in seconds.", "S")
    ] = None
    retries: Annotated[
        int, for_sampling("--retries", whole(0, 20), "New tries after a runaway or silent piece.", "N", preset=True)
    ] = 2
    safe: Annotated[
        bool | None,
        for_sampling(
            "--safe/--no-safe", SWITCH, "Check each piece whole before it is heard.", shown="on for files", preset=True
        ),
    ] = None


@dataclass(frozen=True)
class Output:
    """Where the sound goes."""

    output: Annotated[
        str | None,
        for_output(
            "-o --output",
            TARGET,
            "File for the sound; - is stdout.",
            "PATH|-",
            shown="play, else speech.wav",
            main=True,
        ),
    ] = None
    format: Annotated[
        str | None,
        for_output(
            "-F --format",
            one_of("wav", "raw", "flac", "mp3", "opus", "ogg"),
            "Format of the sound.",
            shown="by suffix, else wav",
            main=True,
            preset=True,
            project=True,
        ),
    ] = None
    sample_rate: Annotated[
        int | None,
        for_output(
            "--sample-rate",
            whole(8000, 192_000),
            "8000 to 192000.",
            "HZ",
            shown="the model's",
            preset=True,
            project=True,
        ),
    ] = None
    subtype: Annotated[
        str,
        for_output(
            "--subtype", one_of("pcm16", "pcm24", "float"), "Samples of wav and flac.", preset=True, project=True
        ),
    ] = "pcm16"
    play: Annotated[bool | None, for_output("--play/--no-play -p", SWITCH, "Play while generating.", main=True)] = None
    audio_device: Annotated[
        str | None,
        for_output("--audio-device", TEXT, "Sound output; list shows them.", "NAME|INDEX|list", shown="the system's"),
    ] = None
    no_clobber: Annotated[bool, for_output("--no-clobber", SWITCH, "Do not replace an existing file.")] = False


@dataclass(frozen=True)
class Results(Output):
    """Where everything goes."""

    subs: Annotated[
        str | None, for_output("--subs", TARGET, "Times of the sentences, as .srt, .vtt or .json.", "PATH", main=True)
    ] = None
    codes: Annotated[str | None, for_output("--codes", TARGET, "The generated codes, as safetensors.", "PATH")] = None
    dry_run: Annotated[bool, for_messages("--dry-run", SWITCH, "Show the pieces; load nothing.", main=True)] = False


@dataclass(frozen=True)
class Machine:
    """What it runs on."""

    device: Annotated[
        str, for_machine("-d --device", TEXT, "auto, cpu, cuda[:N] or npu[:N].", "NAME", main=True, preset=True)
    ] = "auto"
    dtype: Annotated[
        str, for_machine("--dtype", one_of("auto", "bf16", "fp16", "fp32"), "Numbers of the model.", preset=True)
    ] = "auto"
    slots: Annotated[
        int | str,
        for_machine(
            "-b --slots", either("auto", SLOTS), "Pieces made together.", "N|auto", preset=True, former="batch_size"
        ),
    ] = "auto"
    first_chunk: Annotated[
        int, for_machine("--first-chunk", whole(1, 100), "Frames in the first chunk of sound.", "N", preset=True)
    ] = 1
    chunk: Annotated[int, for_machine("--chunk", whole(1, 100), "Most frames in a later one.", "N", preset=True)] = 16
    threads: Annotated[
        int | None, for_machine("-t --threads", whole(1, 1024), "Threads on a CPU.", "N", shown="physical cores")
    ] = None


@dataclass(frozen=True)
class Intent:
    """Named settings."""

    preset: Annotated[
        str | None,
        for_messages(
            "--preset",
            TEXT,
            "fast, studio, live or batch, or one of the settings file.",
            "NAME",
            main=True,
            project=True,
            complete="presets",
        ),
    ] = None


@dataclass(frozen=True)
class Network:
    """Whether the network may be used."""

    offline: Annotated[bool, for_machine("--offline", SWITCH, "No network call at all.")] = False


@dataclass(frozen=True)
class Messages:
    """What is said while working, and how."""

    quiet: Annotated[bool, for_messages("-q --quiet", SWITCH, "Errors only.", main=True)] = False
    verbose: Annotated[bool, for_messages("--verbose", SWITCH, "More about what goes on.")] = False
    debug: Annotated[bool, for_messages("--debug", SWITCH, "Also the traceback of an internal error.")] = False
    progress: Annotated[
        str, for_messages("--progress", one_of("auto", "bar", "plain", "json", "none"), "On stderr.")
    ] = "auto"
    json: Annotated[bool, for_messages("--json", SWITCH, "One JSON object per result.", main=True)] = False
    color: Annotated[
        str, for_messages("--color", one_of("auto", "always", "never"), "Colours on stderr.", project=True)
    ] = "auto"
    no_input: Annotated[bool, for_messages("--no-input", SWITCH, "Never ask anything.")] = False


SHARED = (TextIn, Speech, Results, Machine, Intent, Network, Messages)
"""What most commands take, and `omnitts config` sets."""


@cache
def former_options() -> dict[str, str]:
    """Former spelling -> option."""
    settings = [field.setting for group in SHARED for field in fields_of(group)]
    return {f"--{one.former.replace('_', '-')}": one.option for one in settings if one.former}
