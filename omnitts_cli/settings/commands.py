"""Settings of one command: the clip of clone, the takes of design, the server, the figures of bench."""

from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any

from omnitts_cli.settings.corpus import Corpus, Verification, setting_of
from omnitts_cli.settings.environment import EMBEDDED
from omnitts_cli.settings.setting import (
    ANY_TEXT,
    SWITCH,
    TARGET,
    TEXT,
    Setting,
    ValueKind,
    either,
    megabytes,
    number,
    one_of,
    seconds,
    whole,
)
from omnitts_cli.settings.table import ASR_MODEL, LANGUAGE, SHARED, Book, Folder, Live, Output, Results, Speech

for_voice = partial(Setting, group="voice")
for_files = partial(Setting, group="output")
for_text = partial(Setting, group="text")
for_sampling = partial(Setting, group="sampling")
for_load = partial(Setting, group="load")
for_server = partial(Setting, group="server")
for_request = partial(Setting, group="server", needs=("--url",))
for_report = partial(Setting, group="report")


@dataclass(frozen=True)
class Clip:
    """The clip to clone, and what is known about it."""

    ref_audio: Annotated[
        tuple[str, ...],
        for_voice(
            "-r --ref-audio",
            TEXT,
            "Clip of one speaker, 3 to 30 s; - is stdin. Repeatable.",
            "PATH|-",
            many=True,
            main=True,
        ),
    ] = ()
    ref_text: Annotated[
        tuple[str, ...],
        for_voice(
            "--ref-text", ANY_TEXT, "Transcript of the clip, or @FILE. Repeatable.", "TEXT|@FILE", many=True, main=True
        ),
    ] = ()
    transcribe: Annotated[
        bool, for_voice("--transcribe", SWITCH, "Transcribe the clip (needs faster-whisper).", main=True)
    ] = False
    ref_start: Annotated[
        float | None,
        for_voice("--ref-start", number(0, 1e6), "Use the clip from this time on.", "S", shown="its start"),
    ] = None
    ref_end: Annotated[
        float | None, for_voice("--ref-end", number(0, 1e6), "Use the clip up to this time.", "S", shown="its end")
    ] = None
    ref_pad: Annotated[float, for_voice("--ref-pad", number(0, 5), "Silence to append to the clip.", "S")] = 0.0
    save_voice: Annotated[
        str | None, for_voice("--save-voice", TEXT, "Save the voice for say -v NAME.", "NAME", main=True)
    ] = None
    consent: Annotated[
        str | None,
        for_voice(
            "--consent", TEXT, "Who consented, and when; stored with the voice.", "TEXT", needs=("--save-voice",)
        ),
    ] = None
    check: Annotated[
        bool, for_voice("--check/--no-check", SWITCH, "Check the clip for silence, noise and clipping.")
    ] = True


@dataclass(frozen=True)
class SavedClip(Clip):
    """The clip of `voices save`, which has no other use for a recogniser."""

    asr_model: Annotated[str | None, replace(ASR_MODEL, shown="small")] = None


for_tuning = partial(Setting, group="voice")


@dataclass(frozen=True)
class Tuning:
    """What a tuned voice is called, and how it is learned."""

    name: Annotated[str | None, for_tuning("--name", TEXT, "Name for the voice.", "NAME", main=True)] = None
    consent: Annotated[
        str | None,
        for_tuning("--consent", TEXT, "Who agreed, and when; stored with the voice.", "TEXT", main=True),
    ] = None
    licence: Annotated[str | None, for_tuning("--licence", TEXT, "Licence of the voice; stored with it.", "TEXT")] = (
        None
    )
    language: Annotated[
        str | None, for_tuning("-l --language --lang", TEXT, "Language of the recordings.", "CODE", main=True)
    ] = None
    output_dir: Annotated[
        str | None,
        for_files("-O --output-dir", TEXT, "Folder of the run, which the same command continues.", "DIR", main=True),
    ] = None
    epochs: Annotated[
        int, for_tuning("--epochs", whole(1, 1000), "Maximum passes over the recordings.", "N", main=True)
    ] = 6
    minutes: Annotated[
        float | None, for_tuning("--minutes", number(0.01, 1e5), "Maximum time to learn.", "N", main=True)
    ] = None
    transcribe: Annotated[
        bool,
        for_tuning(
            "--transcribe",
            SWITCH,
            "Transcribe clips that have no text, cut long recordings, and count word errors of the result.",
            main=True,
        ),
    ] = False
    allow: Annotated[
        str | None,
        for_tuning(
            "--allow",
            TEXT,
            "Checks that leave nothing out: clipped, duplicate, misfit, misheard, too-short.",
            "WHAT,...",
        ),
    ] = None
    asr_model: Annotated[str | None, replace(ASR_MODEL, shown="small", group="voice")] = None
    rank: Annotated[int, for_tuning("--rank", whole(1, 256), "Rank of the adapter.", "N")] = 16
    rate: Annotated[float | None, for_tuning("--rate", number(1e-7, 0.1), "Highest learning rate.", "N")] = None
    full: Annotated[
        bool, for_tuning("--full", SWITCH, "Teach all weights, not an adapter; the result is a model folder.")
    ] = False
    samples: Annotated[bool, for_tuning("--samples", SWITCH, "Speak three sentences after each epoch.")] = False
    keep: Annotated[
        int, for_tuning("--keep", whole(0, 1000), "Last epochs whose voices stay in the run's folder.", "N")
    ] = 3
    held_out: Annotated[
        float, for_tuning("--held-out", number(0.01, 0.5), "Share of the clips that are not learned.", "N")
    ] = 0.1
    seed: Annotated[int, for_tuning("--seed", whole(0, 2**31 - 1), "Seed of the run.", "N")] = 0
    dry_run: Annotated[
        bool, for_tuning("--dry-run", SWITCH, "Read and check the recordings; learn nothing.", main=True)
    ] = False
    tensorboard: Annotated[
        bool, for_tuning("--tensorboard", SWITCH, "Write the curves for TensorBoard too (pip install tensorboard).")
    ] = False
    rm: Annotated[bool, for_tuning("--rm", SWITCH, "Remove the run of a voice, or in a folder; the voice stays.")] = (
        False
    )


@dataclass(frozen=True)
class Takes:
    """How many takes of a voice, where they go, and whether the voice is saved."""

    candidates: Annotated[
        int, for_voice("--candidates", whole(1, 100), "Number of takes, each with a different seed.", "N", main=True)
    ] = 1
    output_dir: Annotated[
        str | None, for_voice("-O --output-dir", TEXT, "Folder for take-1, take-2 ...", "DIR", main=True)
    ] = None
    save_voice: Annotated[
        str | None, for_voice("--save-voice", TEXT, "Save the voice of the take, by cloning it.", "NAME")
    ] = None


@dataclass(frozen=True)
class Question:
    """What is asked, and how the answer is made."""

    system: Annotated[
        str | None,
        for_text("--system", ANY_TEXT, "System prompt, or @FILE.", "TEXT|@FILE", main=True),
    ] = None
    audio: Annotated[
        str | None,
        for_text("--audio", TEXT, "Recording that precedes the text; - is stdin.", "PATH|-", main=True),
    ] = None
    chat: Annotated[
        str | None,
        for_text("--chat", TEXT, "Continue the conversation in a file of JSON lines.", "FILE", main=True),
    ] = None
    lines: Annotated[
        bool, for_text("--lines", SWITCH, "Answer every line of stdin, one answer per line.", main=True)
    ] = False
    text_only: Annotated[bool, for_text("--text-only", SWITCH, "Answer in text, without speech.")] = False
    max_tokens: Annotated[
        int | None,
        for_sampling(
            "--max-tokens",
            whole(1, 65_536),
            "Maximum tokens of an answer.",
            "N",
            shown="1024, or what fits",
            main=True,
        ),
    ] = None
    context: Annotated[
        int,
        for_sampling("--context", whole(16, 65_536), "Maximum tokens of a conversation with its answer.", "N"),
    ] = 8192
    temperature: Annotated[
        float, for_sampling("--temperature", number(0, 10), "Sampling temperature; 0 is greedy.", "X", main=True)
    ] = 0.0
    top_p: Annotated[
        float,
        for_sampling("--top-p", number(0, 1), "Sample from the most likely tokens, up to this total probability.", "X"),
    ] = 1.0
    top_k: Annotated[
        int, for_sampling("--top-k", whole(0, 1024), "Sample from the K likeliest tokens; 0: from 1024.", "K")
    ] = 0
    seed: Annotated[
        int | None, for_sampling("--seed", whole(0, 2**63 - 1), "Random seed.", "N", shown="random; see --stats")
    ] = None
    stats: Annotated[bool, for_report("--stats", SWITCH, "Print tokens and times on stderr.", main=True)] = False


@dataclass(frozen=True)
class Spoken(Output):
    """Whether the answer is spoken, by whom, and where its sound goes."""

    output: Annotated[
        str | None,
        for_files("-o --output", TARGET, "Sound file of the answer; - is stdout.", "PATH|-", shown="none", main=True),
    ] = None
    output_dir: Annotated[
        str | None, for_files("-O --output-dir", TEXT, "Folder for the sound of --lines: 1.wav, 2.wav ...", "DIR")
    ] = None
    play: Annotated[
        bool | None,
        for_files(
            "--play/--no-play -p",
            SWITCH,
            "Play the answer while it is generated.",
            shown="at a terminal, if possible",
            main=True,
        ),
    ] = None
    voice: Annotated[
        str | None,
        for_voice("-v --voice", TEXT, "Voice of the answer.", "NAME", shown="the model's first", main=True),
    ] = None


@dataclass(frozen=True)
class Thinks:
    """Which model answers."""

    model: Annotated[
        str | None,
        for_voice(
            "-m --model",
            TEXT,
            "omni, a folder, or hf:ORG/REPO; with --llm, the model that speaks.",
            "NAME|DIR",
            shown="omni; with --llm tiny",
            main=True,
            complete="models",
        ),
    ] = None
    llm: Annotated[
        str | None,
        for_voice(
            "--llm", TEXT, "Chat model that answers in place of omni; URL: of a server with OpenAI's chat API.",
            "hf:ORG/REPO|URL", main=True,
        ),
    ] = None  # fmt: skip


MODES = ("voice", "clone", "design")
LIMITS = ("ttfp", "audible", "e2el", "rtf", "gap", "stutters")
FORMER_LIMITS = {"ttfa": "ttfp"}


def numbers(kind: ValueKind, words: str, usual: str) -> ValueKind:
    """Comma-separated values; sorted, without duplicates."""

    def parse(text: str) -> tuple[Any, ...]:
        return tuple(sorted({kind.read(part) for part in text.split(",")}))

    return ValueKind(words, parse, lambda found: bool(found) and all(kind.accepts(one) for one in found), usual=usual)


def parse_limits(text: str) -> dict[str, float]:
    pairs = [part.partition(":") for part in text.split(",")]
    limits = {FORMER_LIMITS.get(name, name): number(0, 1e9).read(value) for name, _, value in pairs}
    if any(name not in LIMITS for name in limits):
        raise ValueError(text)
    return limits


LEVELS = numbers(whole(1, 1024), "comma-separated whole numbers, 1 to 1024", "1,4,8")
PERCENTILES = numbers(number(0, 100), "comma-separated numbers, 0 to 100", "50,99")
GOODPUT = ValueKind("limits such as ttfp:300,rtf:1", parse_limits, lambda value: isinstance(value, dict), usual="rtf:1")


@dataclass(frozen=True)
class Load:
    """How many requests, and how fast."""

    concurrency: Annotated[
        tuple[int, ...] | None,
        for_load(
            "-c --concurrency",
            LEVELS,
            "Requests in flight, one level after another.",
            "LIST",
            shown="1,4,10",
            main=True,
        ),
    ] = None
    arrivals: Annotated[
        str,
        for_load(
            "--arrivals",
            one_of("together", "apart"),
            "Whether users begin together.",
            needs=("--frames",),
            main=True,
        ),
    ] = "together"
    rate: Annotated[
        float | None, for_load("--rate", number(0.001, 100_000), "Open loop: requests per second.", "R", main=True)
    ] = None
    burstiness: Annotated[
        float,
        for_load(
            "--burstiness", number(0.01, 1000), "Below 1: burstier arrivals (with --rate).", "B", needs=("--rate",)
        ),
    ] = 1.0
    requests: Annotated[
        int | None,
        for_load(
            "-n --requests", whole(1, 1_000_000), "Requests per level.", "N", shown="4 x level, at least 8", main=True
        ),
    ] = None
    duration: Annotated[
        float | None, for_load("--duration", number(0.1, 86_400), "Run each level for S seconds.", "S", main=True)
    ] = None
    warmup: Annotated[
        int | None,
        for_load(
            "--warmup", whole(0, 10_000), "Warm-up requests before each level.", "N", shown="one round, at least 2"
        ),
    ] = None
    frames: Annotated[
        int | None,
        for_load("--frames", whole(1, 20_000), "Generate exactly N frames per request.", "N", main=True),
    ] = None
    seed: Annotated[int, for_load("--seed", whole(0, 2**62), "Random seed of the requests.", "N", shown="0")] = 0


@dataclass(frozen=True)
class What:
    """Which voice speaks which texts."""

    model: Annotated[str | None, setting_of(Speech, "model")] = None
    mode: Annotated[
        str | None, for_load("--mode", one_of(*MODES), "Kind of request.", shown="the first one supported")
    ] = None
    voice: Annotated[str | None, for_load("-v --voice", TEXT, "Voice of the model.", "NAME", shown="the first")] = None
    style: Annotated[str | None, setting_of(Speech, "style")] = None
    ref_audio: Annotated[
        str | None, for_load("-r --ref-audio", TEXT, "Clip for --mode clone.", "PATH", shown="6 s of synthetic tones")
    ] = None
    ref_text: Annotated[
        str | None,
        for_load("--ref-text", TEXT, "Transcript of the clip; clones with its frames.", "TEXT"),
    ] = None
    ref_fresh: Annotated[bool, for_load("--ref-fresh", SWITCH, "Encode the clip again for every request.")] = False
    language: Annotated[
        str,
        for_load(
            "-l --language --lang",
            LANGUAGE,
            "Language of the texts.",
            "CODE",
            shown="all that the model supports",
        ),
    ] = "auto"
    texts: Annotated[str | None, for_load("--texts", TEXT, "File with one text per line.", "FILE")] = None
    length: Annotated[
        str, for_load("--length", one_of("short", "medium", "long", "mix"), "Length of the built-in texts.")
    ] = "mix"
    vs: Annotated[
        str | None,
        for_load(
            "--vs",
            one_of("eager", "cpu", "nobuckets", "engine"),
            "Also measure, in turn, a variant of the engine; with --url: the engine here.",
        ),
    ] = None


@dataclass(frozen=True)
class Server:
    """A server instead of a local model."""

    url: Annotated[
        str | None, for_server("--url", TEXT, "Server with OpenAI's /v1/audio/speech.", "URL", main=True)
    ] = None
    api_key_file: Annotated[str | None, for_request("--api-key-file", TEXT, "File that holds the API key.", "PATH")] = (
        None
    )
    stream: Annotated[bool, for_request("--stream/--no-stream", SWITCH, "Request streamed audio.")] = True
    wire: Annotated[str, for_request("--wire", one_of("pcm", "wav"), "Audio format on the wire.")] = "pcm"
    wire_rate: Annotated[
        int,
        for_request("--wire-rate", whole(4000, 384_000), "Sample rate of pcm, if the server does not send it.", "HZ"),
    ] = 24_000
    body: Annotated[str | None, for_request("--body", TEXT, "More fields for the request body.", "JSON|@FILE")] = None


@dataclass(frozen=True)
class Answer:
    """What happens with the results."""

    percentiles: Annotated[
        tuple[float, ...], for_report("--percentiles", PERCENTILES, "Percentiles to show.", "LIST", shown="50,90,99")
    ] = (50, 90, 99)
    goodput: Annotated[
        dict[str, float] | None,
        for_report(
            "--goodput",
            GOODPUT,
            "Share of requests within limits: ttfp, audible, e2el, gap (ms), rtf, stutters.",
            "LIMITS",
        ),
    ] = None
    save: Annotated[str | None, for_report("--save", TEXT, "Save the report as JSON.", "FILE", main=True)] = None
    append: Annotated[
        bool, for_report("--append", SWITCH, "Append the report to the file, as one line.", needs=("--save",))
    ] = False
    compare: Annotated[
        str | None,
        for_report("--compare", TEXT, "Compare with a saved report; exit code 9 if worse.", "OLD", main=True),
    ] = None
    tolerance: Annotated[float, for_report("--tolerance", number(0, 1000), "Tolerance of --compare.", "PERCENT")] = 5.0
    report_format: Annotated[
        str, for_report("--format", one_of("table", "md", "csv", "json"), "Format of the report.", main=True)
    ] = "table"
    plot: Annotated[
        str | None,
        for_report("--plot", TEXT, "Plot latency and throughput; - draws in the terminal.", "PATH|-"),
    ] = None
    save_audio: Annotated[str | None, for_report("--save-audio", TEXT, "Save the audio of every request.", "DIR")] = (
        None
    )


for_listening = partial(Setting, group="server")
for_limits = partial(Setting, group="limits")


@dataclass(frozen=True)
class Serving:
    """Where `omnitts serve` listens, which models it holds, and what it allows."""

    model: Annotated[
        tuple[str, ...],
        Setting(
            "-m --model", TEXT, "Model; a bare size stands for its variants. Repeatable.", "NAME|DIR", many=True,
            shown=EMBEDDED, group="voice", main=True, complete="models",
        ),
    ] = ()  # fmt: skip
    host: Annotated[str, for_listening("--host", TEXT, "Address to listen on.", "ADDRESS", main=True)] = "127.0.0.1"
    port: Annotated[int, for_listening("--port", whole(0, 65_535), "Port; 0: a free one.", "N", main=True)] = 8000
    socket: Annotated[
        str | None,
        for_listening("--socket", TEXT, "Unix socket, or off.", "PATH|off", shown="serve.sock of this user", main=True),
    ] = None
    api_key_file: Annotated[
        str | None, for_listening("--api-key-file", TEXT, "File of lines 'name:key'.", "PATH", main=True)
    ] = None
    insecure: Annotated[bool, for_listening("--insecure", SWITCH, "Allow other machines without a key.", main=True)] = (
        False
    )
    allowed_host: Annotated[
        tuple[str, ...],
        for_listening("--allowed-host", TEXT, "Host name that requests may use. Repeatable.", "HOST", many=True),
    ] = ()
    cors_origin: Annotated[
        tuple[str, ...],
        for_listening(
            "--cors-origin", TEXT, "Origin whose web pages may use this server. Repeatable.", "ORIGIN", many=True
        ),
    ] = ()
    allow_ref_host: Annotated[
        tuple[str, ...],
        for_listening("--allow-ref-host", TEXT, "Host that URLs in ref_audio may name. Repeatable.", "HOST", many=True),
    ] = ()
    allow_upload: Annotated[
        str,
        for_listening(
            "--allow-upload", one_of("auto", "on", "off"), "Let clients save and delete voices; auto: on loopback only."
        ),
    ] = "auto"
    voices_dir: Annotated[
        str | None, for_listening("--voices-dir", TEXT, "Folder of saved voices.", "DIR", shown="the user's")
    ] = None
    wyoming: Annotated[
        str | None,
        for_listening(
            "--wyoming", TEXT, "Also serve Home Assistant (Wyoming); stdio:// serves nothing else.",
            "HOST:PORT|stdio://", shown="off", main=True,
        ),
    ] = None  # fmt: skip
    preload: Annotated[
        str, for_listening("--preload", one_of("first", "all", "none"), "Models to load at start.", main=True)
    ] = "first"
    idle_unload: Annotated[
        float | str,
        for_listening(
            "--idle-unload", either("off", seconds()), "Unload a model after this time without requests.", "TIME|off",
            shown="15m", main=True,
        ),
    ] = 900.0  # fmt: skip
    tuned_voices: Annotated[
        int, for_limits("--tuned-voices", whole(0, 1000), "Tuned voices that are loaded at a time.", "N")
    ] = 2
    max_queue: Annotated[int, for_limits("--max-queue", whole(1, 100_000), "Requests that may wait.", "N")] = 512
    max_per_client: Annotated[
        int, for_limits("--max-per-client", whole(0, 100_000), "Requests of one client at a time; 0: any number.", "N")
    ] = 0
    max_chars: Annotated[int, for_limits("--max-chars", whole(1, 1_000_000), "Longest text, in characters.", "N")] = (
        20_000
    )
    max_upload: Annotated[int, for_limits("--max-upload", megabytes(1, 100), "Largest clip.", "SIZE", shown="10MB")] = (
        10_000_000
    )
    queue_timeout: Annotated[float, for_limits("--queue-timeout", seconds(), "Longest wait for a slot.", "TIME")] = 30.0
    request_timeout: Annotated[
        float, for_limits("--request-timeout", seconds(), "Longest time for one request.", "TIME")
    ] = 300.0
    slow_timeout: Annotated[
        float, for_limits("--slow-timeout", seconds(), "Disconnect clients that read nothing for this time.", "TIME")
    ] = 60.0
    drain: Annotated[
        float, for_limits("--drain", seconds(), "Time for running requests to finish at shutdown.", "TIME")
    ] = 30.0
    web: Annotated[bool, for_listening("--web/--no-web", SWITCH, "Serve the page at /.")] = True
    metrics: Annotated[bool, for_listening("--metrics/--no-metrics", SWITCH, "Serve /metrics.")] = True
    log_texts: Annotated[bool, for_listening("--log-texts", SWITCH, "Log the texts of requests.")] = False
    ray: Annotated[
        str | None,
        for_listening("--ray", TEXT, "Several engines: local, or a Ray cluster.", "local|ADDRESS", main=True),
    ] = None
    replicas: Annotated[
        int | str,
        for_listening(
            "--replicas", either("auto", whole(1, 10_000)), "Engines of --ray; auto: as many as the load needs.",
            "N|auto",
        ),
    ] = 1  # fmt: skip


@dataclass(frozen=True)
class Hosted:
    """What hosts of `omnitts mcp` may do, and where its sound goes."""

    allow_folder: Annotated[
        tuple[str, ...],
        for_files(
            "--allow-folder", TEXT, "Folder in which the tool save may create files. Repeatable.", "DIR", many=True,
            shown="none", main=True,
        ),
    ] = ()  # fmt: skip
    audio_device: Annotated[str | None, setting_of(Results, "audio_device")] = None
    via: Annotated[str, setting_of(Results, "via")] = "auto"


@dataclass(frozen=True)
class Lengths:
    """Lengths of measured questions and answers."""

    prompt_tokens: Annotated[
        int, for_load("--prompt-tokens", whole(2, 60_000), "With ask: tokens of a question.", "N")
    ] = 2500
    answer_tokens: Annotated[
        int, for_load("--answer-tokens", whole(2, 60_000), "With ask: tokens of an answer.", "N")
    ] = 100
    spoken: Annotated[
        bool, for_load("--spoken", SWITCH, "With ask: also generate speech, 2.5 frames per answer token.")
    ] = False
    recording: Annotated[
        float, for_load("--recording", number(0, 600), "With ask: seconds of the question that are a recording.", "S")
    ] = 0.0


BENCH = (Load, What, Server, Answer, Lengths)
ASK = (Question, Spoken, Thinks)
ALL = (*SHARED, Clip, Folder, Book, Takes, Tuning, Live, Serving, Hosted, *BENCH, Corpus, Verification, *ASK)
"""Every group of settings there is."""
