"""Settings of one command: the clip of clone, the takes of design, the server, the figures of bench."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from omnitts_cli.settings.corpus import Corpus, Verification, same_as
from omnitts_cli.settings.environment import EMBEDDED
from omnitts_cli.settings.setting import (
    ANY_TEXT,
    SWITCH,
    TARGET,
    TEXT,
    ValueKind,
    carries,
    either,
    fields_with,
    megabytes,
    number,
    one_of,
    seconds,
    whole,
)
from omnitts_cli.settings.table import ASR_MODEL, LANGUAGE, SHARED, Book, Folder, Live, Output, Results, Speech

for_voice = fields_with(group="voice")
for_files = fields_with(group="output")
for_text = fields_with(group="text")
for_sampling = fields_with(group="sampling")
for_load = fields_with(group="load")
for_server = fields_with(group="server")
for_request = fields_with(group="server", needs=("--url",))
for_report = fields_with(group="report")


@dataclass(frozen=True)
class Clip:
    """The clip to clone, and what is known about it."""

    ref_audio: tuple[str, ...] = for_voice(
        (), "-r --ref-audio", TEXT, "Clip of one speaker, 3 to 30 s; - is stdin. Repeatable.", "PATH|-",
        many=True, main=True,
    )  # fmt: skip
    ref_text: tuple[str, ...] = for_voice(
        (), "--ref-text", ANY_TEXT, "Transcript of the clip, or @FILE. Repeatable.", "TEXT|@FILE", many=True, main=True
    )
    transcribe: bool = for_voice(
        False, "--transcribe", SWITCH, "Transcribe the clip (needs faster-whisper).", main=True
    )
    ref_start: float | None = for_voice(
        None, "--ref-start", number(0, 1e6), "Use the clip from this time on.", "S", shown="its start"
    )
    ref_end: float | None = for_voice(
        None, "--ref-end", number(0, 1e6), "Use the clip up to this time.", "S", shown="its end"
    )
    ref_pad: float = for_voice(0.0, "--ref-pad", number(0, 5), "Silence to append to the clip.", "S")
    save_voice: str | None = for_voice(None, "--save-voice", TEXT, "Save the voice for say -v NAME.", "NAME", main=True)
    consent: str | None = for_voice(
        None, "--consent", TEXT, "Who consented, and when; stored with the voice.", "TEXT", needs=("--save-voice",)
    )
    check: bool = for_voice(True, "--check/--no-check", SWITCH, "Check the clip for silence, noise and clipping.")


@dataclass(frozen=True)
class SavedClip(Clip):
    """The clip of `voices save`, which has no other use for a recogniser."""

    asr_model: str | None = carries(None, replace(ASR_MODEL, shown="small"))


for_tuning = fields_with(group="voice")


@dataclass(frozen=True)
class Tuning:
    """What a tuned voice is called, and how it is learned."""

    name: str | None = for_tuning(None, "--name", TEXT, "Name for the voice.", "NAME", main=True)
    consent: str | None = for_tuning(
        None, "--consent", TEXT, "Who agreed, and when; stored with the voice.", "TEXT", main=True
    )
    licence: str | None = for_tuning(None, "--licence", TEXT, "Licence of the voice; stored with it.", "TEXT")
    language: str | None = for_tuning(
        None, "-l --language --lang", TEXT, "Language of the recordings.", "CODE", main=True
    )
    output_dir: str | None = for_files(
        None, "-O --output-dir", TEXT, "Folder of the run, which the same command continues.", "DIR", main=True
    )
    epochs: int = for_tuning(6, "--epochs", whole(1, 1000), "Maximum passes over the recordings.", "N", main=True)
    minutes: float | None = for_tuning(None, "--minutes", number(0.01, 1e5), "Maximum time to learn.", "N", main=True)
    transcribe: bool = for_tuning(
        False, "--transcribe", SWITCH,
        "Transcribe clips that have no text, cut long recordings, and count word errors of the result.",
        main=True,
    )  # fmt: skip
    allow: str | None = for_tuning(
        None, "--allow", TEXT, "Checks that leave nothing out: clipped, duplicate, misfit, misheard, too-short.",
        "WHAT,...",
    )  # fmt: skip
    asr_model: str | None = carries(None, replace(ASR_MODEL, shown="small", group="voice"))
    rank: int = for_tuning(16, "--rank", whole(1, 256), "Rank of the adapter.", "N")
    rate: float | None = for_tuning(None, "--rate", number(1e-7, 0.1), "Highest learning rate.", "N")
    full: bool = for_tuning(False, "--full", SWITCH, "Teach all weights, not an adapter; the result is a model folder.")
    samples: bool = for_tuning(False, "--samples", SWITCH, "Speak three sentences after each epoch.")
    keep: int = for_tuning(3, "--keep", whole(0, 1000), "Last epochs whose voices stay in the run's folder.", "N")
    held_out: float = for_tuning(0.1, "--held-out", number(0.01, 0.5), "Share of the clips that are not learned.", "N")
    seed: int = for_tuning(0, "--seed", whole(0, 2**31 - 1), "Seed of the run.", "N")
    dry_run: bool = for_tuning(False, "--dry-run", SWITCH, "Read and check the recordings; learn nothing.", main=True)
    tensorboard: bool = for_tuning(
        False, "--tensorboard", SWITCH, "Write the curves for TensorBoard too (pip install tensorboard)."
    )
    rm: bool = for_tuning(False, "--rm", SWITCH, "Remove the run of a voice, or in a folder; the voice stays.")


@dataclass(frozen=True)
class Takes:
    """How many takes of a voice, where they go, and whether the voice is saved."""

    candidates: int = for_voice(
        1, "--candidates", whole(1, 100), "Number of takes, each with a different seed.", "N", main=True
    )
    output_dir: str | None = for_voice(None, "-O --output-dir", TEXT, "Folder for take-1, take-2 ...", "DIR", main=True)
    save_voice: str | None = for_voice(None, "--save-voice", TEXT, "Save the voice of the take, by cloning it.", "NAME")


@dataclass(frozen=True)
class Question:
    """What is asked, and how the answer is made."""

    system: str | None = for_text(None, "--system", ANY_TEXT, "System prompt, or @FILE.", "TEXT|@FILE", main=True)
    audio: str | None = for_text(
        None, "--audio", TEXT, "Recording that precedes the text; - is stdin.", "PATH|-", main=True
    )
    chat: str | None = for_text(
        None, "--chat", TEXT, "Continue the conversation in a file of JSON lines.", "FILE", main=True
    )
    lines: bool = for_text(False, "--lines", SWITCH, "Answer every line of stdin, one answer per line.", main=True)
    text_only: bool = for_text(False, "--text-only", SWITCH, "Answer in text, without speech.")
    max_tokens: int | None = for_sampling(
        None, "--max-tokens", whole(1, 65_536), "Maximum tokens of an answer.", "N",
        shown="1024, or what fits", main=True,
    )  # fmt: skip
    context: int = for_sampling(
        8192, "--context", whole(16, 65_536), "Maximum tokens of a conversation with its answer.", "N"
    )
    temperature: float = for_sampling(
        0.0, "--temperature", number(0, 10), "Sampling temperature; 0 is greedy.", "X", main=True
    )
    top_p: float = for_sampling(
        1.0, "--top-p", number(0, 1), "Sample from the most likely tokens, up to this total probability.", "X"
    )
    top_k: int = for_sampling(0, "--top-k", whole(0, 1024), "Sample from the K likeliest tokens; 0: from 1024.", "K")
    seed: int | None = for_sampling(
        None, "--seed", whole(0, 2**63 - 1), "Random seed.", "N", shown="random; see --stats"
    )
    stats: bool = for_report(False, "--stats", SWITCH, "Print tokens and times on stderr.", main=True)


@dataclass(frozen=True)
class Spoken(Output):
    """Whether the answer is spoken, by whom, and where its sound goes."""

    output: str | None = for_files(
        None, "-o --output", TARGET, "Sound file of the answer; - is stdout.", "PATH|-", shown="none", main=True
    )
    output_dir: str | None = for_files(
        None, "-O --output-dir", TEXT, "Folder for the sound of --lines: 1.wav, 2.wav ...", "DIR"
    )
    play: bool | None = for_files(
        None, "--play/--no-play -p", SWITCH, "Play the answer while it is generated.",
        shown="at a terminal, if possible", main=True,
    )  # fmt: skip
    voice: str | None = for_voice(
        None, "-v --voice", TEXT, "Voice of the answer.", "NAME", shown="the model's first", main=True
    )


@dataclass(frozen=True)
class Thinks:
    """Which model answers."""

    model: str | None = for_voice(
        None, "-m --model", TEXT, "omni, a folder, or hf:ORG/REPO; with --llm, the model that speaks.", "NAME|DIR",
        shown="omni; with --llm tiny", main=True, complete="models",
    )  # fmt: skip
    llm: str | None = for_voice(
        None, "--llm", TEXT, "Chat model that answers in place of omni; URL: of a server with OpenAI's chat API.",
        "hf:ORG/REPO|URL",
        main=True,
    )  # fmt: skip


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

    concurrency: tuple[int, ...] | None = for_load(
        None, "-c --concurrency", LEVELS, "Requests in flight, one level after another.", "LIST",
        shown="1,4,10", main=True,
    )  # fmt: skip
    arrivals: str = for_load(
        "together", "--arrivals", one_of("together", "apart"), "Whether users begin together.",
        needs=("--frames",), main=True,
    )  # fmt: skip
    rate: float | None = for_load(
        None, "--rate", number(0.001, 100_000), "Open loop: requests per second.", "R", main=True
    )
    burstiness: float = for_load(
        1.0, "--burstiness", number(0.01, 1000), "Below 1: burstier arrivals (with --rate).", "B", needs=("--rate",)
    )
    requests: int | None = for_load(
        None, "-n --requests", whole(1, 1_000_000), "Requests per level.", "N", shown="4 x level, at least 8", main=True
    )
    duration: float | None = for_load(
        None, "--duration", number(0.1, 86_400), "Run each level for S seconds.", "S", main=True
    )
    warmup: int | None = for_load(
        None, "--warmup", whole(0, 10_000), "Warm-up requests before each level.", "N", shown="one round, at least 2"
    )
    frames: int | None = for_load(
        None, "--frames", whole(1, 20_000), "Generate exactly N frames per request.", "N", main=True
    )
    seed: int = for_load(0, "--seed", whole(0, 2**62), "Random seed of the requests.", "N", shown="0")


@dataclass(frozen=True)
class What:
    """Which voice speaks which texts."""

    model: str | None = same_as(Speech, None, "model")
    mode: str | None = for_load(None, "--mode", one_of(*MODES), "Kind of request.", shown="the first one supported")
    voice: str | None = for_load(None, "-v --voice", TEXT, "Voice of the model.", "NAME", shown="the first")
    style: str | None = same_as(Speech, None, "style")
    ref_audio: str | None = for_load(
        None, "-r --ref-audio", TEXT, "Clip for --mode clone.", "PATH", shown="6 s of synthetic tones"
    )
    ref_text: str | None = for_load(None, "--ref-text", TEXT, "Transcript of the clip; clones with its frames.", "TEXT")
    ref_fresh: bool = for_load(False, "--ref-fresh", SWITCH, "Encode the clip again for every request.")
    language: str = for_load(
        "auto", "-l --language --lang", LANGUAGE, "Language of the texts.", "CODE", shown="all that the model supports"
    )
    texts: str | None = for_load(None, "--texts", TEXT, "File with one text per line.", "FILE")
    length: str = for_load("mix", "--length", one_of("short", "medium", "long", "mix"), "Length of the built-in texts.")
    vs: str | None = for_load(
        None, "--vs", one_of("eager", "cpu", "nobuckets", "engine"),
        "Also measure, in turn, a variant of the engine; with --url: the engine here.",
    )  # fmt: skip


@dataclass(frozen=True)
class Server:
    """A server instead of a local model."""

    url: str | None = for_server(None, "--url", TEXT, "Server with OpenAI's /v1/audio/speech.", "URL", main=True)
    api_key_file: str | None = for_request(None, "--api-key-file", TEXT, "File that holds the API key.", "PATH")
    stream: bool = for_request(True, "--stream/--no-stream", SWITCH, "Request streamed audio.")
    wire: str = for_request("pcm", "--wire", one_of("pcm", "wav"), "Audio format on the wire.")
    wire_rate: int = for_request(
        24_000, "--wire-rate", whole(4000, 384_000), "Sample rate of pcm, if the server does not send it.", "HZ"
    )
    body: str | None = for_request(None, "--body", TEXT, "More fields for the request body.", "JSON|@FILE")


@dataclass(frozen=True)
class Answer:
    """What happens with the results."""

    percentiles: tuple[float, ...] = for_report(
        (50, 90, 99), "--percentiles", PERCENTILES, "Percentiles to show.", "LIST", shown="50,90,99"
    )
    goodput: Mapping[str, float] | None = for_report(
        None, "--goodput", GOODPUT, "Share of requests within limits: ttfp, audible, e2el, gap (ms), rtf, stutters.",
        "LIMITS",
    )  # fmt: skip
    save: str | None = for_report(None, "--save", TEXT, "Save the report as JSON.", "FILE", main=True)
    append: bool = for_report(
        False, "--append", SWITCH, "Append the report to the file, as one line.", needs=("--save",)
    )
    compare: str | None = for_report(
        None, "--compare", TEXT, "Compare with a saved report; exit code 9 if worse.", "OLD", main=True
    )
    tolerance: float = for_report(5.0, "--tolerance", number(0, 1000), "Tolerance of --compare.", "PERCENT")
    report_format: str = for_report(
        "table", "--format", one_of("table", "md", "csv", "json"), "Format of the report.", main=True
    )
    plot: str | None = for_report(
        None, "--plot", TEXT, "Plot latency and throughput; - draws in the terminal.", "PATH|-"
    )
    save_audio: str | None = for_report(None, "--save-audio", TEXT, "Save the audio of every request.", "DIR")


for_listening = fields_with(group="server")
for_limits = fields_with(group="limits")


@dataclass(frozen=True)
class Serving:
    """Where `omnitts serve` listens, which models it holds, and what it allows."""

    model: tuple[str, ...] = for_voice(
        (), "-m --model", TEXT, "Model; a bare size stands for its variants. Repeatable.", "NAME|DIR",
        many=True, shown=EMBEDDED, main=True, complete="models",
    )  # fmt: skip
    host: str = for_listening("127.0.0.1", "--host", TEXT, "Address to listen on.", "ADDRESS", main=True)
    port: int = for_listening(8000, "--port", whole(0, 65_535), "Port; 0: a free one.", "N", main=True)
    socket: str | None = for_listening(
        None, "--socket", TEXT, "Unix socket, or off.", "PATH|off", shown="serve.sock of this user", main=True
    )
    api_key_file: str | None = for_listening(
        None, "--api-key-file", TEXT, "File of lines 'name:key'.", "PATH", main=True
    )
    insecure: bool = for_listening(False, "--insecure", SWITCH, "Allow other machines without a key.", main=True)
    allowed_host: tuple[str, ...] = for_listening(
        (), "--allowed-host", TEXT, "Host name that requests may use. Repeatable.", "HOST", many=True
    )
    cors_origin: tuple[str, ...] = for_listening(
        (), "--cors-origin", TEXT, "Origin whose web pages may use this server. Repeatable.", "ORIGIN", many=True
    )
    allow_ref_host: tuple[str, ...] = for_listening(
        (), "--allow-ref-host", TEXT, "Host that URLs in ref_audio may name. Repeatable.", "HOST", many=True
    )
    allow_upload: str = for_listening(
        "auto", "--allow-upload", one_of("auto", "on", "off"),
        "Let clients save and delete voices; auto: on loopback only.",
    )  # fmt: skip
    voices_dir: str | None = for_listening(
        None, "--voices-dir", TEXT, "Folder of saved voices.", "DIR", shown="the user's"
    )
    wyoming: str | None = for_listening(
        None, "--wyoming", TEXT, "Also serve Home Assistant (Wyoming); stdio:// serves nothing else.",
        "HOST:PORT|stdio://",
        shown="off", main=True,
    )  # fmt: skip
    preload: str = for_listening(
        "first", "--preload", one_of("first", "all", "none"), "Models to load at start.", main=True
    )
    idle_unload: float | str = for_listening(
        900.0, "--idle-unload", either("off", seconds()), "Unload a model after this time without requests.",
        "TIME|off",
        shown="15m", main=True,
    )  # fmt: skip
    tuned_voices: int = for_limits(2, "--tuned-voices", whole(0, 1000), "Tuned voices that are loaded at a time.", "N")
    max_queue: int = for_limits(512, "--max-queue", whole(1, 100_000), "Requests that may wait.", "N")
    max_per_client: int = for_limits(
        0, "--max-per-client", whole(0, 100_000), "Requests of one client at a time; 0: any number.", "N"
    )
    max_chars: int = for_limits(20_000, "--max-chars", whole(1, 1_000_000), "Longest text, in characters.", "N")
    max_upload: int = for_limits(10_000_000, "--max-upload", megabytes(1, 100), "Largest clip.", "SIZE", shown="10MB")
    queue_timeout: float = for_limits(30.0, "--queue-timeout", seconds(), "Longest wait for a slot.", "TIME")
    request_timeout: float = for_limits(300.0, "--request-timeout", seconds(), "Longest time for one request.", "TIME")
    slow_timeout: float = for_limits(
        60.0, "--slow-timeout", seconds(), "Disconnect clients that read nothing for this time.", "TIME"
    )
    drain: float = for_limits(30.0, "--drain", seconds(), "Time for running requests to finish at shutdown.", "TIME")
    web: bool = for_listening(True, "--web/--no-web", SWITCH, "Serve the page at /.")
    metrics: bool = for_listening(True, "--metrics/--no-metrics", SWITCH, "Serve /metrics.")
    log_texts: bool = for_listening(False, "--log-texts", SWITCH, "Log the texts of requests.")
    ray: str | None = for_listening(
        None, "--ray", TEXT, "Several engines: local, or a Ray cluster.", "local|ADDRESS", main=True
    )
    replicas: int | str = for_listening(
        1, "--replicas", either("auto", whole(1, 10_000)), "Engines of --ray; auto: as many as the load needs.",
        "N|auto",
    )  # fmt: skip


@dataclass(frozen=True)
class Hosted:
    """What hosts of `omnitts mcp` may do, and where its sound goes."""

    allow_folder: tuple[str, ...] = for_files(
        (), "--allow-folder", TEXT, "Folder in which the tool save may create files. Repeatable.", "DIR",
        many=True, shown="none", main=True,
    )  # fmt: skip
    audio_device: str | None = same_as(Results, None, "audio_device")
    via: str = same_as(Results, "auto", "via")


@dataclass(frozen=True)
class Lengths:
    """Lengths of measured questions and answers."""

    prompt_tokens: int = for_load(2500, "--prompt-tokens", whole(2, 60_000), "With ask: tokens of a question.", "N")
    answer_tokens: int = for_load(100, "--answer-tokens", whole(2, 60_000), "With ask: tokens of an answer.", "N")
    spoken: bool = for_load(False, "--spoken", SWITCH, "With ask: also generate speech, 2.5 frames per answer token.")
    recording: float = for_load(
        0.0, "--recording", number(0, 600), "With ask: seconds of the question that are a recording.", "S"
    )


BENCH = (Load, What, Server, Answer, Lengths)
ASK = (Question, Spoken, Thinks)
ALL = (*SHARED, Clip, Folder, Book, Takes, Tuning, Live, Serving, Hosted, *BENCH, Corpus, Verification, *ASK)
"""Every group of settings there is."""
