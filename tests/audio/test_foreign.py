"""ffmpeg as a decoder: what it must not do, and the errors when it fails. A fake ffmpeg stands in for it."""

import io
import stat
from pathlib import Path

import pytest

from omnitts_cli.audio import foreign
from omnitts_cli.errors import InputError


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program called ffmpeg; the test writes what it does."""
    program = tmp_path / "ffmpeg"
    program.touch()
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return program


def test_it_may_read_one_file_and_nothing_from_the_network(stand_in: Path) -> None:
    stand_in.write_text('#!/bin/sh\necho "$@"\n')
    said = foreign.through_ffmpeg("-rf.m4a", io.BytesIO(), "clip", "m4a", 12.5).decode()
    assert "-i file:-rf.m4a" in said and "-protocol_whitelist file,pipe" in said
    assert "-nostdin" in said and "-t 12.500" in said


def test_bytes_go_in_through_its_standard_input(stand_in: Path) -> None:
    stand_in.write_text("#!/bin/sh\ncat\n")
    assert foreign.through_ffmpeg(None, io.BytesIO(b"sound"), "clip", "m4a", 1.0) == b"sound"


def test_its_last_words_are_the_cause(stand_in: Path) -> None:
    stand_in.write_text("#!/bin/sh\necho first >&2; echo 'moov atom not found' >&2; exit 1\n")
    with pytest.raises(InputError, match="could not be read by ffmpeg") as caught:
        foreign.through_ffmpeg(None, io.BytesIO(), "clip", "m4a", 1.0)
    assert caught.value.cause == "moov atom not found"


def test_it_does_not_hang(stand_in: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in.write_text("#!/bin/sh\nexec sleep 60\n")
    monkeypatch.setattr(foreign, "TIMEOUT_S", 0.2)
    with pytest.raises(InputError, match="did not read"):
        foreign.through_ffmpeg(None, io.BytesIO(), "clip", "m4a", 1.0)
