"""Outlets: every byte or an error in words; what cannot be corrected on a pipe is dropped."""

import errno
import io
import os
from pathlib import Path

import pytest

from omnitts_cli.audio.outlet import Outlet, can_seek, write_error
from omnitts_cli.errors import OutputError


class Sluggish(io.RawIOBase):
    """Takes a few bytes at a time, as a pipe may."""

    def __init__(self) -> None:
        self.got = b""

    def write(self, data: object) -> int:
        part = bytes(data)[:3]  # type: ignore[call-overload]
        self.got += part
        return len(part)


class Failing(Sluggish):
    """Fails from its n-th write on."""

    def __init__(self, good: int, code: int) -> None:
        super().__init__()
        self.good, self.code = good, code

    def write(self, data: object) -> int:
        self.good -= 1
        if self.good < 0:
            raise OSError(self.code, os.strerror(self.code))
        return super().write(data)


def test_partial_writes_are_finished() -> None:
    file = Sluggish()
    outlet = Outlet(file, "x")
    outlet.write(b"0123456789")
    outlet.check()
    assert file.got == b"0123456789" and outlet.sent == 10


def test_corrections_on_a_pipe_are_dropped_and_on_a_file_made(tmp_path: Path) -> None:
    pipe, path = Sluggish(), tmp_path / "f"
    with open(path, "wb", buffering=0) as file:
        for outlet in (Outlet(pipe, "pipe"), Outlet(file, "file")):
            outlet.write(b"headbody")
            outlet.seek(0)
            outlet.write(b"HEAD")
            outlet.seek(0, os.SEEK_END)
            outlet.write(b"!")
            outlet.check()
            assert outlet.tell() == 9
    assert pipe.got == b"headbody!"
    assert path.read_bytes() == b"HEADbody!"


def test_corrections_are_relative_to_where_the_stream_began(tmp_path: Path) -> None:
    """`(echo x; omnitts ...) > file` must not overwrite the x."""
    with open(tmp_path / "f", "wb", buffering=0) as file:
        file.write(b"before")
        outlet = Outlet(file, "f")
        outlet.write(b"abc")
        outlet.seek(0)
        outlet.write(b"A")
        outlet.check()
    assert (tmp_path / "f").read_bytes() == b"beforeAbc"


def test_an_encoder_may_end_its_file_after_that_was_closed(tmp_path: Path) -> None:
    """As that of FLAC does where the disk was full: a word about it would be a traceback on the terminal."""
    with (tmp_path / "x").open("wb") as file:
        outlet = Outlet(file, "x")
        outlet.write(b"abcdef")
    assert outlet.seek(2) == 2 and outlet.write(b"z") == 1
    assert (tmp_path / "x").read_bytes() == b"abcdef"


def test_a_file_opened_for_appending_is_no_place_for_corrections(tmp_path: Path) -> None:
    with open(tmp_path / "f", "ab", buffering=0) as file:
        assert not can_seek(file)
    with open(tmp_path / "f", "wb", buffering=0) as file:
        assert can_seek(file)
    assert can_seek(io.BytesIO())
    read, write = os.pipe()
    with open(write, "wb", buffering=0) as file:
        assert not can_seek(file)
    os.close(read)


@pytest.mark.parametrize("good", [0, 1, 2, 3])
@pytest.mark.parametrize(("code", "words"), [(errno.ENOSPC, "no space left"), (errno.EIO, "device reported an error")])
def test_the_nth_write_fails_and_says_so(good: int, code: int, words: str) -> None:
    outlet = Outlet(Failing(good, code), "out.wav")
    outlet.write(b"0123456789")
    outlet.write(b"more")  # nothing leaves behind an error
    with pytest.raises(OutputError, match=rf"cannot write out\.wav: .*{words}") as caught:
        outlet.check()
    assert caught.value.exit_code == 8
    assert outlet.sent <= 3 * good


def test_a_closed_pipe_stays_a_closed_pipe() -> None:
    outlet = Outlet(Failing(0, errno.EPIPE), "-")
    outlet.write(b"x")
    with pytest.raises(BrokenPipeError):
        outlet.check()
    outlet.check()  # told once


def test_what_is_said_of_folders_and_disks(tmp_path: Path) -> None:
    """A folder that exists is not called missing; a full standard output says nothing of folders."""
    missing, full = OSError(errno.ENOENT, ""), OSError(errno.ENOSPC, "")
    error = write_error("a/b/out.wav", missing)
    assert "folder does not exist" in error.message and error.hint == "mkdir -p a/b"
    error = write_error(str(tmp_path / "x.wav"), missing)
    assert f"no file can be created in {tmp_path}" in error.message and "mkdir" not in str(error.hint)
    error = write_error(str(tmp_path / "x.wav"), full, 123456)
    assert error.cause is not None and "123,456 bytes were written" in error.cause and "are free in" in error.cause
    error = write_error("standard output", full, 5)
    assert error.cause == "5 bytes were written" and "folder" not in str(error.hint)
