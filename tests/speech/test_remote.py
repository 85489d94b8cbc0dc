"""Remote: speech through a server is the speech of a local run, whatever happens to the server. A stand-in serves."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import soundfile
from command import Done, Omnitts
from patience import LONG_S, eventually
from sounds import saved_clip
from stand_in import StandIn, on_own_socket

import omnitts_cli as omnitts
from omnitts_cli.errors import DeviceError
from omnitts_cli.kernels.cpu import library
from omnitts_cli.settings.environment import server_socket
from omnitts_cli.speech import remote, servers
from omnitts_cli.speech import tts as front_door
from omnitts_cli.speech.tts import TTS
from omnitts_cli.weights import sums

OURS = str(Path(omnitts.__file__).parents[1])
HERE = ["--seed", "7", "--subtype", "float", "--json"]
TEXT = "It cost $42. [pause:300ms] He said no."


@pytest.fixture(scope="module")
def tts() -> Iterator[TTS]:
    with omnitts.load("tiny", device="cpu", threads=1, slots=4) as opened:
        yield opened


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server on a busy machine is not passed over."""
    monkeypatch.setattr(servers, "AUTO_CONNECT_S", LONG_S)
    monkeypatch.setattr(servers, "AUTO_ANSWER_S", LONG_S)


@pytest.fixture
def server(home: Path, tts: TTS) -> Iterator[StandIn]:
    with on_own_socket(tts, "tiny") as made:
        yield made


@pytest.fixture
def clip(home: Path, tts: TTS) -> Path:
    return saved_clip(tts)


def both(omnitts: Omnitts, *arguments: str) -> tuple[Done, bytes, Done, bytes]:
    """The same command through the server and without one, and both files."""
    made: list[Any] = []
    for via in ("auto", "off"):
        done = omnitts(*arguments, *HERE, "--via", via, "-o", f"{via}.wav").ended(0)
        made += [done, Path(f"{via}.wav").read_bytes()]
    return tuple(made)  # type: ignore[return-value]


CASES = [
    ["say"],
    ["say", "-v", "clara", "--temperature", "0.8", "--top-k", "20", "--top-p", "0.9", "--repetition-penalty", "1.1"],
    ["say", "--speed", "1.3", "--volume", "-6", "--sentence-gap", "900", "--loudness", "-20", "-l", "en"],
    ["say", "--temperature", "0", "--text-mode", "streamed", "--split", "none", "--max-frames", "40"],
    ["say", "-v", "me"],
    ["say", "-v", "henry:60,clara:40"],
    ["clone", "-r", "clip.wav", "--ref-text", "The kettle is on, and the bread is still warm."],
    ["clone", "-r", "clip.wav", "--ref-start", "0.5", "--ref-pad", "0.2"],
    ["design", "-i", "a deep, slow man"],
]


SLOW = (1, 3, 5, 7)


@pytest.mark.parametrize(
    "arguments",
    [pytest.param(one, marks=[pytest.mark.slow] * (n in SLOW), id=" ".join(one)[:40]) for n, one in enumerate(CASES)],
)
def test_the_sound_is_that_of_a_local_run(omnitts: Omnitts, clip: Path, server: StandIn, arguments: list[str]) -> None:
    remote_run, remote_file, local_run, local_file = both(omnitts, *arguments, TEXT)
    assert server.asked, "the server was not asked"
    assert remote_run.json["via"] == f"unix:{server_socket()}" and local_run.json["via"] == "local"
    assert remote_file == local_file
    same = ("sentences", "seed", "voice", "model", "device", "dtype", "lang", "chars", "pieces", "stopped", "retries")
    assert {key: remote_run.json[key] for key in same} == {key: local_run.json[key] for key in same}


def test_a_pipe_and_several_takes_too(omnitts: Omnitts, server: StandIn) -> None:
    out = [omnitts("say", "-q", "--seed", "3", "--via", via, "-o", "-", TEXT).out for via in ("auto", "off")]
    assert out[0] == out[1] and len(out[0]) > 10_000
    for via in ("auto", "off"):
        omnitts("design", "-i", "deep", "--seed", "3", "--candidates", "2", "-O", via, "--via", via, "A day.").ended(0)
    for number in (1, 2):
        one, other = (Path(via, f"take-{number}.wav").read_bytes() for via in ("auto", "off"))
        assert one == other


def said_without(modules: set[str], *words: str) -> str:
    """What a process prints that speaks these words; it must not have imported these modules."""
    code = f"""
import sys
from omnitts_cli.cli.app import run
assert run(["say", "-q", "-o", "a.wav", *{words!r}]) == 0
assert not {modules!r} & set(sys.modules), {modules!r} & set(sys.modules)
"""
    given = {"capture_output": True, "text": True, "check": False, "env": os.environ | {"PYTHONPATH": OURS}}
    done = subprocess.run([sys.executable, "-c", code], **given)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def test_a_server_is_used_without_being_asked_and_without_torch(server: StandIn) -> None:
    assert said_without({"torch", "safetensors", "huggingface_hub"}, TEXT) == "" and server.asked


def test_without_a_server_nothing_is_imported_for_it(home: Path) -> None:
    modules = {"omnitts_cli.speech.remote", "omnitts_cli.speech.servers", "sympy"}
    said_without(modules, "-m", "random:toy", "--max-frames", "2", "Hello.")


def change(entry: dict[str, Any], **fields: Any) -> None:
    entry["omnitts"] |= fields


UNLIKE: dict[str, Callable[[StandIn], None]] = {
    "other files": lambda server: change(server.entry, identity="0" * 64),
    "other format": lambda server: change(server.entry, format=999),
    "other device": lambda server: change(server.entry, asked={"device": "cuda", "dtype": "auto"}, device="cuda:0"),
    "other dtype": lambda server: change(server.entry, asked={"device": "auto", "dtype": "bf16"}, dtype="bfloat16"),
    "loading": lambda server: server.entry.update(state="loading"),
    "not ours": lambda server: server.entry.pop("omnitts"),
    "nonsense": lambda server: server.entry.update(omnitts=[1, 2]),
    "silent": lambda server: setattr(server, "silence_s", 3.0),
}


@pytest.mark.parametrize("how", UNLIKE)
def test_a_server_that_differs_is_passed_over_in_silence(
    omnitts: Omnitts, server: StandIn, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    UNLIKE[how](server)
    if how == "silent":
        monkeypatch.setattr(servers, "AUTO_ANSWER_S", 0.2)
    done = omnitts("say", "--json", "-o", "a.wav", "Hello.")
    assert (done.code, done.err, done.json["via"], server.asked) == (0, "", "local", [])


@pytest.mark.parametrize("options", [["-d", "cpu"], ["--dtype", "fp32"], ["-d", "cpu", "--dtype", "fp32", "-b", "2"]])
def test_named_options_match_what_the_server_runs_on(omnitts: Omnitts, server: StandIn, options: list[str]) -> None:
    assert omnitts("say", "--json", "-o", "a.wav", *options, "Hello.").json["via"].startswith("unix:")


def test_a_stale_socket_costs_nothing(omnitts: Omnitts, home: Path, tts: TTS) -> None:
    with on_own_socket(tts, "tiny") as server:
        path, server.path = server.path, None
    assert path is not None and path.exists()
    done = omnitts("say", "--json", "-o", "a.wav", "Hello.")
    assert (done.code, done.err, done.json["via"]) == (0, "", "local")


def test_asking_hashes_no_model_again(server: StandIn, tts: TTS, monkeypatch: pytest.MonkeyPatch) -> None:
    """Measured: asking takes 2 ms, of which 0.4 ms for the sums of the model's files; hashing takes 20 to 50 ms."""
    monkeypatch.setattr(sums, "FRESH_S", -1.0)  # also files that were just written are remembered
    hashed: list[Path] = []
    real = sums.sha256_of
    monkeypatch.setattr(sums, "sha256_of", lambda path: hashed.append(path) or real(path))  # type: ignore[func-returns-value]
    for number in range(3):
        found = remote.connect("auto", None, "custom_voice", device="auto", dtype="auto", local=lambda: tts)
        assert found is not None and (number == 0 or not hashed)
        hashed.clear()


# -- a server that fails while it speaks


@pytest.mark.parametrize(
    ("command", "events"), [(["say"], 0), (["say"], 1), (["say"], 3), (["clone", "-r", "clip.wav"], 2)], ids=str
)
def test_what_fails_is_spoken_here(
    omnitts: Omnitts, server: StandIn, clip: Path, command: list[str], events: int
) -> None:
    server.break_after = events
    done = omnitts(*command, *HERE, "-o", "a.wav", TEXT)
    assert done.code == 0 and (done.err == "" or "clone" in command) and server.asked
    assert omnitts(*command, *HERE, "--via", "off", "-o", "b.wav", TEXT).code == 0
    assert Path("a.wav").read_bytes() == Path("b.wav").read_bytes()


@pytest.mark.parametrize("status", [400, 404, 429, 500, 503])
def test_a_refusal_is_no_failure_of_the_command(omnitts: Omnitts, server: StandIn, status: int) -> None:
    server.refusals = [(status, {"Retry-After": "5"})] * 3
    done = omnitts("say", *HERE, "-o", "a.wav", TEXT)
    assert (done.code, done.err) == (0, "")
    assert soundfile.info("a.wav").duration == pytest.approx(done.json["audio_s"], abs=0.01)


def test_leaving_early_ends_the_requests(server: StandIn, tts: TTS) -> None:
    made = remote.connect("auto", None, "custom_voice", device="auto", dtype="auto", local=lambda: tts)
    assert made is not None
    for chunk in made.stream(TEXT * 10, seed=1):
        assert chunk.samples.size
        break
    eventually(lambda: not tts.engine.engine.busy)
    made.close()


# -- a URL


@pytest.fixture
def url(home: Path, tts: TTS) -> Iterator[StandIn]:
    with StandIn(tts, "tiny") as made:
        yield made


def test_every_failure_of_a_url_is_an_error(omnitts: Omnitts, url: StandIn) -> None:
    def code(*arguments: str) -> tuple[int, str]:
        done = omnitts("say", "--via", url.url, "-o", "a.wav", *arguments, "Hello.")
        return done.code, done.err

    assert code("-m", "0.6b")[0] == 4 and "has no model '0.6b'" in code("-m", "0.6b")[1]
    assert code("-v", "nobody")[0] == 4
    assert code("-i", "whisper")[0] == 2, "what a local run refuses"
    for status, expected in ((401, 5), (404, 4), (500, 5), (400, 2)):
        url.refusals = [(status, {})]
        assert code()[0] == expected
    url.break_after = 1
    assert code()[0] == 5
    url.break_after = None
    change(url.entry, format=2)
    assert code()[0] == 5 and "another version" in code()[1]
    assert not Path("a.wav").exists()
    url.stop()
    found = code()
    assert found[0] == 5 and "cannot speak through" in found[1] and "omnitts serve" in found[1]


def test_a_full_server_is_asked_again(omnitts: Omnitts, url: StandIn) -> None:
    url.refusals = [(429, {"Retry-After": "1"})]
    assert omnitts("say", "--via", url.url, "-o", "a.wav", "Hello.").code == 0
    assert len(url.asked) == 2


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["say", "--codes", "a.st"], "--codes cannot be used with --via http"),
        (["play", "--live"], "--live cannot be used with --via http"),
        (["say", "--exact"], "was started without --exact"),
        (["clone", "-r", "clip.wav", "--save-voice", "it"], "--save-voice cannot be used with --via http"),
    ],
)
def test_what_a_server_cannot_do(omnitts: Omnitts, url: StandIn, clip: Path, arguments: list[str], words: str) -> None:
    omnitts(*arguments, "--via", url.url, "Hello.").ended(2, words, "--via off")
    assert not url.asked


@pytest.mark.parametrize(
    "option",
    [
        ("--codes", "a.st"),
        pytest.param(("--exact",), marks=pytest.mark.skipif(not library.usable(), reason="needs the library")),
    ],
)
def test_codes_and_exact_speech_are_made_here(omnitts: Omnitts, server: StandIn, option: tuple[str, ...]) -> None:
    done = omnitts("say", *option, "-o", "a.wav", "--json", "Hello.")
    assert (done.code, done.json["via"], server.asked) == (0, "local", []), done.err
    assert "--exact" not in option or len(done.json["exact"]) == 12


@pytest.mark.skipif(not library.usable(), reason="needs the compiled library")
def test_exact_speech_uses_an_exact_server(omnitts: Omnitts, home: Path) -> None:
    with (
        front_door.load("tiny", device="cpu", threads=1, slots=4, exact=True) as exact,
        on_own_socket(exact, "tiny") as server,
    ):
        remote_run, remote_file, local_run, local_file = both(omnitts, "say", "--exact", TEXT)
        assert server.asked and remote_run.json["via"] == f"unix:{server_socket()}"
        assert remote_run.json["exact"] == local_run.json["exact"]
        assert remote_file == local_file
        assert omnitts("say", "--via", "auto", "--json", "-o", "b.wav", "Hello.").json["via"] != "local"


def test_another_machine_is_a_network(omnitts: Omnitts, home: Path) -> None:
    omnitts("say", "--via", "http://speech.example:8000", "--offline", "-o", "a.wav", "Hello.").ended(2, "--offline")


def test_the_key_goes_to_the_server_alone(omnitts: Omnitts, url: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    assert omnitts("say", "--via", url.url, "-o", "a.wav", "Hello.").code == 0
    assert set(url.keys) == {None}
    monkeypatch.setenv("OMNITTS_API_KEY", "k-123")
    done = omnitts("say", "--via", url.url, "-o", "a.wav", "--verbose", "Hello.")
    assert url.keys[-1] == "Bearer k-123" and "k-123" not in done.err
    assert "k-123" not in omnitts("config", "show", "--all").out.decode()


def test_it_is_a_setting(omnitts: Omnitts, server: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    def via() -> str:
        return str(omnitts("say", "--json", "-o", "a.wav", "Hello.").json["via"])

    assert via().startswith("unix:")
    monkeypatch.setenv("OMNITTS_VIA", "off")
    assert via() == "local"
    monkeypatch.delenv("OMNITTS_VIA")
    assert omnitts("config", "set", "via", "off").code == 0 and via() == "local"
    assert omnitts("config", "unset", "via").code == 0 and via().startswith("unix:")
    Path("omnitts.toml").write_text('via = "http://127.0.0.1:1"\n')
    omnitts("say", "-o", "a.wav", "Hello.").ended(3, "may not set 'via'")


@pytest.mark.parametrize("given", ["on", "ftp://h", "", "unix:/x"])
def test_what_is_neither_is_refused(omnitts: Omnitts, home: Path, given: str) -> None:
    omnitts("say", "--via", given, "-o", "a.wav", "Hello.").ended(2, "--via")


def test_a_program_gets_the_errors_of_a_server(url: StandIn) -> None:
    made = remote.connect(url.url, None, "custom_voice", device="auto", dtype="auto", local=lambda: omnitts.load())
    assert made is not None and made.voices[:2] == ("henry", "clara") and "en" in made.languages
    url.refusals = [(500, {})]
    with pytest.raises(DeviceError, match="refused with 500"):
        made.speak("Hello.", seed=1)
    assert made.speak("Hello.", seed=1).seconds > 0.2
    made.close()


# -- the real server


@pytest.mark.parametrize("number", [*(pytest.param(n, marks=pytest.mark.slow) for n in (0, 4)), 6, 8])
def test_the_real_server_speaks_the_same(omnitts: Omnitts, clip: Path, number: int) -> None:
    import serving

    with serving.start(("tiny",)) as server:
        eventually(lambda: server.state.models.all[0].card)
        arguments = [*CASES[number], TEXT, *HERE]
        done = omnitts(*arguments, "--via", server.url, "-o", "a.wav")
        assert (done.code, done.json["via"]) == (0, server.url), done.err
    assert omnitts(*arguments, "--via", "off", "-o", "b.wav").code == 0
    assert Path("a.wav").read_bytes() == Path("b.wav").read_bytes()
