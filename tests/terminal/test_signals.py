"""Signals: the exit code of each, at every phase, and nothing half-made left behind."""

import contextlib
import importlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
import wave
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import soundfile
import warm
from command import Omnitts, Started
from patience import LONG_S, eventually

from omnitts_cli.cli import app
from omnitts_cli.errors import ModelError
from omnitts_cli.terminal import signals

Process = subprocess.Popen[bytes]

TOY = ["-m", "random:toy", "--seed", "5", "--max-frames", "40", "-b", "1"]
BOOK = "Here is a sentence of some length to speak. " * 60

# The command with a mark on stderr when a phase begins, so that a signal can be sent in it.
PHASES = """
import sys, time
phase, arguments = sys.argv[1], sys.argv[2:]
def reached(name):
    if name == phase:
        print("REACHED", file=sys.stderr, flush=True)
        time.sleep(600 if name in ("import", "load") else 0.05)
from omnitts_cli.cli import app, job, sound_out
plain_model, plain_write, plain_files = job.ModelOpener.model, sound_out.Stage.write, job.Job.side_files
def opened_model(*a, **k):
    reached("load")
    return plain_model(*a, **k)
def write(self, samples):
    plain_write(self, samples)
    reached("middle" if self.sink.sentences else "first")
def side_files(self, closing):
    reached("import")
    return plain_files(self, closing)
job.ModelOpener.model, sound_out.Stage.write, job.Job.side_files = opened_model, write, side_files
sys.argv = ["omnitts", *arguments]
app.main()
"""


HEEDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def heed_signals() -> None:
    """In the child: tests that run in the background of a shell inherit SIGINT as ignored."""
    for number in HEEDED:
        signal.signal(number, signal.SIG_DFL)


@pytest.fixture
def in_phase(home: Path, processes: list[Process]) -> Any:
    """`in_phase("load", "say", ...)`: a process that has just reached the phase."""

    def start(phase: str, *arguments: str) -> Process:
        process = warm.Process(
            [sys.executable, "-c", PHASES, phase, *arguments],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        processes.append(process)
        assert process.stderr is not None
        while line := process.stderr.readline():
            if b"REACHED" in line:
                return process
        raise AssertionError("the phase was never reached")

    return start


def left() -> list[str]:
    return sorted(path.name for path in Path().iterdir())


@pytest.mark.parametrize(("name", "code"), [("SIGINT", 130), ("SIGTERM", 143), ("SIGHUP", 129)])
@pytest.mark.parametrize("phase", ["import", "load", "first", "middle"])
def test_a_signal_waits_for_nothing_and_finished_sentences_are_kept(
    in_phase: Started, phase: str, name: str, code: int
) -> None:
    process = in_phase(phase, "say", *TOY, "-o", "a.wav", BOOK)
    process.send_signal(getattr(signal, name))
    assert process.wait(LONG_S) == code
    errors = process.stderr.read()
    assert b"Traceback" not in errors and (name != "SIGINT" or b"interrupted" in errors)
    if phase == "first":
        assert left() in ([], ["a.partial.wav"])
    else:
        assert left() == (["a.partial.wav"] if phase == "middle" else [])
    if phase == "middle":
        assert b"a.partial.wav" in errors
        with wave.open("a.partial.wav") as file:
            assert file.getnframes() >= 40 * 640


def test_ctrl_c_while_the_command_is_still_being_imported(home: Path) -> None:
    """A module that all commands import is a stand-in that takes for ever."""
    (home / "difflib.py").write_text(
        "import sys, time\nprint('REACHED', file=sys.stderr, flush=True)\ntime.sleep(600)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-m", "omnitts_cli", "say", "Hello."],
        stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, preexec_fn=heed_signals,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(home), *sys.path])},
    )  # fmt: skip
    assert process.stderr is not None and process.stderr.readline() == b"REACHED\n"
    process.send_signal(signal.SIGINT)
    assert process.wait(LONG_S) == -signal.SIGINT  # a shell calls it 130
    assert process.stderr.read() == b""


def test_stop_and_continue(in_phase: Started) -> None:
    process = in_phase("first", "say", *TOY[:-2], "-o", "a.wav", "Here is a sentence of some length to speak. " * 4)
    process.send_signal(signal.SIGTSTP)
    time.sleep(0.2)
    process.send_signal(signal.SIGCONT)
    assert process.wait(LONG_S) == 0
    assert left() == ["a.wav"]


def test_after_kill_the_next_run_heals(in_phase: Started, omnitts: Omnitts) -> None:
    process = in_phase("middle", "say", *TOY, "-o", "a.wav", BOOK)
    process.kill()
    process.wait(LONG_S)
    (part,) = left()
    assert part.startswith(".a.wav.part-")
    assert soundfile.info(part).frames >= 40 * 640, "even a killed file can be read up to its end"
    assert omnitts("say", *TOY, "-o", "a.wav", "Hello there.").code == 0
    assert left() == ["a.wav"]


def test_twice_ends_at_once(in_phase: Started) -> None:
    """A second signal does not wait for anything: here for a reader that never comes."""
    process = in_phase("first", "say", *TOY, "-o", "-", BOOK)
    time.sleep(0.5)  # the pipe is full by now, or soon

    def ended() -> bool:
        process.send_signal(signal.SIGINT)  # two that are sent at once may arrive as one
        return process.poll() is not None

    eventually(ended)
    assert process.returncode == 130


def test_what_nohup_ignores_stays_ignored(home: Path) -> None:
    probe = """if True:
        import signal
        from omnitts_cli.terminal import signals
        with signals.handled():
            print("kept", signal.getsignal(signal.SIGHUP) == signal.SIG_IGN)
    """
    done = subprocess.run(["nohup", sys.executable, "-c", probe], capture_output=True, text=True)
    assert "kept True" in done.stdout


@pytest.fixture
def heeding() -> Iterator[None]:
    """This process heeds signals, and is as before afterwards."""
    before = {number: signal.getsignal(number) for number in HEEDED}
    heed_signals()
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def test_a_block_is_not_interrupted(heeding: None) -> None:
    seen = []
    with pytest.raises(signals.Stopped) as stopped, signals.handled():
        with signals.held():
            os.kill(os.getpid(), signal.SIGTERM)
            seen.append("whole")
        seen.append("never")
    assert seen == ["whole"]
    assert stopped.value.exit_code == 143


def interrupt() -> None:
    os.kill(os.getpid(), signal.SIGINT)


class Last:
    def __del__(self) -> None:
        interrupt()
        pytest.fail("raised above")


def dropping() -> None:
    """As import of torch does while it imports numpy."""
    with contextlib.suppress(BaseException):
        interrupt()


@pytest.mark.parametrize("losing", [Last, dropping], ids=["a finalizer", "a library that drops it"])
def test_a_signal_is_not_lost(heeding: None, losing: Callable[[], object]) -> None:
    with pytest.raises(signals.Stopped), signals.handled():
        losing()
        time.sleep(LONG_S)


def test_cleaning_up_after_a_signal_may_take_its_time(heeding: None) -> None:
    cleaned = []
    with pytest.raises(signals.Stopped), signals.handled():
        try:
            interrupt()
        finally:
            time.sleep(10 * signals.AGAIN_S)
            cleaned.append(True)
    assert cleaned


@pytest.mark.parametrize("error", [ImportError("initialization failed"), ModelError("not a model folder")])
def test_a_signal_is_not_lost_in_a_library_that_makes_an_error_of_it(
    omnitts: Omnitts, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def command(*arguments: object, **named: object) -> None:
        try:
            interrupt()
        except BaseException:
            raise error from None

    with monkeypatch.context() as patched:
        patched.setattr(app, "run_row", command)
        done = omnitts("say", "Hello.")
    assert (done.code, done.err) == (130, "interrupted\n")
    assert "'nowhere' not found" in omnitts("say", "Hello.", "-m", "nowhere").err, (
        "the next error must be reported as itself"
    )


def test_at_no_moment_of_an_import_is_a_lock_left(
    heeding: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each event of the profiler inside of Python's import is tried. A lock would stop imports in all other threads."""
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "imported.py").write_text("")
    seen: list[int] = []

    def imported(at: int = 0) -> None:
        def profiled(frame: Any, event: str, argument: object) -> None:
            if frame.f_code.co_filename == signals.IMPORT:
                seen.append(frame.f_lineno)
                if len(seen) == at:
                    sys.setprofile(None)
                    signals.stop(signal.SIGINT, frame)

        seen.clear()
        sys.modules.pop("imported", None)
        sys.setprofile(profiled)
        try:
            importlib.import_module("imported")
        finally:
            sys.setprofile(None)

    imported()  # the first import writes the bytecode
    imported()
    moments = len(seen)
    assert moments > 50
    for at in range(1, moments + 1):
        with pytest.raises(signals.Stopped), signals.handled():
            imported(at)
            time.sleep(LONG_S)
        other = threading.Thread(target=imported, daemon=True)
        other.start()
        other.join(LONG_S)
        assert not other.is_alive(), f"after a signal in line {seen[-1]} of {signals.IMPORT}"


def test_the_former_handlers_and_hook_of_finalizers_come_back(heeding: None) -> None:
    before, hook = signal.getsignal(signal.SIGINT), sys.unraisablehook
    with pytest.raises(signals.Stopped), signals.handled():
        assert signal.getsignal(signal.SIGINT) is signals.stop
        interrupt()
    assert signal.getsignal(signal.SIGINT) is before and sys.unraisablehook is hook


def test_a_stopped_command_leaves_a_record(tmp_path: Path) -> None:
    stopped = signals.Stopped(signal.SIGTERM)
    app.console.reset()
    app.console.json = True
    lines: list[str] = []
    app.console.stdout.line = lines.append  # type: ignore[method-assign]
    assert app.interrupted(stopped) == 143
    assert json.loads(lines[0]) == {
        "schema": 1, "status": "error", "code": "stopped", "exit": 143, "message": "terminated"
    }  # fmt: skip
    app.console.reset()
