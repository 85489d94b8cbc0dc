"""omnitts play: through a player program that keeps what it hears; live words, keys, and no sound at all."""

import contextlib
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest
from command import Omnitts, Started
from patience import LONG_S, eventually

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
    path = home / "heard"
    return path.stat().st_size // 2 if path.exists() else 0


def shown_until_it_ends(child: int, master: int) -> bytes:
    """What a process writes to its terminal; it must end with 0."""
    shown = b""
    with contextlib.suppress(OSError):  # closed
        while more := os.read(master, 4096):
            shown += more
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0, shown
    os.close(master)
    return shown


def test_words_are_spoken(started: Started, home: Path, machine: dict[str, str]) -> None:
    process = started("play", *TOY, "Hello there.", env=machine)
    assert process.wait(LONG_S) == 0, process.stderr.read()
    assert FRAMES + TAIL <= heard(home) <= FRAMES + TAIL + 2000


def test_a_pipe_is_spoken_before_it_ends(started: Started, home: Path, machine: dict[str, str]) -> None:
    process = started("play", *TOY, env=machine, stdin=subprocess.PIPE)
    process.stdin.write(b"Hello there, this is one.\n")
    process.stdin.flush()
    eventually(lambda: heard(home) >= FRAMES or process.poll() is not None)
    assert process.poll() is None
    process.stdin.close()
    process.stdin = None
    assert process.wait(LONG_S) == 0


def test_live_words_are_spoken_before_the_sentence_ends(started: Started, home: Path, machine: dict[str, str]) -> None:
    process = started("play", "--live", "-m", "random:toy", "--seed", "5", env=machine, stdin=subprocess.PIPE)
    process.stdin.write(b"This is the beginning of a sentence that has no end yet ")
    process.stdin.flush()
    eventually(lambda: heard(home) >= 2000 or process.poll() is not None)
    assert process.poll() is None
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
    eventually(lambda: heard(home) >= FRAMES)
    os.write(master, b"q")
    shown_until_it_ends(child, master)


def test_karaoke_shows_the_words(home: Path, machine: dict[str, str]) -> None:
    """On a terminal of its own. Which word is marked depends on the time; the line is there once it is known."""
    child, master = pty.fork()
    if child == 0:
        arguments = [sys.executable, "-m", "omnitts_cli", "play", *TOY, "--karaoke", "Hello there, whole line."]
        os.execve(sys.executable, arguments, {**machine, "TERM": "xterm", "COLUMNS": "80", "NO_COLOR": "1"})
    assert b"Hello there, whole line." in shown_until_it_ends(child, master)


def test_without_any_output_it_says_so_before_loading(started: Started, machine: dict[str, str], home: Path) -> None:
    for name in ("aplay", "paplay", "ffplay"):
        (home / "bin" / name).write_text("#!/bin/sh\nexit 1\n")
        (home / "bin" / name).chmod(0o755)
    process = started("play", "-m", "nowhere", "Hello.", env=machine)
    _, err = process.communicate(timeout=LONG_S)
    assert process.returncode == 5 and b"no sound output" in err


@pytest.mark.parametrize(("options", "path"), [([], "speech.wav"), (["-o", "x.flac"], "x.flac")])
def test_without_sound_the_hint_can_be_typed(
    omnitts: Omnitts, silent_machine: None, options: list[str], path: str
) -> None:
    done = omnitts("play", "-m", "random:toy", "--max-frames", "3", *options, "Hello.")
    assert done.code == 5 and f'omnitts say "text" -o {path}' in done.err and "--play" not in done.err
    assert not Path(path).exists()
    assert omnitts("say", "-m", "random:toy", "--max-frames", "3", "-o", path, "Hello.").code == 0
