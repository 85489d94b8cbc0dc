"""MP3 heads: tags, constant and variable rates."""

import io

import numpy as np
import pytest

from omnitts_cli.audio.mp3head import length_is_known, parse, tag_bytes

soundfile = pytest.importorskip("soundfile")


def frame(index: int) -> bytes:
    """An MPEG 2 layer III frame at 24 kHz with the bit rate of that index."""
    head = bytes([0xFF, 0xF3, index << 4 | 1 << 2, 0xC4])
    parsed = parse(head)
    assert parsed is not None
    return head + bytes(parsed[1] - 4)


def test_headers() -> None:
    assert parse(bytes.fromhex("fffb9064")) == (128, 417)  # MPEG 1, 128 kbit/s, 44.1 kHz
    assert parse(bytes.fromhex("fff384c4")) == (64, 192)  # MPEG 2, 64 kbit/s, 24 kHz
    assert parse(b"no mpeg") is None and parse(b"\xff\xfb") is None


def test_one_rate_is_a_length_and_several_are_not() -> None:
    assert length_is_known(io.BytesIO(frame(8) * 20))
    assert not length_is_known(io.BytesIO(frame(8) + frame(5) + frame(9)))
    assert length_is_known(io.BytesIO(frame(8)[:40] + b"Xing" + frame(8)[44:] + frame(3)))


def test_what_libsndfile_writes_has_a_length_also_behind_a_tag() -> None:
    file = io.BytesIO()
    soundfile.write(file, np.random.default_rng(0).standard_normal(48000) * 0.1, 24000, format="MP3")
    tagged = b"ID3\x04\0\0\0\0\x01\x00" + bytes(128) + file.getvalue()
    assert length_is_known(file) and file.tell() == 0
    assert tag_bytes(io.BytesIO(tagged)) == 138
    assert length_is_known(io.BytesIO(tagged))
