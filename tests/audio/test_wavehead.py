"""WAV headers: chunks in unusual places, wrong lengths, and random bytes."""

import io
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnitts_cli.audio import wav
from omnitts_cli.audio.wavehead import read_head
from omnitts_cli.errors import InputError


def test_chunks_before_the_samples_are_walked_over() -> None:
    plain = wav.header(24000, "pcm16", 4)
    between = b"LIST" + struct.pack("<I", 5) + b"hello\0" + b"junk" + struct.pack("<I", 2) + b"xx"
    head = read_head(io.BytesIO(plain[:12] + between + plain[12:] + b"abcd"), "x")
    assert (head.rate, head.channels, head.claimed, head.there, head.missing) == (24000, 1, 4, 4, 0)
    assert head.data_at == 44 + len(between)


@settings(max_examples=300)
@given(st.binary(max_size=200))
def test_bytes_of_chance_are_a_head_or_an_input_error(data: bytes) -> None:
    file = io.BytesIO(b"RIFF\0\0\0\0WAVE" + data)
    try:
        assert read_head(file, "x").data_at <= 12 + len(data)
    except InputError as error:
        assert "x" in error.message


def test_a_chunk_that_goes_nowhere_ends_soon() -> None:
    endless = b"RIFF\0\0\0\0WAVE" + (b"junk" + struct.pack("<I", 0)) * 5000
    with pytest.raises(InputError, match="no audio"):
        read_head(io.BytesIO(endless), "x")
