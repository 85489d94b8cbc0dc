"""The table of settings. Options, presets, settings files and the engine's settings are views of it."""

from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated

from omnitts_cli.settings.environment import EMBEDDED
from omnitts_cli.settings.setting import (
    ANY_TEXT,
    BYTES,
    DEVICE,
    DEVICE_NAMES,
    SWITCH,
    TARGET,
    TEXT,
    VIA,
    Setting,
    either,
    number,
    one_of,
    whole,
)
from omnitts_cli.text.language import LANGUAGES

SLOTS = whole(1, 1024)
USUAL_WPM = 220  # of tiny: 204 to 233, by voice
SLOWEST_WPM, FASTEST_WPM = USUAL_WPM // 2, 2 * USUAL_WPM
LANGUAGE = one_of("auto", "detect", *LANGUAGES, aliases=dict(zip(LANGUAGES.values(), LANGUAGES, strict=True)))
AS_MARKDOWN = "pandoc -t markdown FILE | omnitts say --input-format md"
NO_TEXT = {**dict.fromkeys(("docx", "doc", "odt", "rtf"), AS_MARKDOWN), "pdf": "pdftotext FILE - | omnitts say"}
KILOBITS = replace(whole(8, 320), meant={f"{rate}k": f"--bitrate {rate}" for rate in range(8, 321)})
INPUT_FORMATS = ("auto", "text", "md", "html", "ssml", "srt", "epub", "article")

for_text = partial(Setting, group="text")
for_voice = partial(Setting, group="voice")
for_sampling = partial(Setting, group="sampling", project=True)
for_output = partial(Setting, group="output")
for_machine = partial(Setting, group="machine")
for_messages = partial(Setting, group="messages")


@dataclass(frozen=True)
class TextIn:
    """Where the text comes from, and how it is read and split."""

    file: Annotated[
        tuple[str, ...],
        for_text("-f --file", TEXT, "Text file; - is stdin. Repeatable.", "PATH", many=True, main=True),
    ] = ()
    input_format: Annotated[
        str,
        for_text(
            "--input-format",
            one_of(*INPUT_FORMATS, meant=NO_TEXT),
            "Input format.",
            shown="by suffix, else text",
            project=True,
        ),
    ] = "auto"
    encoding: Annotated[
        str | None,
        for_text(
            "--encoding",
            TEXT,
            "Character encoding.",
            "NAME",
            shown="UTF-8, or by BOM",
            project=True,
        ),
    ] = None
    split: Annotated[
        str,
        for_text(
            "--split",
            one_of("auto", "line", "paragraph", "none"),
            "Where to split the text.",
            preset=True,
            project=True,
        ),
    ] = "auto"
    sentence_gap: Annotated[
        int,
        for_text("--sentence-gap", whole(0, 60_000), "Silence between sentences.", "MS", preset=True, project=True),
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
            "Spell out numbers, dates, units and signs.",
            shown="on for models that cannot read digits",
            preset=True,
            project=True,
        ),
    ] = None
    unreadable: Annotated[
        str,
        for_text(
            "--unreadable",
            one_of("skip", "spell", "fail"),
            "Words in a script that the model cannot read: leave out, spell or refuse.",
            preset=True,
            project=True,
        ),
    ] = "skip"


@dataclass(frozen=True)
class Model:
    """Which model speaks."""

    model: Annotated[
        str | None,
        for_voice(
            "-m --model",
            TEXT,
            "tiny, 0.6b, 1.7b, omni, a folder, hf:ORG/REPO.",
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
            "Voice, .voice file, or blend: a:60,b:40.",
            "NAME|FILE",
            shown="the first",
            main=True,
            preset=True,
            project=True,
            complete="voices",
        ),
    ] = None
    language: Annotated[
        str,
        for_voice(
            "-l --language --lang",
            LANGUAGE,
            "Language of the text, such as en or zh; auto: the model decides; detect: guess it.",
            "CODE",
            main=True,
            preset=True,
            project=True,
        ),
    ] = "auto"
    style: Annotated[
        str | None,
        for_voice(
            "-i --style --instruct",
            ANY_TEXT,
            "How to speak, such as 'whisper it'; not with tiny.",
            "TEXT",
            main=True,
            preset=True,
            project=True,
        ),
    ] = None
    speed: Annotated[
        float,
        for_voice(
            "-s --speed",
            number(0.5, 2),
            "Speaking rate, 0.5 to 2; pitch is unchanged.",
            "X",
            main=True,
            preset=True,
            project=True,
        ),
    ] = 1.0
    wpm: Annotated[
        int | None,
        for_voice(
            "--wpm",
            whole(SLOWEST_WPM, FASTEST_WPM),
            f"Words a minute, {SLOWEST_WPM} to {FASTEST_WPM}, in place of --speed; {USUAL_WPM} is --speed 1.",
            "N",
            shown="by --speed",
            preset=True,
            project=True,
        ),
    ] = None
    volume: Annotated[float, for_output("--volume", number(-60, 40), "Gain.", "DB", preset=True, project=True)] = 0.0
    loudness: Annotated[
        float | str,
        for_output(
            "--loudness",
            either("off", number(-70, 0, usual="-16")),
            "Normalise loudness to this level; podcasts use -16.",
            "LUFS|off",
            shown="off, as it needs the whole sound first",
            preset=True,
            project=True,
        ),
    ] = "off"
    seed: Annotated[
        int | None,
        for_sampling(
            "--seed",
            whole(0, 2**63 - 1),
            "Same seed, text and options: same speech.",
            "N",
            shown="random; printed on a terminal and in --json",
            main=True,
        ),
    ] = None
    temperature: Annotated[
        float | None,
        for_sampling(
            "--temperature", number(0, 10), "Sampling temperature; 0 is greedy.", "X", shown="the model's", preset=True
        ),
    ] = None
    top_p: Annotated[
        float | None,
        for_sampling(
            "--top-p",
            number(0, 1),
            "Sample from the likeliest codes with this total probability.",
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
            "Sample from the K likeliest codes; 0: from all.",
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
            "Above 1: fewer repetitions.",
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
            "Give the model a whole sentence at once, or word by word.",
            shown="model default",
            preset=True,
        ),
    ] = None
    max_frames: Annotated[
        int | None,
        for_sampling(
            "--max-frames",
            whole(1, 1_000_000),
            "Stop a sentence after N frames (12.5 a second).",
            "N",
            shown="100, plus 12 per token of text",
        ),
    ] = None
    max_seconds: Annotated[
        float | None, for_sampling("--max-seconds", number(0.001, 100_000), "The same limit in seconds.", "S")
    ] = None
    retries: Annotated[
        int,
        for_sampling("--retries", whole(0, 20), "Retries when a sentence runs away or stays silent.", "N", preset=True),
    ] = 2
    safe: Annotated[
        bool | None,
        for_sampling(
            "--safe/--no-safe",
            SWITCH,
            "Hold each sentence back until it has been checked: that it ended, and is not silent.",
            shown="on for files",
            preset=True,
        ),
    ] = None

    def __post_init__(self) -> None:
        if self.wpm is not None:
            object.__setattr__(self, "speed", self.wpm / USUAL_WPM)


@dataclass(frozen=True)
class Output:
    """Where the sound goes."""

    output: Annotated[
        str | None,
        for_output(
            "-o --output",
            TARGET,
            "Output file; - is stdout.",
            "PATH|-",
            shown="play; without a sound card, write speech.wav",
            main=True,
        ),
    ] = None
    format: Annotated[
        str | None,
        for_output(
            "-F --format",
            one_of(
                "wav",
                "raw",
                "flac",
                "mp3",
                "opus",
                "ogg",
                "m4a",
                meant={"m4b": "leave -F out; -o NAME.m4b writes it", "aac": "-F m4a"},
            ),
            "wav, raw, flac, mp3, opus, ogg, m4a.",
            "FORMAT",
            shown="by suffix",
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
            "Output sample rate, 8000 to 192000.",
            "HZ",
            shown="the model's",
            preset=True,
            project=True,
        ),
    ] = None
    subtype: Annotated[
        str,
        for_output(
            "--subtype", one_of("pcm16", "pcm24", "float"), "Sample format of wav and flac.", preset=True, project=True
        ),
    ] = "pcm16"
    bitrate: Annotated[
        int | None,
        for_output(
            "--bitrate", KILOBITS, "Kilobits a second of mp3, opus and m4a.", "N", shown="usual for speech",
            preset=True, project=True,
        ),
    ] = None  # fmt: skip
    quality: Annotated[
        float | None,
        for_output(
            "--quality", number(0, 10), "Quality of mp3, ogg and opus, 10 is best; the bitrate varies.", "X",
            shown="the encoder's own", preset=True, project=True,
        ),
    ] = None  # fmt: skip
    play: Annotated[bool | None, for_output("--play/--no-play -p", SWITCH, "Play while generating.", main=True)] = None
    audio_device: Annotated[
        str | None,
        for_output("--audio-device", TEXT, "Sound output; list shows them.", "NAME|INDEX|list", shown="system default"),
    ] = None
    no_clobber: Annotated[bool, for_output("--no-clobber", SWITCH, "Do not overwrite existing files.")] = False


ASR_MODEL = Setting(
    "--asr-model", TEXT, "Recogniser: base, small, ... or a folder (faster-whisper), or hf:ORG/REPO.", "NAME|DIR",
    group="output",
    needs=("--transcribe", "--karaoke", "--verify asr", "--subs words", "--subs-by words"),
)  # fmt: skip
"""For the times of words, `clone --transcribe` and `batch --verify asr`."""


@dataclass(frozen=True)
class Results(Output):
    """Where sound and other files go, and which process makes the sound."""

    subs: Annotated[
        str | None,
        for_output(
            "--subs",
            TARGET,
            "Write subtitles (.srt, .vtt or .json); -: .srt on stdout; words: all three, word by word, beside -o.",
            "PATH|-|words",
            main=True,
        ),
    ] = None
    subs_by: Annotated[
        str,
        for_output(
            "--subs-by", one_of("sentence", "words"), "Subtitles by sentence, or with the time of each word.",
            needs=("--subs",),
        ),
    ] = "sentence"  # fmt: skip
    asr_model: Annotated[str | None, ASR_MODEL] = None
    codes: Annotated[str | None, for_output("--codes", TARGET, "Save the codec codes as safetensors.", "PATH")] = None
    via: Annotated[
        str,
        for_machine(
            "--via",
            VIA,
            "Speak through a running omnitts serve; auto: yours, if there is one.",
            "auto|off|URL",
            preset=True,
        ),
    ] = "auto"
    dry_run: Annotated[bool, for_text("--dry-run", SWITCH, "Show how the text is split; load no model.", main=True)] = (
        False
    )
    max_hours: Annotated[
        float | str,
        for_text(
            "--max-hours",
            either("off", number(0.01, 100_000)),
            "Ask before more hours of speech from files; refuse without a terminal.",
            "N|off",
        ),
    ] = 100.0


@dataclass(frozen=True)
class Machine:
    """What it runs on."""

    device: Annotated[str, for_machine("-d --device", DEVICE, f"{DEVICE_NAMES}.", "NAME", main=True, preset=True)] = (
        "auto"
    )
    dtype: Annotated[
        str,
        for_machine(
            "--dtype",
            one_of("auto", "q8", "bf16", "fp16", "fp32"),
            "Weight precision; q8: 8 bits.",
            preset=True,
        ),
    ] = "auto"
    slots: Annotated[
        int | str,
        for_machine(
            "-b --slots --batch-size",
            either("auto", SLOTS),
            "Sentences or answers generated at the same time.",
            "N|auto",
            preset=True,
        ),
    ] = "auto"
    max_memory: Annotated[
        int | None,
        for_machine(
            "--max-memory",
            BYTES,
            "Memory for the model and its slots: 3GB.",
            "SIZE",
            shown="what is free on the device",
            preset=True,
        ),
    ] = None
    first_chunk: Annotated[
        int, for_machine("--first-chunk", whole(1, 100), "First chunk size, in frames.", "N", preset=True)
    ] = 1
    chunk: Annotated[
        int, for_machine("--chunk", whole(1, 100), "Maximum size of later chunks, in frames.", "N", preset=True)
    ] = 16
    threads: Annotated[
        int | None, for_machine("-t --threads", whole(1, 1024), "CPU threads.", "N", shown="physical cores; 1 for tiny")
    ] = None
    exact: Annotated[
        bool,
        for_machine(
            "--exact",
            SWITCH,
            "Make the sound independent of what else is generated at the same time (slower).",
            preset=True,
        ),
    ] = False


@dataclass(frozen=True)
class Intent:
    """The preset."""

    preset: Annotated[
        str | None,
        for_machine(
            "--preset",
            TEXT,
            "fast, live, studio, audiobook, batch, or your own.",
            "NAME",
            main=True,
            project=True,
            complete="presets",
        ),
    ] = None


@dataclass(frozen=True)
class Network:
    """Whether the network may be used."""

    offline: Annotated[bool, for_machine("--offline", SWITCH, "Make no network call.")] = False


@dataclass(frozen=True)
class Messages:
    """What is printed."""

    quiet: Annotated[bool, for_messages("-q --quiet", SWITCH, "Print errors only.", main=True)] = False
    verbose: Annotated[bool, for_messages("--verbose", SWITCH, "Print more details.")] = False
    debug: Annotated[bool, for_messages("--debug", SWITCH, "Also print tracebacks of internal errors.")] = False
    progress: Annotated[
        str, for_messages("--progress", one_of("auto", "bar", "plain", "json", "none"), "Progress on stderr.")
    ] = "auto"
    json: Annotated[bool, for_messages("--json", SWITCH, "Print one JSON object per result.", main=True)] = False
    color: Annotated[
        str, for_messages("--color", one_of("auto", "always", "never"), "Colour on stderr.", project=True)
    ] = "auto"
    no_input: Annotated[bool, for_messages("--no-input", SWITCH, "Never prompt.")] = False


@dataclass(frozen=True)
class Folder:
    """Where the sound of several inputs goes."""

    output_dir: Annotated[
        str | None,
        for_output(
            "-O --output-dir", TEXT, "Folder for one sound file per input file, or per chapter of a book.", "DIR"
        ),
    ] = None


@dataclass(frozen=True)
class Book:
    """Chapters, cover and tags of a book; voices of a dialogue."""

    chapters: Annotated[
        str | None, for_text("--chapters", TEXT, "Speak only these chapters, such as 1-3,7.", "LIST")
    ] = None
    list_chapters: Annotated[
        bool, for_text("--list-chapters", SWITCH, "List the chapters of a book; load no model.", main=True)
    ] = False
    chapter_level: Annotated[
        int | None,
        for_text(
            "--chapter-level",
            whole(1, 6),
            "Headings down to this level begin a chapter.",
            "N",
            shown="the highest level that occurs twice",
        ),
    ] = None
    chapter_gap: Annotated[int, for_text("--chapter-gap", whole(0, 60_000), "Silence between chapters.", "MS")] = 1500
    cast: Annotated[
        str | None, for_voice("--cast", TEXT, "JSON file of the voices of a dialogue, by name.", "FILE", main=True)
    ] = None
    dialogue: Annotated[bool, for_voice("--dialogue", SWITCH, "Switch voices at [voice: NAME] in the text.")] = False
    cover: Annotated[
        str | None, for_output("--cover", TEXT, "JPEG or PNG file as the book's cover.", "FILE", shown="the EPUB's")
    ] = None
    title: Annotated[str | None, for_output("--title", TEXT, "Title of the book.", "TEXT", shown="the book's")] = None
    author: Annotated[str | None, for_output("--author", TEXT, "Author of the book.", "TEXT", shown="the book's")] = (
        None
    )
    work: Annotated[
        str | None,
        for_output(
            "--work", TEXT, "Folder that keeps finished speech, to resume a book.", "DIR", shown="the user's cache"
        ),
    ] = None


@dataclass(frozen=True)
class Live:
    """How text is spoken that is still arriving."""

    live: Annotated[bool, for_voice("--live", SWITCH, "Speak word by word while the text arrives.", main=True)] = False
    karaoke: Annotated[bool, for_output("--karaoke", SWITCH, "Show the words; highlight the one being spoken.")] = False


SHARED = (TextIn, Speech, Results, Machine, Intent, Network, Messages)
"""The settings that most commands share and `omnitts config` sets."""
