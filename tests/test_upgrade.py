"""A user of an earlier version upgrades: settings, a cloned voice, a corpus and a book in progress are still there."""

import json
import os
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest

HOUSE = Path(__file__).parents[1]
BEFORE = "6b951fa"
ROWS = 12
CHAPTER = "This is a chapter. It has a few sentences, so that it takes a while. And here is one more of them.\n\n"


@pytest.fixture
def old_tree(tmp_path: Path) -> Path:
    packed, tree = tmp_path / "old.tar", tmp_path / "old"
    done = subprocess.run(["git", "archive", "-o", packed, BEFORE], cwd=HOUSE, capture_output=True)
    if done.returncode:
        pytest.skip(f"the history does not reach to {BEFORE}")
    with tarfile.open(packed) as content:
        content.extractall(tree, filter="data")
    return tree


def command(tree: Path, home: Path) -> tuple[list[str], dict[str, str]]:
    kept = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in os.environ}
    env = {**kept, "PYTHONPATH": str(tree), "HOME": str(home), "XDG_RUNTIME_DIR": str(home), "OMP_NUM_THREADS": "1"}
    return [sys.executable, "-P", "-m", "omnitts_cli"], env


def started(tree: Path, home: Path, *words: str) -> subprocess.Popen[str]:
    line, env = command(tree, home)
    return subprocess.Popen(
        [*line, *words], cwd=home, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def run(tree: Path, home: Path, *words: str, code: int = 0) -> str:
    process = started(tree, home, *words)
    out, err = process.communicate()
    assert process.returncode == code and "Traceback" not in err, (words, out, err)
    return out + err


def interrupted(tree: Path, home: Path, *words: str, begun: Callable[[], bool]) -> None:
    """Runs a command until it has begun, and presses Ctrl-C."""
    process = started(tree, home, *words)
    while process.poll() is None and not begun():
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    process.communicate()
    assert process.returncode == 130


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_an_upgrade_keeps_what_a_user_has(old_tree: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    rows = [{"id": f"r{n}", "text": f"Row number {n} of the corpus, and some more words."} for n in range(ROWS)]
    (home / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (home / "book.md").write_text("".join(f"# Part {n}\n\n{CHAPTER}" for n in range(1, 4)))
    corpus = ("batch", "rows.jsonl", "-O", "corpus", "-m", "random:toy", "-d", "cpu", "--slots", "1")
    book = ("say", "-d", "cpu", "-f", "book.md", "-o", "book.m4b", "--seed", "3")

    def spoken() -> int:
        return len(list((home / "corpus").rglob("*.flac")))

    def kept() -> bool:
        return any((home / ".cache").rglob("*.flac")) or any((home / ".cache").rglob("*.raw"))

    run(old_tree, home, "config", "set", "speed", "1.2")
    words = "This is a recording of a voice, and it is long enough to be cloned later."
    run(old_tree, home, "say", "-d", "cpu", words, "-o", "me.wav")
    run(old_tree, home, "voices", "save", "mine", "-r", "me.wav", "-d", "cpu")
    interrupted(old_tree, home, *corpus, begun=lambda: spoken() > 1)
    assert 1 < spoken() < ROWS
    deadline = time.monotonic() + 12
    interrupted(old_tree, home, *book, begun=lambda: kept() or time.monotonic() > deadline)
    assert not (home / "book.m4b").exists()

    assert "1.2" in run(HOUSE, home, "config", "show")
    assert "mine" in run(HOUSE, home, "voices", "list")
    assert "voices renew mine" in run(HOUSE, home, "say", "-d", "cpu", "-v", "mine", "Hello.", "-o", "a.wav", code=4)
    assert "voices save mine" in run(HOUSE, home, "voices", "renew", "mine", code=3)
    run(HOUSE, home, "voices", "rm", "mine", "--yes")
    run(HOUSE, home, "voices", "save", "mine", "-r", "me.wav", "-d", "cpu")
    run(HOUSE, home, "say", "-d", "cpu", "-v", "mine", "Hello.", "-o", "a.wav")
    run(HOUSE, home, *corpus)
    assert spoken() == ROWS
    run(HOUSE, home, *book)
    assert (home / "book.m4b").stat().st_size > 50_000
