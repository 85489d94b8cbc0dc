"""omnitts play: through a player program that keeps what it hears; live words, keys, and no sound at all."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import time
from pathlib import Path

import pytest
from command import Omnitts, Started
from patience import LONG_S

TOY = ["-m", "random:toy", "--seed", "5", "--max-frames", "12"]
FRAMES = 12 * 640
TAIL = 1600  # 0.2 s that players may cut

PLAYER = """#!/bin/sh
exec cat > "$HEARD"
"""
NO_PORTAUDIO = "raise OSError('PortAudio library not found')\n"


@pytest.fixture
def machine(home: Path) -> dict[str, str]:
    """A machine whose only sound output is a program called aplay that writes down what it gets."""
    (home / "bin").mkdir()
    for name, text in (("aplay", PLAYER), ("pw-play", "#!/bin/sh\nexit 1\n")):
        (home / "bin" / name).write_text(text)
        (home / "bin" / name).chmod(0o755)
    (home / "no").mkdir()
    (home / "no" / "sounddevice.py").write_text(NO_PORTAUDIO)
    return {
        **os.environ,
        "PATH": f"{home / 'bin'}:/bin:/usr/bin",
        "PYTHONPATH": os.pathsep.join([str(home / "no"), *sys.path]),
        "HEARD": str(home / "heard"),
    }


def heard(home: Path) -> int:
    """Samples that arrived at the player, without the trial silence at the start and the tail."""
    return (home / "heard").stat().st_size // 2


def test_words_are_spoken(started: Started, home: Path, machine: dict[str, str]) -> None:
    process = started("play", *TOY, "Hello there.", env=machine)
    assert process.wait(LONG_S) == 0, process.stderr.read()
    assert FRAMES + TAIL <= heard(home) <= FRAMES + TAIL + 2000


def test_a_pipe_is_spoken_before_it_ends(started: Started, home: Path, machine: dict[str, str]) -> None:
    process = started("play", *TOY, env=machine, stdin=subprocess.PIPE)
    process.stdin.write(b"Hello there, this is one.\n")
    process.stdin.flush()
    deadline = time.monotonic() + LONG_S
    while not (home / "heard").exists() or heard(home) < FRAMES:
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.05)
    process.stdin.close()
    process.stdin = None
    assert process.wait(LONG_S) == 0


def test_live_words_are_spoken_before_the_sentence_ends(started: Started, home: Path, machine: dict[str, str]) -> None:
    process = started("play", "--live", "-m", "random:toy", "--seed", "5", env=machine, stdin=subprocess.PIPE)
    process.stdin.write(b"This is the beginning of a sentence that has no end yet ")
    process.stdin.flush()
    deadline = time.monotonic() + LONG_S
    while not (home / "heard").exists() or heard(home) < 2000:
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.05)
    process.stdin.write(b"but now it ends.")
    process.stdin.close()
    process.stdin = None
    assert process.wait(LONG_S) == 0, process.stderr.read()


def test_q_stops_and_is_no_failure(home: Path, machine: dict[str, str]) -> None:
    """On a terminal of its own: `q` long before the end of the text."""
    child, master = pty.fork()
    if child == 0:
        arguments = [sys.executable, "-m", "omnitts_cli", "play", *TOY, "Here is a sentence to speak. " * 200]
        os.execve(sys.executable, arguments, machine)
    deadline = time.monotonic() + LONG_S
    while not (home / "heard").exists() or heard(home) < FRAMES:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    os.write(master, b"q")
    while True:
        try:
            if not os.read(master, 4096):
                break
        except OSError:
            break
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    os.close(master)


def test_karaoke_shows_the_words(home: Path, machine: dict[str, str]) -> None:
    """On a terminal of its own. Which word is marked depends on the time; the line is there once it is known."""
    child, master = pty.fork()
    if child == 0:
        arguments = [sys.executable, "-m", "omnitts_cli", "play", *TOY, "--karaoke", "Hello there, whole line."]
        os.execve(sys.executable, arguments, {**machine, "TERM": "xterm", "COLUMNS": "80", "NO_COLOR": "1"})
    shown = b""
    while True:
        try:
            more = os.read(master, 4096)
        except OSError:
            break
        if not more:
            break
        shown += more
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0, shown
    os.close(master)
    assert b"Hello there, whole line." in shown


def test_karaoke_needs_whole_sentences(omnitts: Omnitts) -> None:
    done = omnitts("play", "--live", "--karaoke", "Hello.")
    assert done.code == 2 and "--karaoke cannot be used with --live" in done.err


def test_without_any_output_it_says_so_before_loading(started: Started, machine: dict[str, str], home: Path) -> None:
    for name in ("aplay", "paplay", "ffplay"):
        (home / "bin" / name).write_text("#!/bin/sh\nexit 1\n")
        (home / "bin" / name).chmod(0o755)
    process = started("play", "-m", "nowhere", "Hello.", env=machine)
    _, err = process.communicate(timeout=LONG_S)
    assert process.returncode == 5 and b"no sound output" in err


@pytest.mark.parametrize("options", [["-o", "-"], ["--no-play"]])
def test_what_is_no_playing_is_2(omnitts: Omnitts, options: list[str]) -> None:
    assert omnitts("play", *TOY, *options, "Hello.").code == 2


@pytest.mark.parametrize(("options", "path"), [([], "speech.wav"), (["-o", "x.flac"], "x.flac")])
def test_without_a_sound_card_the_hint_can_be_typed(
    omnitts: Omnitts, silent_machine: None, options: list[str], path: str
) -> None:
    done = omnitts("play", "-m", "random:toy", "--max-frames", "3", *options, "Hello.")
    assert done.code == 5 and f'omnitts say "text" -o {path}' in done.err and "--play" not in done.err
    assert not Path(path).exists()
    assert omnitts("say", "-m", "random:toy", "--max-frames", "3", "-o", path, "Hello.").code == 0
