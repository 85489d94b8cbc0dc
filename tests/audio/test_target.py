"""Targets: names for temporary files, who is alive, and free names."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from omnitts_cli.audio import target
from omnitts_cli.errors import OutputError


def test_runs_never_choose_the_same_name(tmp_path: Path) -> None:
    opened = [target.open_target(target.free_name(tmp_path)) for _ in range(3)]
    assert [one.path.name for one in opened] == ["speech.wav", "speech-2.wav", "speech-3.wav"]
    for one in opened:
        one.remove()


def test_standard_output_by_its_other_name(tmp_path: Path) -> None:
    code = (
        "from pathlib import Path\n"
        "from omnitts_cli.audio.target import open_target\n"
        "target = open_target(Path('/dev/stdout'))\n"
        "target.file.write(b'sound')\n"
        "target.put_in_place()"
    )
    if not os.path.exists("/dev/stdout"):
        pytest.skip("no /dev/stdout here")
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout == b"sound"


def test_a_broken_link_takes_its_name(tmp_path: Path) -> None:
    (tmp_path / "speech.wav").symlink_to(tmp_path / "nowhere")
    assert target.free_name(tmp_path).name == "speech-2.wav"


def test_only_the_files_of_the_dead_are_removed(tmp_path: Path) -> None:
    dead = next(pid for pid in range(4_000_000, 5_000_000) if not target.alive(pid))
    for name in (f".a.wav.part-{dead}", f".a.wav.part-{os.getppid()}", f".b.wav.part-{dead}", ".a.wav.part-x"):
        (tmp_path / name).touch()
    target.remove_stale(tmp_path / "a.wav")
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {f".a.wav.part-{os.getppid()}", f".b.wav.part-{dead}", ".a.wav.part-x"}


def test_a_file_system_without_links_still_has_no_clobber(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_links(*args: object) -> None:
        raise OSError(1, "Operation not permitted")

    monkeypatch.setattr(target.os, "link", no_links)
    opened = target.open_target(tmp_path / "a.bin", no_clobber=True)
    opened.file.write(b"new")
    opened.put_in_place()
    assert (tmp_path / "a.bin").read_bytes() == b"new"


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_file_that_is_written_at_once_is_whole_or_the_old_one(
    call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.json"
    target.put(path, b"old")
    assert path.read_bytes() == b"old"

    def full(*args: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(target.os, call, full)
    with pytest.raises(OutputError, match=r"a\.json: no space left"):
        target.put(path, b"new")
    monkeypatch.undo()
    assert path.read_bytes() == b"old" and list(tmp_path.iterdir()) == [path]


def test_a_device_is_written_in_place(tmp_path: Path) -> None:
    target.put(Path("/dev/null"), b"gone")
    with pytest.raises(OutputError, match="/dev/full: no space left"):
        target.put(Path("/dev/full"), b"kept")
