"""Reading what someone else may have made: what is no regular file, and what is too large, is refused at once."""

import os
import re
import stat
from pathlib import Path

import fuzz
import pytest

from omnitts_cli import files
from omnitts_cli.audio.target import TEMPORARY

PACKAGE = Path(files.__file__).parent
OWN = {
    "files.py",  # the reader itself
    "cli/commands.py", "cli/complete.py", "cli/deploy.py", "cli/help.py", "cli/speechd.py",  # of the package
    "bench/evaluate.py", "server/page.py", "text/american/dictionary.py", "text/european/contexts.py",  # the same
    "devices/fingerprint.py", "families/qwen3_omni/released.py", "families/qwen3_tts/released.py",  # the same
    "families/toy.py", "models/shapes.py", "text/american/senses.py", "text/language.py", "weights/released.py",
    "devices/system.py", "fleet/disk.py",  # of the system
    "kernels/cpu/build.py", "kernels/cuda/nvrtc.py", "kernels/cuda/layout.py", "kernels/cuda/__init__.py",
    "weights/verify.py",  # files whose size was checked before
    "fleet/store.py", "fleet/worker.py", "books/cache.py", "tuning/journal.py",  # what this run wrote
}  # fmt: skip
"""Who may read a whole file without a limit."""


def test_a_regular_file_up_to_its_limit(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"\r\nab\r")
    assert files.read(tmp_path / "a", 5) == b"\r\nab\r"
    assert files.read_text(tmp_path / "a", 5) == "\nab\n"
    with pytest.raises(OSError, match="larger than"):
        files.read(tmp_path / "a", 4)
    assert files.read(os.devnull, 4) == b""


@pytest.mark.timeout(20)
def test_pipes_devices_and_folders_are_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "zero").symlink_to("/dev/zero")
    for name in ("pipe", "zero", "."):
        with pytest.raises(OSError, match=r"regular file|folder"):
            files.read(tmp_path / name, 1 << 20)


def test_a_pipe_that_the_user_has_named_is_read_to_its_end(tmp_path: Path) -> None:
    read, write = os.pipe()
    os.write(write, b"words")
    os.close(write)
    assert files.read(f"/dev/fd/{read}", 100, pipes=True) == b"words"
    os.close(read)


def test_every_reader_of_whole_files_has_a_limit() -> None:
    """`read_text` and `read_bytes` of a path read a device without end, and wait for a pipe."""
    whole = re.compile(r"(?<!files)\.read_(?:text|bytes)\(|open\([^)]*\)\.read\(\)")
    found = {
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*.py")
        if "training" not in path.parts and whole.search(path.read_text("utf-8"))
    }
    assert found <= OWN, sorted(found - OWN)


def test_every_temporary_name_is_of_one_write_only() -> None:
    """A name made of the process alone is shared by its threads, and by containers that count processes alike."""
    by_process = [
        f"{path.relative_to(PACKAGE)}:{number}"
        for path in PACKAGE.rglob("*.py")
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        if "getpid()" in line and re.search(r"with_name|part-|/ f\"|/ str", line)
    ]
    assert [place for place in by_process if not place.startswith(("audio/target.py", "cli/app.py"))] == []


def test_private_files_are_for_their_user_alone(tmp_path: Path) -> None:
    from omnitts_cli.audio.target import put

    put(tmp_path / "own", b"x", private=True)
    assert stat.S_IMODE((tmp_path / "own").stat().st_mode) == 0o600
    put(tmp_path / "new", b"1", new=True)
    with pytest.raises(FileExistsError):
        put(tmp_path / "new", b"2", new=True)
    assert (tmp_path / "new").read_bytes() == b"1"
    assert not [name for name in os.listdir(tmp_path) if TEMPORARY.fullmatch(name)]


@pytest.mark.timeout(120)
@pytest.mark.parametrize("name", fuzz.known())
def test_every_reader_holds_damaged_files(name: str, tmp_path: Path) -> None:
    """A few cases of benchmarks/fuzz.py."""
    for seed in range(6):
        fuzz.read_case(name, seed, tmp_path)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", fuzz.known())
def test_every_reader_holds_many_damaged_files(name: str, tmp_path: Path) -> None:
    for seed in range(1000, 1500):
        fuzz.read_case(name, seed, tmp_path)
