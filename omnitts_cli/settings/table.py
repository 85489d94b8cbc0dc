"""The table of settings. Options, presets, settings files and the engine's settings are views of it."""

from dataclasses import dataclass, replace
from functools import cache

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
    carries,
    either,
    fields_of,
    fields_with,
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
OTHER_FORMATS = {"m4b": "leave -F out; -o NAME.m4b writes it", "aac": "-F m4a"}
KILOBITS = replace(whole(8, 320), meant={f"{rate}k": f"--bitrate {rate}" for rate in range(8, 321)})
INPUT_FORMATS = ("auto", "text", "md", "html", "ssml", "srt", "epub", "article")

for_text = fields_with(group="text")
for_voice = fields_with(group="voice")
for_sampling = fields_with(group="sampling", project=True)
for_output = fields_with(group="output")
for_machine = fields_with(group="machine")
for_messages = fields_with(group="messages")


@dataclass(frozen=True)
class TextIn:
    """Where the text comes from, and how it is read and split."""

    file: tuple[str, ...] = for_text(
        (), "-f --file", TEXT, "Text file; - is stdin. Repeatable.", "PATH", many=True, main=True
    )
    input_format: str = for_text(
        "auto", "--input-format", one_of(*INPUT_FORMATS, meant=NO_TEXT), "Input format.",
        shown="by suffix, else text", project=True,
    )  # fmt: skip
    encoding: str | None = for_text(
        None, "--encoding", TEXT, "Character encoding.", "NAME", shown="UTF-8, or by BOM", project=True
    )
    split: str = for_text(
        "auto", "--split", one_of("auto", "line", "paragraph", "none"), "Where to split the text.",
        preset=True, project=True,
    )  # fmt: skip
    sentence_gap: int = for_text(
        250, "--sentence-gap", whole(0, 60_000), "Silence between sentences.", "MS", preset=True, project=True
    )
    paragraph_gap: int = for_text(
        600, "--paragraph-gap", whole(0, 60_000), "Silence between paragraphs.", "MS", preset=True, project=True
    )
    lexicon: tuple[str, ...] = for_text(
        (), "--lexicon", TEXT, "File of lines 'word<TAB>spoken form'. Repeatable.", "FILE", many=True
    )
    normalize: bool | None = for_text(
        None, "--normalize/--no-normalize", SWITCH, "Spell out numbers, dates, units and signs.",
        shown="on for models that cannot read digits", preset=True, project=True,
    )  # fmt: skip
    unreadable: str = for_text(
        "skip", "--unreadable", one_of("skip", "spell", "fail"),
        "Words in a script that the model cannot read: leave out, spell or refuse.",
        preset=True, project=True,
    )  # fmt: skip


@dataclass(frozen=True)
class Model:
    """Which model speaks."""

    model: str | None = for_voice(
        None, "-m --model", TEXT, "tiny, 0.6b, 1.7b, omni, a folder, hf:ORG/REPO.", "NAME|DIR",
        shown=EMBEDDED, main=True, preset=True, complete="models",
    )  # fmt: skip


@dataclass(frozen=True)
class Speech(Model):
    """Who speaks and how."""

    voice: str | None = for_voice(
        None, "-v --voice", TEXT, "Voice, .voice file, or blend: a:60,b:40.", "NAME|FILE",
        shown="the first", main=True, preset=True, project=True, complete="voices",
    )  # fmt: skip
    language: str = for_voice(
        "auto", "-l --language --lang", LANGUAGE,
        "Language of the text, such as en or zh; auto: the model decides; detect: guess it.", "CODE",
        main=True, preset=True, project=True,
    )  # fmt: skip
    style: str | None = for_voice(
        None, "-i --style --instruct", ANY_TEXT, "How to speak, such as 'whisper it'; not with tiny.", "TEXT",
        main=True, preset=True, project=True,
    )  # fmt: skip
    speed: float = for_voice(
        1.0, "-s --speed", number(0.5, 2), "Speaking rate, 0.5 to 2; pitch is unchanged.", "X",
        main=True, preset=True, project=True,
    )  # fmt: skip
    wpm: int | None = for_voice(
        None, "--wpm", whole(SLOWEST_WPM, FASTEST_WPM),
        f"Words a minute, {SLOWEST_WPM} to {FASTEST_WPM}, in place of --speed; {USUAL_WPM} is --speed 1.", "N",
        shown="by --speed", preset=True, project=True,
    )  # fmt: skip
    volume: float = for_output(0.0, "--volume", number(-60, 40), "Gain.", "DB", preset=True, project=True)
    loudness: float | str = for_output(
        "off", "--loudness", either("off", number(-70, 0, usual="-16")),
        "Normalise loudness to this level; podcasts use -16.", "LUFS|off",
        shown="off, as it needs the whole sound first", preset=True, project=True,
    )  # fmt: skip
    seed: int | None = for_sampling(
        None, "--seed", whole(0, 2**63 - 1), "Same seed, text and options: same speech.", "N",
        shown="random; printed on a terminal and in --json", main=True,
    )  # fmt: skip
    temperature: float | None = for_sampling(
        None, "--temperature", number(0, 10), "Sampling temperature; 0 is greedy.", "X",
        shown="the model's", preset=True,
    )  # fmt: skip
    top_p: float | None = for_sampling(
        None, "--top-p", number(0, 1), "Sample from the likeliest codes with this total probability.", "X",
        shown="the model's", preset=True,
    )  # fmt: skip
    top_k: int | None = for_sampling(
        None, "--top-k", whole(0, 1_000_000), "Sample from the K likeliest codes; 0: from all.", "K",
        shown="the model's", preset=True,
    )  # fmt: skip
    repetition_penalty: float | None = for_sampling(
        None, "--repetition-penalty", number(0.01, 10), "Above 1: fewer repetitions.", "X",
        shown="the model's", preset=True,
    )  # fmt: skip
    text_mode: str | None = for_sampling(
        None, "--text-mode", one_of("whole", "streamed"), "Give the model a whole sentence at once, or word by word.",
        shown="model default", preset=True,
    )  # fmt: skip
    max_frames: int | None = for_sampling(
        None, "--max-frames", whole(1, 1_000_000), "Stop a sentence after N frames (12.5 a second).", "N",
        shown="100, plus 12 per token of text",
    )  # fmt: skip
    max_seconds: float | None = for_sampling(
        None, "--max-seconds", number(0.001, 100_000), "The same limit in seconds.", "S"
    )
    retries: int = for_sampling(
        2, "--retries", whole(0, 20), "Retries when a sentence runs away or stays silent.", "N", preset=True
    )
    safe: bool | None = for_sampling(
        None, "--safe/--no-safe", SWITCH,
        "Hold each sentence back until it has been checked: that it ended, and is not silent.",
        shown="on for files", preset=True,
    )  # fmt: skip

    def __post_init__(self) -> None:
        if self.wpm is not None:
            object.__setattr__(self, "speed", self.wpm / USUAL_WPM)


@dataclass(frozen=True)
class Output:
    """Where the sound goes."""

    output: str | None = for_output(
        None, "-o --output", TARGET, "Output file; - is stdout.", "PATH|-",
        shown="play; without a sound card, write speech.wav", main=True,
    )  # fmt: skip
    format: str | None = for_output(
        None, "-F --format", one_of("wav", "raw", "flac", "mp3", "opus", "ogg", "m4a", meant=OTHER_FORMATS),
        "wav, raw, flac, mp3, opus, ogg, m4a.", "FORMAT", shown="by suffix", main=True, preset=True, project=True,
    )  # fmt: skip
    sample_rate: int | None = for_output(
        None, "--sample-rate", whole(8000, 192_000), "Output sample rate, 8000 to 192000.", "HZ",
        shown="the model's", preset=True, project=True,
    )  # fmt: skip
    subtype: str = for_output(
        "pcm16", "--subtype", one_of("pcm16", "pcm24", "float"), "Sample format of wav and flac.",
        preset=True, project=True,
    )  # fmt: skip
    bitrate: int | None = for_output(
        None, "--bitrate", KILOBITS, "Kilobits a second of mp3, opus and m4a.", "N",
        shown="usual for speech", preset=True, project=True,
    )  # fmt: skip
    quality: float | None = for_output(
        None, "--quality", number(0, 10), "Quality of mp3, ogg and opus, 10 is best; the bitrate varies.", "X",
        shown="the encoder's own", preset=True, project=True,
    )  # fmt: skip
    play: bool | None = for_output(None, "--play/--no-play -p", SWITCH, "Play while generating.", main=True)
    audio_device: str | None = for_output(
        None, "--audio-device", TEXT, "Sound output; list shows them.", "NAME|INDEX|list", shown="system default"
    )
    no_clobber: bool = for_output(False, "--no-clobber", SWITCH, "Do not overwrite existing files.")


ASR_MODEL = Setting(
    "--asr-model", TEXT, "Recogniser: base, small, ... or a folder (faster-whisper), or hf:ORG/REPO.", "NAME|DIR",
    group="output",
    needs=("--transcribe", "--karaoke", "--verify asr", "--subs words", "--subs-by words"),
)  # fmt: skip
"""For the times of words, `clone --transcribe` and `batch --verify asr`."""


@dataclass(frozen=True)
class Results(Output):
    """Where sound and other files go, and which process makes the sound."""

    subs: str | None = for_output(
        None, "--subs", TARGET,
        "Write subtitles (.srt, .vtt or .json); -: .srt on stdout; words: all three, word by word, beside -o.",
        "PATH|-|words",
        main=True,
    )  # fmt: skip
    subs_by: str = for_output(
        "sentence", "--subs-by", one_of("sentence", "words"), "Subtitles by sentence, or with the time of each word.",
        needs=("--subs",),
    )  # fmt: skip
    asr_model: str | None = carries(None, ASR_MODEL)
    codes: str | None = for_output(None, "--codes", TARGET, "Save the codec codes as safetensors.", "PATH")
    via: str = for_machine(
        "auto", "--via", VIA, "Speak through a running omnitts serve; auto: yours, if there is one.", "auto|off|URL",
        preset=True,
    )  # fmt: skip
    dry_run: bool = for_text(False, "--dry-run", SWITCH, "Show how the text is split; load no model.", main=True)
    max_hours: float | str = for_text(
        100.0, "--max-hours", either("off", number(0.01, 100_000)),
        "Ask before more hours of speech from files; refuse without a terminal.", "N|off",
    )  # fmt: skip


@dataclass(frozen=True)
class Machine:
    """What it runs on."""

    device: str = for_machine("auto", "-d --device", DEVICE, f"{DEVICE_NAMES}.", "NAME", main=True, preset=True)
    dtype: str = for_machine(
        "auto", "--dtype", one_of("auto", "q8", "bf16", "fp16", "fp32"), "Weight precision; q8: 8 bits.", preset=True
    )
    slots: int | str = for_machine(
        "auto", "-b --slots --batch-size", either("auto", SLOTS), "Sentences or answers generated at the same time.",
        "N|auto",
        preset=True,
    )  # fmt: skip
    max_memory: int | None = for_machine(
        None, "--max-memory", BYTES, "Memory for the model and its slots: 3GB.", "SIZE",
        shown="what is free on the device", preset=True,
    )  # fmt: skip
    first_chunk: int = for_machine(1, "--first-chunk", whole(1, 100), "First chunk size, in frames.", "N", preset=True)
    chunk: int = for_machine(16, "--chunk", whole(1, 100), "Maximum size of later chunks, in frames.", "N", preset=True)
    threads: int | None = for_machine(
        None, "-t --threads", whole(1, 1024), "CPU threads.", "N", shown="physical cores; 1 for tiny"
    )
    exact: bool = for_machine(
        False, "--exact", SWITCH, "Make the sound independent of what else is generated at the same time (slower).",
        preset=True,
    )  # fmt: skip


@dataclass(frozen=True)
class Intent:
    """The preset."""

    preset: str | None = for_machine(
        None, "--preset", TEXT, "fast, live, studio, audiobook, batch, or your own.", "NAME",
        main=True, project=True, complete="presets",
    )  # fmt: skip


@dataclass(frozen=True)
class Network:
    """Whether the network may be used."""

    offline: bool = for_machine(False, "--offline", SWITCH, "Make no network call.")


@dataclass(frozen=True)
class Messages:
    """What is printed."""

    quiet: bool = for_messages(False, "-q --quiet", SWITCH, "Print errors only.", main=True)
    verbose: bool = for_messages(False, "--verbose", SWITCH, "Print more details.")
    debug: bool = for_messages(False, "--debug", SWITCH, "Also print tracebacks of internal errors.")
    progress: str = for_messages(
        "auto", "--progress", one_of("auto", "bar", "plain", "json", "none"), "Progress on stderr."
    )
    json: bool = for_messages(False, "--json", SWITCH, "Print one JSON object per result.", main=True)
    color: str = for_messages("auto", "--color", one_of("auto", "always", "never"), "Colour on stderr.", project=True)
    no_input: bool = for_messages(False, "--no-input", SWITCH, "Never prompt.")


@dataclass(frozen=True)
class Folder:
    """Where the sound of several inputs goes."""

    output_dir: str | None = for_output(
        None, "-O --output-dir", TEXT, "Folder for one sound file per input file, or per chapter of a book.", "DIR"
    )


@dataclass(frozen=True)
class Book:
    """Chapters, cover and tags of a book; voices of a dialogue."""

    chapters: str | None = for_text(None, "--chapters", TEXT, "Speak only these chapters, such as 1-3,7.", "LIST")
    list_chapters: bool = for_text(
        False, "--list-chapters", SWITCH, "List the chapters of a book; load no model.", main=True
    )
    chapter_level: int | None = for_text(
        None, "--chapter-level", whole(1, 6), "Headings down to this level begin a chapter.", "N",
        shown="the highest level that occurs twice",
    )  # fmt: skip
    chapter_gap: int = for_text(1500, "--chapter-gap", whole(0, 60_000), "Silence between chapters.", "MS")
    cast: str | None = for_voice(
        None, "--cast", TEXT, "JSON file of the voices of a dialogue, by name.", "FILE", main=True
    )
    dialogue: bool = for_voice(False, "--dialogue", SWITCH, "Switch voices at [voice: NAME] in the text.")
    cover: str | None = for_output(
        None, "--cover", TEXT, "JPEG or PNG file as the book's cover.", "FILE", shown="the EPUB's"
    )
    title: str | None = for_output(None, "--title", TEXT, "Title of the book.", "TEXT", shown="the book's")
    author: str | None = for_output(None, "--author", TEXT, "Author of the book.", "TEXT", shown="the book's")
    work: str | None = for_output(
        None, "--work", TEXT, "Folder that keeps finished speech, to resume a book.", "DIR", shown="the user's cache"
    )


@dataclass(frozen=True)
class Live:
    """How text is spoken that is still arriving."""

    live: bool = for_voice(False, "--live", SWITCH, "Speak word by word while the text arrives.", main=True)
    karaoke: bool = for_output(False, "--karaoke", SWITCH, "Show the words; highlight the one being spoken.")


SHARED = (TextIn, Speech, Results, Machine, Intent, Network, Messages)
"""The settings that most commands share and `omnitts config` sets."""


@cache
def former_options() -> list[str]:
    """Former spellings of options."""
    return [f"--{field.former_key}" for group in SHARED for field in fields_of(group) if field.former_key]
