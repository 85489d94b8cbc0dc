"""omnitts bench: the command from its options to its exit codes."""

import fcntl
import json
import os
import pty
import signal
import struct
import subprocess
import sys
import termios
import time
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import warm
from command import Omnitts
from patience import LONG_S
from speech_server import Plan, SpeechServer

from omnitts_cli.bench.job import PACKAGES
from omnitts_cli.cli import bench

TOY = ("bench", "-m", "random:toy", "--offline", "-d", "cpu", "-t", "1", "--frames", "5")
QUICK = (*TOY, "-c", "2", "-n", "4", "--warmup", "1", "-q")


def test_three_levels_on_the_toy(omnitts: Omnitts) -> None:
    began = time.perf_counter()
    done = omnitts(*TOY, "-c", "1,4,10", "--json").ended(0)
    lasted = time.perf_counter() - began
    report = done.json
    assert (report["schema"], report["status"]) == (1, "ok")
    assert [level["concurrency"] for level in report["levels"]] == [1, 4, 10]
    assert [level["requests"] for level in report["levels"]] == [8, 16, 40]
    assert [level["failed"] for level in report["levels"]] == [0, 0, 0]
    assert sum(level["duration_s"] for level in report["levels"]) < lasted
    for level in report["levels"]:
        assert level["frames"] == 5 * level["requests"]
        assert level["audio_s"] == pytest.approx(level["frames"] * 0.08)
        assert level["audio_throughput"] == pytest.approx(level["audio_s"] / level["duration_s"], rel=1e-3)
        assert level["host_syncs_per_frame"] is None  # nobody can count them on a CPU
        assert level["peak_memory_bytes"] > 0
    assert report["device"].startswith("cpu, ") and report["dtype"] == "float32" and report["start"]["load_s"] > 0
    installed = {one.metadata["Name"] for one in metadata.distributions()}
    assert set(report["versions"]) == {"python", *installed.intersection(PACKAGES)} >= {"python", "torch", "numpy"}
    about = [report["workload"][name] for name in ("loop", "target", "mode", "slots", "languages")]
    assert about == ["closed", "engine", "voice", 10, ["chinese", "english", "german"]]
    assert "c10: 40 requests" not in done.err  # --json is for programs


def test_a_table_is_the_default_and_progress_is_elsewhere(omnitts: Omnitts) -> None:
    done = omnitts(*QUICK[:-1]).ended(0)
    text = done.out.decode()
    assert text.startswith("=")
    assert "Successful requests:                                     4" in text
    assert "RTF: end-to-end time" in text
    assert "c2: 4 requests" in done.err


@pytest.mark.parametrize(("options", "shown"), [
    ("--format md", "| c2 | 0 of 4 |"), ("--format csv", "random:toy,"), ("--format json", '"levels"'),
    ("--plot -", "█"),
])  # fmt: skip
def test_other_forms(omnitts: Omnitts, options: str, shown: str) -> None:
    text = omnitts(*QUICK, *options.split()).ended(0).out.decode()
    assert shown in text and ("json" not in options or json.loads(text)["levels"][0]["concurrency"] == 2)


def test_an_open_loop(omnitts: Omnitts) -> None:
    done = omnitts(*TOY, "--rate", "20", "--burstiness", "0.5", "-n", "6", "--json", "--goodput", "ttfp:60000,rtf:99")
    assert done.code == 0, done.err
    level = done.json["levels"][0]
    assert (level["rate"], level["burstiness"], level["concurrency"], level["requests"]) == (20, 0.5, None, 6)
    assert level["goodput"] == 1.0


def test_the_report_is_kept_and_compared(omnitts: Omnitts, home: Path) -> None:
    omnitts(*QUICK, "--save", "old.json").ended(0)
    same = omnitts(*QUICK, "--compare", "old.json", "--tolerance", "1000").ended(0)
    assert "audio-s/s" in same.out.decode()
    table = json.loads(Path("old.json").read_text())
    table["levels"][0]["rtf"] = dict.fromkeys(table["levels"][0]["rtf"], 1e-9)
    Path("old.json").write_text(json.dumps(table))
    worse = omnitts(*QUICK, "--compare", "old.json", "--save", "log.jsonl", "--append", "--json").ended(9)
    assert worse.objects[-1]["code"] == "regression"
    assert worse.objects[0]["status"] == "ok"
    assert "RTF" in worse.err
    assert len(Path("log.jsonl").read_text().splitlines()) == 1  # kept although it is worse


def test_a_run_that_is_cut_short_kept_its_levels(omnitts: Omnitts, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:

    def interrupted(*given: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(bench, "present", interrupted)
    omnitts(*TOY, "-c", "1,2", "-n", "2", "--warmup", "0", "-q", "--save", "short.json").ended(130)
    assert [level["concurrency"] for level in json.loads(Path("short.json").read_text())["levels"]] == [1, 2]


@pytest.mark.gpu
@pytest.mark.parametrize("mode", ["voice", "clone", "design"])
def test_captured_steps_are_held_against_eager_ones(omnitts: Omnitts, mode: str) -> None:
    toy = ("bench", "-m", "random:toy", "--offline", "-d", "cuda", "--frames", "12", "-c", "1,4", "-n", "4", "-q")
    done = omnitts(*toy, "--mode", mode, "--vs", "eager", "--json").ended(0)
    assert [level["variant"] for level in done.json["levels"]] == [None, "eager"] * 2
    assert all(level["failed"] == 0 for level in done.json["levels"])
    assert all(ratio["rtf"] > 1 for ratio in done.json["ratios"]), "a recorded step is quicker"


def test_measured_sound_is_kept(omnitts: Omnitts) -> None:
    soundfile = pytest.importorskip("soundfile")
    done = omnitts(*QUICK, "--save-audio", "sound", "--json").ended(0)
    files = sorted(Path("sound").glob("*.wav"))
    seconds = sum(soundfile.info(path).duration for path in files)
    assert len(files) == 4
    assert seconds == pytest.approx(done.json["levels"][0]["audio_s"])


def test_clones_of_a_clip_with_and_without_its_words(omnitts: Omnitts) -> None:
    soundfile = pytest.importorskip("soundfile")
    clip = (0.2 * np.sin(np.arange(16_000 * 3) / 20) * np.sin(np.arange(16_000 * 3) / 4000)).astype(np.float32)
    soundfile.write("me.wav", clip, 16_000)
    for more in ((), ("--ref-text", "hello."), ("--ref-text", "hello.", "--ref-fresh")):
        done = omnitts(*QUICK, "-r", "me.wav", "--json", *more).ended(0)
        assert done.json["workload"]["mode"] == "clone"
        assert done.json["workload"]["transcript"] == ("--ref-text" in more)


def test_a_server_that_fails_now_and_then_is_exit_6(omnitts: Omnitts) -> None:
    with SpeechServer(Plan(), Plan(wrong="cut")) as server:
        done = omnitts("bench", "--url", server.url, "-c", "1", "-n", "4", "--json", "--length", "short")
    assert done.code == 6
    assert [record["status"] for record in done.objects] == ["ok", "error"]
    assert done.objects[0]["levels"][0]["failures"] == {"the connection closed before the end of the audio": 2}
    assert "2 of 4 requests failed" in done.err


def test_a_server_that_is_not_there_is_exit_5(omnitts: Omnitts) -> None:
    with SpeechServer() as server:
        pass
    done = omnitts("bench", "--url", server.url)
    assert done.code == 5  # as of any server that does not answer
    assert "Connection refused" in done.err
    assert f"curl {server.url}/v1/models" in done.err


def test_the_key_comes_from_a_file_and_goes_nowhere_else(omnitts: Omnitts) -> None:
    Path("key").write_text("s3cret\n")
    with SpeechServer() as server:
        done = omnitts(
            "bench", "--url", server.url, "-c", "1", "-n", "1", "--api-key-file", "key", "--json", "--save", "new.json"
        )
    assert done.code == 0, done.err
    assert server.seen[-1].headers["Authorization"] == "Bearer s3cret"
    assert "s3cret" not in done.out.decode() + done.err + Path("new.json").read_text()


def test_fields_come_from_a_file_and_the_key_from_a_variable(omnitts: Omnitts, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("more.json").write_text('{"task_type": "Base"}')
    monkeypatch.setenv("OMNITTS_API_KEY", "k-9")
    with SpeechServer() as server:
        assert omnitts("bench", "--url", server.url, "-c", "1", "-n", "1", "--body", "@more.json").code == 0
    seen = server.seen[-1]
    assert (seen.fields["task_type"], seen.headers["Authorization"]) == ("Base", "Bearer k-9")


def test_secrets_are_not_reported_and_limits_are_those_that_are_measured() -> None:
    given = ["x", "bench", "--body", '{"api_key": "s3cret", "speed": 1}', "--api-key-file", "k"]
    shown = bench.shown_command(given)
    assert "s3cret" not in shown
    assert "speed" in shown
    assert shown.endswith("--api-key-file k")
    from omnitts_cli.bench import stats
    from omnitts_cli.settings import commands

    assert set(commands.LIMITS) == set(stats.LIMITS)  # named twice, so that help needs no numpy


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (("-c", "1", "--rate", "2"), 2, "use either -c or --rate, not both"),
        (("--burstiness", "2"), 2, "--burstiness has no effect without --rate"),
        (("--arrivals", "apart"), 2, "--arrivals has no effect without --frames"),
        (("--arrivals", "apart", "--frames", "9", "--rate", "2"), 2, "--arrivals apart has no effect with --rate"),
        (("--arrivals", "apart", "--frames", "9", "-c", "4", "-n", "11"), 2, "-n 12"),
        (("-n", "1", "--duration", "2"), 2, "use either -n or --duration, not both"),
        (("--append",), 2, "--append has no effect without --save"),
        (("--mode", "design", "-r", "a.wav"), 2, "--ref-audio has no effect"),
        (("--mode", "voice", "--ref-text", "a"), 2, "--ref-text has no effect"),
        (("--vs", "engine"), 2, "--vs engine has no effect without --url"),
        (("--url", "http://h", "--mode", "clone"), 2, "--mode cannot be used with --url"),
        (("--url", "http://h", "--vs", "cpu"), 2, "--vs cannot be used with --url"),
        (("--url", "http://h", "-d", "cuda"), 2, "--device cannot be used with --url"),
        (("--url", "http://u:p@h"), 2, "must not contain a password"),
        (("--url", "http://h", "--body", "{"), 2, "--body is not valid JSON"),
        (("--url", "http://h", "--body", "[1]"), 2, "--body is not a JSON object"),
        (("--url", "http://h", "--body", "@none"), 3, "cannot read none"),
        (("--url", "http://h", "--api-key-file", "none"), 3, "cannot read key file none"),
        *[
            (("-m", "nowhere", *option.split()), 2, f"{option.split()[0]} has no effect without --url")
            for option in ("--no-stream", "--stream", "--wire wav", "--wire-rate 8000", "--body {}", "--api-key-file k")
        ],
        (("-m", "random:toy", "--compare", "none.json"), 3, "cannot read none.json"),
        (("-c", "0"), 2, "'0' is not comma-separated whole numbers, 1 to"),
        (("-c", "1,,2"), 2, "is not comma-separated whole numbers"),
        (("-c", "1,nan"), 2, "is not comma-separated whole numbers"),
        (("--rate", "nan"), 2, "is not a number"),
        (("--percentiles", "101"), 2, "is not comma-separated numbers, 0 to 100"),
        (("--goodput", "speed:1"), 2, "is not limits"),
        (("--goodput", "ttfa"), 2, "is not limits"),
        (("--texts", "none.txt"), 3, "cannot read none.txt"),
        (("--plot", "a.txt"), 2, "must end in .png"),
        (("--save-audio", "/dev/null/x"), 8, "cannot write to /dev/null/x"),
        (("-m", "nowhere", "--save", "none/x.json"), 8, "mkdir -p none"),
        (("-m", "nowhere", "--plot", "none/x.png"), 8, "mkdir -p none"),
        (("-m", "random:toy", "-v", "zoe"), 4, "voice 'zoe' not found"),
        (("-m", "random:toy", "--vs", "eager", "-d", "cpu"), 2, "does not capture graphs"),
        (("-m", "random:nothing"), 4, "random:nothing"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_what_cannot_be_done_is_reported(omnitts: Omnitts, options: tuple[str, ...], code: int, words: str) -> None:
    done = omnitts("bench", "--offline", *options)
    assert (done.code, done.out) == (code, b"")
    assert words in done.err
    assert "Traceback" not in done.err


def test_a_device_of_the_environment_is_overruled_for_a_server(
    omnitts: Omnitts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMNITTS_DEVICE", "cpu")
    refused = omnitts("bench", "--url", "http://127.0.0.1:9", "-n", "1", "-c", "1")
    assert refused.code == 2 and "try: -d auto   (overrides settings files and OMNITTS_DEVICE)" in refused.err
    assert "--device" not in omnitts("bench", "--url", "http://127.0.0.1:9", "-n", "1", "-c", "1", "-d", "auto").err


def test_a_bar_on_a_terminal_and_only_there(home: Path) -> None:
    command = [sys.executable, "-m", "omnitts_cli", *TOY, "-c", "2", "-n", "6"]
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100"}
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 100, 0, 0))
    process = warm.Process(command, stdout=subprocess.PIPE, stderr=slave, env=environment)
    os.close(slave)
    screen = read_all(master)
    out = process.communicate()[0]
    assert process.returncode == 0, screen
    assert b"bench" in screen and b"req" in screen and b"\r" in screen
    assert b"\r" not in out
    plain = warm.run(command, capture_output=True)
    assert b"\r" not in plain.stderr


def read_all(terminal: int) -> bytes:
    """What was written to the other end until it was closed."""
    screen = b""
    try:
        while block := os.read(terminal, 65536):
            screen += block
    except OSError:  # closed
        pass
    os.close(terminal)
    return screen


def test_progress_for_programs(omnitts: Omnitts) -> None:
    done = omnitts(*TOY, "-c", "2", "-n", "4", "--progress", "json", "--json")
    events = [json.loads(line) for line in done.err.splitlines()]
    assert [event["done"] for event in events] == [1, 2, 3, 4]
    assert {event["of"] for event in events} == {4}


def test_an_interrupt_ends_it_at_once(home: Path) -> None:
    command = [sys.executable, "-m", "omnitts_cli", *TOY, "-c", "2", "--duration", "600", "--progress", "json"]
    process = warm.Process(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stderr is not None
    assert b"progress" in process.stderr.readline()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=LONG_S)
    assert process.returncode == 130
    assert (out, err.splitlines()[-1]) == (b"", b"interrupted")
