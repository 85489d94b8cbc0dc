"""The command line as a whole: help, grammar, messages, exit codes, and how quickly it answers."""

import json
import os
import re
import shlex
import stat
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace

import pytest
from command import Omnitts, Started
from patience import LONG_S

from omnitts_cli import child
from omnitts_cli.cli import app, commands
from omnitts_cli.errors import OmniError

PYTHON = [sys.executable, "-m", "omnitts_cli"]


COMMANDS = (
    [[name] for name in ("say", "clone", "design", "play", "doctor", "completion", "bench")]
    + [["voices", name] for name in ("list", "show", "preview", "save", "rm", "export", "import", "blend")]
    + [["models", name] for name in ("list", "pull", "path", "verify", "rm")]
    + [["codec", name] for name in ("encode", "decode")]
    + [["config", name] for name in ("path", "show", "set", "unset")]
    + [[], ["voices"], ["models"], ["codec"], ["config"]]
)

HELP_PROBE = """
import sys
HEAVY = {"torch", "numpy", "transformers", "rich", "tqdm", "matplotlib"}
if sys.argv[1:] == ["--help"]:
    HEAVY.add("omnitts_cli.settings.table")  # no command's options are shown
before = len(sys.modules)
from omnitts_cli.cli.app import run
code = run(sys.argv[1:])
print("\\nIMPORTED", len(sys.modules) - before, sorted(HEAVY & set(sys.modules)))
sys.exit(code)
"""


def helped(command: list[str], compiled: Path, **environment: str) -> tuple[str, int, str]:
    """Help of a command in a fresh process: its text, how many modules it imported, and the heavy ones of them."""
    environment["PYTHONPYCACHEPREFIX"] = str(compiled)
    environment["PYTHONDONTWRITEBYTECODE"] = ""  # as installed: compiled once
    done = subprocess.run(
        [sys.executable, "-c", HELP_PROBE, *command, "--help"],
        capture_output=True, text=True, env={**os.environ, **environment},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    text, _, imported = done.stdout.partition("\nIMPORTED ")
    count, _, heavy = imported.partition(" ")
    return text, int(count), heavy.strip()


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the interpreter keeps compiled modules, filled by a first call."""
    folder = tmp_path_factory.mktemp("compiled")
    helped([], folder)
    return folder


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_help_is_instant_and_imports_nothing_heavy(command: list[str], compiled: Path) -> None:
    text, count, heavy = helped(command, compiled)
    assert text.startswith("Usage: omnitts")
    assert heavy == "[]" and "\033" not in text
    assert count < 170, "150 modules, nearly all of Python itself, take less than 0.1 s"


def test_help_shows_defaults_and_whole_sentences(omnitts: Omnitts) -> None:
    text = omnitts("say", "--help-all").out.decode()
    assert "Speaking rate, 0.5 to 2; pitch is unchanged. [1]" in text and "Gain. [0]" in text
    assert "<" not in text.replace("word<TAB>spoken", "")
    listed = omnitts("voices", "--help").out.decode().partition("Commands:")[2]
    assert listed.split()[0] == "list" and "for this version of its model or for" in " ".join(listed.split())


REFUSED = [
    ("say Hello --sped 2", "unknown option '--sped'", "--speed"),
    ("say Hello --spee 1", "unknown option '--spee'"),  # no abbreviations
    ("say Hello --speed", "--speed"),
    ("say Hello -l eng", " en\n"),
    ("say Hello --gap 5", "try: --sentence-gap "),
    ("say Hello --loudness loud", "try: --loudness -16\n"),
    ("say Hello --volume loud", "try: --volume 0\n"),
    ("say Hello --seed any", "try: --seed 1\n"),
    ("say Hello --split words", "try: --split auto\n"),
    ("say Hello -F wave", " wav\n"),
    ("say Hello --split lines", " line\n"),
    ("say Hello -q -q", "more than once"),
    ("say Hello -o a.wav --output b.wav", "more than once"),
    ("bench --plot", "try: omnitts bench --help"),
    ("bench -c abc", "try: --concurrency 1,4,8\n"),
    ("bench hello you", "unexpected: hello you", "omnitts bench --help"),
    ("SAY 'hi there'", "omnitts say 'hi there'"),
    ("sya -o a.wav hi", "omnitts say -o a.wav hi"),
    ("voices lst", "omnitts voices list"),
    ("--json say hi", "unknown option '--json'", "omnitts say --json   (options come after the command)"),
    ("-q voices list", "omnitts voices -q   (options come after the command)"),
    ("--voice clara hi", "unknown option '--voice'", "try: omnitts say --voice clara hi\n"),
    ("-v", "try: omnitts --version\n"),
    ("voices delete me", "try: omnitts voices rm me\n"),
    ("models download 0.6b", "try: omnitts models pull 0.6b\n"),
    ("config list", "try: omnitts config show\n"),
    ("say -l en-US hi", "--language en\n"),
    ("say -o '' hi", "--output is empty"),
    ("say --seed= hi", "--seed is empty"),
    ("version", "try: omnitts --version"),
    ("list", "try: omnitts voices list"),
    ("speak Good morning", 'try: omnitts say "Good morning"'),
    ("tts", 'try: omnitts say "text"'),
    ("tts -o a.wav 'Hi there'", "try: omnitts say -o a.wav 'Hi there'"),
    ("say -o a.wma hi", "try: -o a.mp3   or   -o - | ffmpeg -i - a.wma"),
    ("say --rate 200 hi", "try: --speed 1.2"),
    ("say --ref-audio a.wav hi", "try: omnitts clone -r CLIP"),
    ("say --ssml hi", "try: --input-format ssml"),
    ("say --live hi", "try: omnitts play --live"),
    ("say --speed 300 hi", "try: --speed 2"),
    ("say --speed -1 hi", "try: --speed 0.5"),
    ("say --speed nan hi", "try: --speed 1"),
    ("say --seed -4 hi", "try: --seed 0"),
    ("say -t 0 hi", "try: --threads 1"),
    ("say --sample-rate 1 hi", "try: --sample-rate 8000"),
    ("say --loudness -99 hi", "try: --loudness -70"),
    ("say --sample-rate 44.1k hi", "try: --sample-rate 44100"),
    ("say -F m4b -o x.m4b hi", "try: leave -F out"),
    ("say --input-format docx -f x.docx", "try: pandoc -t markdown"),
    ("say -v a -v b hi", "try: -v A:50,B:50"),
    ("say --seed 1 --seed 2 hi", "more than once", "try: give --seed once"),
    ("say hi -r me.wav", "try: omnitts clone -r me.wav"),
    ("say hi -r 150", "try: --wpm 150"),
    ("voices save me ref.wav", "try: omnitts voices save NAME -r ref.wav"),
    ("models fetch 0.6b", "try: omnitts models pull 0.6b"),
    ("config set server.port 9000", "try: omnitts config edit   and write port below [serve]"),
    ("hello there", 'try: omnitts say "hello there"'),
    ("voice", "omnitts voices"),
    ("config gte voice", "omnitts config get"),
    ("completion tcsh", "tcsh"),
    ("say hi -F m4a -o -", "m4a"),
    ("say hi -o a.srt --subs a.srt", "-o and --subs name the same file, a.srt"),
    ("say hi --subs b.srt --codes ./b.srt -o a.wav", "--subs and --codes name the same file"),
    ("say hi -o a.wav --asr-model base", "--asr-model has no effect without --subs words", "try: --"),
    ("say hi --dry-run --asr-model base", "--asr-model has no effect without --subs words", "try: --"),
    ("say hi -o a.wav --subs-by words", "--subs-by has no effect without --subs", "try: --"),
    ("say -f a.md -o a.m4b --subs-by words", "--subs-by has no effect without --subs", "try: --"),
    ("play hi --asr-model base", "has no effect without --karaoke or --subs words", "try: --"),
    ("clone -r a.wav hi --asr-model base", "without --transcribe or --subs words", "try: --"),
    ("clone -r a.wav hi --subs-by words", "--subs-by has no effect without --subs", "try: --"),
    ("design -i deep hi --asr-model base --subs a.srt", "without --subs words", "try: --"),
    ("voices save me -r a.wav --asr-model base", "no effect without --transcribe", "try: --"),
    ("voices save me", "omnitts voices save me -r CLIP"),
    ("voices blend henry:60 clara:40 mix", "try: omnitts voices blend mix henry:60 clara:40\n"),
    ("say -v henry,clara hi", "try: henry:50,clara:50\n"),
    ("serve --replicas 2", "--replicas 2 needs --ray", "--ray local --replicas 2"),
    ("play --live --karaoke hi", "--karaoke cannot be used with --live"),
    ("play hi -o -", "-o"),
    ("play hi --no-play", "--no-play"),
    ("config set speed 9", "speed"),
    ("config set sped 1", "speed"),
    ("config set no-clobber maybe", "no-clobber"),
    ("config set say.voice leo", "below [say]", "config.toml"),
    ("ask --audio q.wav --lines", "--lines reads its questions from stdin"),
    ("ask --audio q.wav --chat c.jsonl", "--audio"),
    ("serve -m random:toy --host 0.0.0.0", "0.0.0.0"),
    ("serve -m random:toy --port 70000", "--port"),
]
"""What is typed, and what the refusal says: it names what was meant, and ends in what can be pasted."""


@pytest.mark.parametrize(
    ("typed", "words"), [(typed, words) for typed, *words in REFUSED], ids=[row[0] for row in REFUSED]
)
def test_a_refusal_names_what_was_meant(omnitts: Omnitts, typed: str, words: list[str]) -> None:
    omnitts(*shlex.split(typed)).ended(2, *words)
    assert list(Path().iterdir()) == []


@pytest.mark.parametrize("command", [("say",), ("help",), ("voices", "list"), ("tune",), ()])
def test_a_dash_before_text_is_explained_where_there_is_text(omnitts: Omnitts, command: tuple[str, ...]) -> None:
    done = omnitts(*command, "--qqq").ended(2, "unknown option '--qqq'")
    assert ("omnitts say -- '--qqq'" in done.err) == (command == ("say",))
    assert "-- '" not in done.err or command == ("say",)


@pytest.mark.parametrize("text", ["-hello", "--Hello", "-1 degree"])
def test_text_that_begins_with_a_dash_is_2_and_never_spoken(omnitts: Omnitts, text: str) -> None:
    omnitts("say", text).ended(2, "--")
    assert omnitts("say", "--dry-run", "--no-normalize", "--", text).out.strip().endswith(text.encode())


@pytest.mark.parametrize(
    ("name", "text", "hint"),
    [("QUIET", "maybe", "OMNITTS_QUIET=true|false"), ("SEED", "x", "OMNITTS_SEED=1"), ("SPLIT", "lin", "SPLIT=line")],
)
def test_a_wrong_variable_is_reported_as_one(
    omnitts: Omnitts, monkeypatch: pytest.MonkeyPatch, name: str, text: str, hint: str
) -> None:
    monkeypatch.setenv(f"OMNITTS_{name}", text)
    done = omnitts("say", "--dry-run", "Hello")
    assert done.code == 2 and done.err.rstrip().endswith(hint)


def test_a_variable_that_no_option_has_is_a_warning(omnitts: Omnitts, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMNITTS_CONCURRENCY", "1")  # of bench
    assert "warning" not in omnitts("say", "--dry-run", "Hello").err
    monkeypatch.setenv("OMNITTS_SEEED", "1")
    omnitts("say", "--dry-run", "Hello").ended(0, "warning: unknown setting OMNITTS_SEEED\n  try: OMNITTS_SEED")
    assert "SEEED" not in omnitts("say", "--dry-run", "-q", "Hello").err


def test_no_color_and_force_color(omnitts: Omnitts, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "\033[31m" in omnitts("say", "--color", "always", "-f", "nowhere").err
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\033[31m" in omnitts("say", "-f", "nowhere").err
    assert "\033" not in omnitts("say", "--color", "never", "-f", "nowhere").err
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\033" not in omnitts("say", "-f", "nowhere").err


FAILURES = [
    (["say", "--speed", "9", "Hello"], 2, "usage"),
    (["say", "--speeed", "1", "Hello"], 2, "usage"),
    (["helo"], 2, "usage"),
    (["say", "-o", "-", "--play", "Hello"], 2, "usage"),
    (["say", "-f", "nowhere"], 3, "bad_input"),
    (["say", "--dry-run", "-f", "."], 3, "bad_input"),
    (["say", "-m", "1.7b", "--offline", "-o", "a.wav", "Hello"], 4, "not_available"),
    (["say", "-m", "nowhere", "-o", "a.wav", "Hello"], 4, "not_available"),
    (["say", "-m", "random:toy", "-d", "cuda:77", "-o", "a.wav", "Hello"], 5, "device"),
    (["say", "-m", "random:toy", "-o", "/nowhere/a.wav", "Hello"], 8, "output"),
    (["voices", "show", "nobody"], 4, "not_available"),
    (["models", "path", "nowhere"], 4, "not_available"),
    (["codec", "decode", "nowhere"], 3, "bad_input"),
    (["clone", "Hello"], 2, "usage"),
    (["design", "Hello"], 2, "usage"),
]


@pytest.mark.parametrize(("arguments", "code", "word"), FAILURES, ids=lambda value: str(value)[:40])
def test_every_failure_is_json_and_words(omnitts: Omnitts, arguments: list[str], code: int, word: str) -> None:
    done = omnitts(*arguments, "--json").ended(code)
    record = done.json
    assert {"schema", "status", "code", "exit", "message", "cause", "hint"} <= set(record)
    assert record["cause"] is None or f"  cause: {record['cause']}\n" in done.err
    assert (record["schema"], record["status"], record["exit"], record["code"]) == (1, "error", code, word)
    assert done.err.startswith("error: ") and len(done.err.splitlines()) <= 4
    assert "Traceback" not in done.err


def test_every_error_class_has_its_own_exit_code() -> None:
    codes = {error.exit_code: error.code for error in every(OmniError)}
    assert codes == {
        1: "internal", 2: "usage", 3: "bad_input", 4: "not_available", 5: "device", 6: "partial", 7: "guard",
        8: "output", 9: "regression",
    }  # fmt: skip


def every(kind: type[OmniError]) -> list[type[OmniError]]:
    return [kind, *(found for child in kind.__subclasses__() for found in every(child))]


def test_no_arguments_is_help_on_stderr_and_2(omnitts: Omnitts) -> None:
    for arguments in ([], ["voices"]):
        done = omnitts(*arguments)
        assert (done.code, done.out) == (2, b"")
        assert "Usage: omnitts" in done.err


def test_version_here_and_in_a_source_folder(omnitts: Omnitts, monkeypatch: pytest.MonkeyPatch) -> None:
    assert omnitts("-V").out.startswith(b"omnitts ")

    def version(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", version)
    done = omnitts("--version").ended(0)
    assert done.out.decode() == f"omnitts (not installed; run from {Path(app.__file__).parents[2]})\n"


NO_NUMBERS = ["-1", "1e309", "nan", "inf", "", "１", "10" * 15]
NUMERIC = [
    "--speed", "--seed", "--top-k", "--top-p", "--temperature", "--sample-rate", "--max-frames", "--retries", "--chunk",
]  # fmt: skip


@pytest.mark.parametrize("option", NUMERIC)
def test_numbers_are_refused_by_the_parser(omnitts: Omnitts, option: str) -> None:
    for value in NO_NUMBERS:
        done = omnitts("say", f"{option}={value}", "Hello")
        assert done.code == 2, (option, value)
        assert option in done.err


def test_control_characters_of_the_user_never_reach_the_terminal(omnitts: Omnitts) -> None:
    done = omnitts("say", "-f", "a\033[31mb\x07\u202e.txt").ended(3, "\\x1b")
    assert not {"\033", "\x07", "\u202e"} & set(done.err)


def test_a_closed_stdout_is_8(started: Started) -> None:
    process = subprocess.run(
        ["sh", "-c", f'"{sys.executable}" -m omnitts_cli config path >&-'], capture_output=True, text=True
    )
    assert process.returncode == 8 and "standard output" in process.stderr


def test_json_survives_a_name_that_is_no_text(started: Started) -> None:
    process = started("say", "--json", "-f", os.fsdecode(b"\xff\xfe"))
    out, _ = process.communicate(timeout=LONG_S)
    assert process.returncode == 3
    assert json.loads(out)["code"] == "bad_input"


needs_full = pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device that is always full is Linux's own")


@needs_full
@pytest.mark.parametrize("words", ["voices list", "--version", "say --help", "config show --json"])
def test_a_full_stdout_is_8_whatever_goes_there(home: Path, words: str) -> None:
    with open("/dev/full", "wb") as full:
        process = subprocess.run([*PYTHON, *words.split()], stdout=full, stderr=subprocess.PIPE, text=True)
    assert process.returncode == 8
    assert process.stderr.startswith("error: cannot write standard output: no space left\n")


@needs_full
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_full_stderr_does_not_change_the_exit_code(
    home: Path, monkeypatch: pytest.MonkeyPatch, unbuffered: str
) -> None:
    monkeypatch.setenv("PYTHONUNBUFFERED", unbuffered)
    with open("/dev/full", "wb") as full:
        assert subprocess.run([*PYTHON, "say", "-f", "nowhere"], stderr=full).returncode == 3
        assert subprocess.run([*PYTHON, "say", "-f", "nowhere", "--json"], stdout=full, stderr=full).returncode == 3


def test_no_text_on_a_terminal_is_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from omnitts_cli.cli.text_in import check_sources
    from omnitts_cli.errors import UsageError
    from omnitts_cli.settings.table import TextIn

    monkeypatch.setattr("sys.stdin", SimpleNamespace(isatty=lambda: True))
    with pytest.raises(UsageError, match="no text to speak") as caught:
        check_sources(None, TextIn(), "say")
    assert 'omnitts say "Hello there"' in str(caught.value.hint)


@pytest.mark.parametrize(
    ("options", "coloured"), [(["--color", "always"], True), (["--color=always"], True), ([], False)]
)
def test_colour_counts_for_errors_in_the_options(omnitts: Omnitts, options: list[str], coloured: bool) -> None:
    for wrong in (["--speed", "fast"], ["--sped", "2"]):
        done = omnitts("say", *options, *wrong, "Hello.")
        assert done.code == 2 and ("\033[" in done.err) is coloured


@pytest.mark.parametrize(("command", "option"), [("clone", "--voice"), ("design", "--voice"), ("play", "--no-play")])
def test_help_does_not_show_what_a_command_refuses(omnitts: Omnitts, command: str, option: str) -> None:
    assert option not in omnitts(command, "--help-all").out.decode()
    given = [option] if option == "--no-play" else [option, "henry"]
    done = omnitts(command, *given, "-r" if command == "clone" else "-i", "x", "Hello.")
    assert done.code == 2 and ("not both" in done.err or "--no-play" in done.err)


def test_help_offers_only_what_a_command_can_do(omnitts: Omnitts) -> None:
    assert "omni" in omnitts("say", "--help").out.decode().partition("--model")[2].splitlines()[0]
    for command in ("clone", "design"):  # the voices of omni are fixed
        assert "omni," not in omnitts(command, "--help").out.decode()
    played = omnitts("play", "--help").out.decode()
    output = played.partition("-o, --output PATH ")[2].partition("\n  -")[0]  # its own lines
    assert output and "stdout" not in output


def test_an_error_report_is_for_its_user_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may quote the text."""
    monkeypatch.setattr("platformdirs.user_log_path", lambda *words, **options: tmp_path)
    path = Path(app.written("the text"))
    assert path.read_text() == "the text" and stat.S_IMODE(path.stat().st_mode) == 0o600


HOSTILE = [
    "json.py", "numpy.py", "torch.py", "soundfile.py", "soxr.py", "typer.py", "rich.py", "click.py", "tomllib.py",
    "sitecustomize.py", "usercustomize.py", "safetensors.py", "platformdirs.py", "tokenizers.py", "sounddevice.py",
    "huggingface_hub.py", "omnitts_cli.py", "_native.so", "libsndfile.so", "libportaudio.so", "native.so", "pyvenv.cfg",
    "setup.cfg", "pyproject.toml", ".env", "config.toml", "config.json", "model.safetensors", "vocab.json",
    "matplotlibrc",
    "clara", "clara.voice", "henry.voice", "speech", "hi", "-h", "--help", "*", "a\nb", "\udcff", "ffmpeg", "cc", "gcc",
]  # fmt: skip
"""Names that something might pick up from the folder in which a command starts."""
FOLDERS = ["tiny", "0.6b", "presets", "presets_data", "texts_data", "voices", "embedded", "torch", ".omnitts", "hf:org"]

MANY_COMMANDS = """
import http.client, json, os, re, signal, sys, threading, time
from omnitts_cli.cli.app import run

calls, home = json.loads(sys.argv[1]), sys.argv[2]
out = os.path.join(home, "out")


def stop_server():
    for _ in range(1000):
        time.sleep(0.05)
        if url := re.search(r"http://([0-9.]+):([0-9]+)", open(out).read()):
            for _ in range(2):  # the second answer comes from a server that waits for signals
                link = http.client.HTTPConnection(url[1], int(url[2]), timeout=60)
                link.request("GET", "/health")
                assert link.getresponse().status == 200
            return os.kill(os.getpid(), signal.SIGTERM)


found = []
for words in calls:
    with open(out, "w+b") as file:
        kept = os.dup(1), os.dup(2)
        os.dup2(file.fileno(), 1), os.dup2(file.fileno(), 2)
        if words[0] == "serve":
            threading.Thread(target=stop_server, daemon=True).start()
        try:
            code = run([word.replace("HOME", home) for word in words])
            sys.stdout.flush(), sys.stderr.flush()
        finally:
            os.dup2(kept[0], 1), os.dup2(kept[1], 2)
        file.seek(0)
        found.append([words, code, file.read().decode("utf-8", "replace")])
sys.stdout.write(json.dumps(found))
"""

SHORT = ["--seed", "1", "--max-frames", "4", "--via", "off"]
CALLS = [
    ["--version"], ["nothing"], ["say", "--help"], ["say", "hi", "--dry-run"], ["say", "-f", "nothing.md"],
    ["say", "hi", "-v", "nobody", "--via", "off"], ["say", "hi there", "-v", "clara", "-o", "HOME/say.raw", *SHORT],
    ["clone", "-r", "nothing.wav", "hi"], ["design", "hi"], ["play", "hi", "--audio-device", "none that exists"],
    ["ask", "hi", "--offline"], ["batch", "nothing.csv", "-O", "HOME/out-b"],
    ["batch", "HOME/m.csv", "-O", "HOME/corpus", "--seed", "1", "--max-frames", "4", "--progress", "none", "-q"],
    ["voices", "list"], ["voices", "show", "clara"], ["voices", "rm", "nobody"],
    ["voices", "renew", "nobody"], ["speechd", "--print-generic"], ["mcp", "--allow-folder", "nothing"],
    ["models", "list"], ["models", "path", "tiny"], ["models", "verify", "tiny"], ["models", "rm", "nothing", "-y"],
    ["models", "pull", "nothing", "--offline"],
    ["config", "path"], ["config", "show"], ["config", "set", "speed", "1.2"], ["config", "get", "speed"],
    ["config", "unset", "speed"], ["config", "edit"], ["completion", "bash"], ["help", "start"],
    ["tune", "nothing"],
]  # fmt: skip
MORE_CALLS = [
    ["say", "hi there, and on it goes for some more words", "-o", "HOME/clip.wav", "--seed", "1", "--via", "off"],
    ["clone", "-r", "HOME/clip.wav", "hi", "-o", "HOME/clone.raw", *SHORT],
    ["design", "-i", "a deep man", "hi", "-o", "HOME/design.raw", *SHORT],
    ["voices", "preview", "clara", "hi", "-o", "HOME/preview.raw", *SHORT],
    ["voices", "save", "me", "-r", "HOME/clip.wav"], ["voices", "renew", "me"],
    ["voices", "blend", "mix", "henry", "clara"],
    ["voices", "rename", "mix", "mixed"], ["voices", "export", "mixed", "HOME/mixed.voice"],
    ["voices", "rm", "mixed", "-y"], ["voices", "import", "HOME/mixed.voice"],
    ["codec", "encode", "HOME/clip.wav", "HOME/codes"], ["codec", "decode", "HOME/codes", "-o", "HOME/decode.raw"],
    ["bench", "-m", "random:toy", "-c", "1", "-n", "1", "--warmup", "0", "--frames", "4", "--progress", "none"],
    ["doctor"], ["serve", "-m", "random:toy", "--preload", "none", "--port", "0", "--socket", "off"],
]  # fmt: skip
"""These speak, or take seconds."""


def test_the_calls_in_a_folder_of_others_include_every_command() -> None:
    called = {name for words in CALLS + MORE_CALLS for name in (words[0], " ".join(words[:2]))}
    assert [row.name for row in commands.COMMANDS if row.body and row.name not in called] == []


def begun_in(folder: Path, home: Path, calls: list[list[str]]) -> subprocess.Popen[str]:
    """All these calls, in a process of their own that starts in this folder."""
    home.mkdir()
    (home / "m.csv").write_text("id,text\na,Hi.\n")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("XDG_", "OMNITTS_"))}
    environment |= {"HOME": str(home), "OMP_NUM_THREADS": "1", "EDITOR": "true", "VISUAL": "true"}
    return subprocess.Popen(
        child.python(MANY_COMMANDS, json.dumps(calls), str(home)),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL, cwd=folder,
        env=environment,
    )  # fmt: skip


def fill_with_files_of_others(folder: Path, mark: Path) -> None:
    """Each of them makes the file `mark` when it is executed or imported."""
    for name in HOSTILE:
        path = os.path.join(os.fsencode(folder), os.fsencode(name))
        with open(path, "w") as file:
            file.write(f"#!/bin/sh\n''':'\ntouch {mark}\nexit 1\n'''\nopen({str(mark)!r}, 'w')\nraise SystemExit(9)\n")
        os.chmod(path, 0o755)
    for name in FOLDERS:
        (folder / name).mkdir()
        (folder / name / "__init__.py").write_text(f"open({str(mark)!r}, 'w')\n")


@pytest.mark.parametrize(
    ("calls", "sound"),
    [
        (CALLS, ["say"]),
        pytest.param(CALLS + MORE_CALLS, ["say", "clone", "design", "preview", "decode"], marks=pytest.mark.slow),
    ],
    ids=["some", "all"],
)
def test_other_peoples_files_in_the_folder_do_nothing(tmp_path: Path, calls: list[list[str]], sound: list[str]) -> None:
    """Every command behaves as in an empty folder; what would be read from it is refused in words."""
    folders, homes = [tmp_path / "empty", tmp_path / "theirs"], [tmp_path / "home-1", tmp_path / "home-2"]
    for folder in folders:
        folder.mkdir()
    fill_with_files_of_others(folders[1], tmp_path / "executed")
    results, sounds = [], []
    for home, running in [(home, begun_in(folder, home, calls)) for folder, home in zip(folders, homes, strict=True)]:
        out, errors = running.communicate(timeout=LONG_S * 4)
        assert running.returncode == 0, errors[-2000:]
        results.append([(words, code, text.replace(str(home), "HOME")) for words, code, text in json.loads(out)])
        sounds.append({path.name: path.read_bytes() for path in home.glob("*.raw")})
    assert not (tmp_path / "executed").exists()
    assert set(sounds[0]) == {f"{name}.raw" for name in sound}
    assert min(map(len, sounds[0].values())) > 100 and sounds[0] == sounds[1]
    for empty, theirs in zip(*results, strict=True):
        assert theirs[1] == empty[1], (theirs, empty)
        if empty[0][0] not in ("batch", "bench", "doctor"):  # these print times and speeds
            assert re.sub(r"\d+\.?\d*", "0", theirs[2]) == re.sub(r"\d+\.?\d*", "0", empty[2])
