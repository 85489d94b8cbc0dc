"""Handles: patches seen through any reads, and nothing raised into C."""

import io

import pytest

from omnitts_cli.audio.handle import Handle


@pytest.mark.parametrize("size", [1, 3, 7, 1000])
def test_patches_are_seen_through_any_reads(size: int) -> None:
    handle, parts = Handle(io.BytesIO(b"0123456789abcdef"), {2: b"XYZW", 9: b"!"}), []
    while part := handle.read(size):
        parts.append(part)
    assert b"".join(parts) == b"01XYZW678!abcdef"
    handle.seek(4)
    assert handle.read(3) == b"ZW6" and handle.tell() == 7


def test_places_before_the_start_are_not_gone_to() -> None:
    handle = Handle(io.BytesIO(b"0123"))
    handle.seek(2)
    assert handle.seek(-1) == 2 and handle.read() == b"23"


def test_a_failing_disk_is_kept_for_later() -> None:
    class Failing(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            raise OSError(5, "Input/output error")

    handle = Handle(Failing(b"x"))
    assert handle.read(1) == b"" and handle.error is not None and handle.error.errno == 5
