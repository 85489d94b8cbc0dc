"""Sound from a wire: whatever the packets, the samples are those of the file; what is cut off is noticed."""

import io
import struct
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnitts_cli.bench.wave import RawSamples, WavStream, WireError

soundfile = pytest.importorskip("soundfile")

TONE = (0.5 * np.sin(np.arange(1000) / 7)).astype(np.float32)


def wav(subtype: str = "PCM_16", channels: int = 1, rate: int = 24_000, form: str = "WAV") -> bytes:
    file = io.BytesIO()
    sound = np.stack([TONE] + [np.zeros_like(TONE)] * (channels - 1), axis=1)
    soundfile.write(file, sound, rate, subtype, format=form)
    return file.getvalue()


def fed(decoder: RawSamples | WavStream, data: bytes, cuts: list[int]) -> np.ndarray:
    edges = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    parts = [decoder.feed(data[start:end]) for start, end in pairwise(edges)]
    decoder.finish()
    return np.concatenate(parts)


@given(st.lists(st.integers(0, 1 << 20), max_size=30), st.sampled_from(["PCM_16", "PCM_24", "PCM_32", "FLOAT"]))
def test_packets_of_any_size_give_the_file(cuts: list[int], subtype: str) -> None:
    decoder = WavStream(8000)
    found = fed(decoder, wav(subtype), cuts)
    expected, rate = soundfile.read(io.BytesIO(wav(subtype)), dtype="float32")
    assert np.array_equal(found, expected)
    assert decoder.sample_rate == rate == 24_000


@given(st.lists(st.integers(0, 1 << 20), max_size=30))
def test_raw_packets_of_any_size_give_the_samples(cuts: list[int]) -> None:
    data = (TONE * 32768).astype("<i2").tobytes()
    found = fed(RawSamples(24_000), data, cuts)
    assert np.array_equal(found, np.frombuffer(data, "<i2").astype(np.float32) / 32768)


def test_of_several_channels_the_first_is_used() -> None:
    found = fed(WavStream(8000), wav(channels=2), [45, 47])
    assert np.allclose(found, TONE, atol=1e-4)


@pytest.mark.parametrize("form", ["WAV", "WAVEX"])
def test_the_extensible_format_is_read_too(form: str) -> None:
    assert np.allclose(fed(WavStream(8000), wav("PCM_24", form=form), [60]), TONE, atol=1e-4)


@pytest.mark.parametrize("length", [0, 0x7FFFF000, 0xFFFFFFFF])
def test_an_unknown_length_ends_with_the_stream(length: int) -> None:
    data = bytearray(wav())
    data[40:44] = struct.pack("<I", length)
    assert np.allclose(fed(WavStream(8000), bytes(data), []), TONE, atol=1e-4)


def test_what_follows_the_samples_is_no_sound() -> None:
    assert fed(WavStream(8000), wav() + b"LIST\x04\0\0\0abcd", [2050]).size == TONE.size


@pytest.mark.parametrize("kept", [20, 44, 1000, 2043])
def test_a_stream_that_is_cut_off_is_noticed(kept: int) -> None:
    decoder = WavStream(8000)
    decoder.feed(wav()[:kept])
    with pytest.raises(WireError):
        decoder.finish()


def test_half_a_sample_at_the_end_is_noticed() -> None:
    decoder = RawSamples(24_000)
    decoder.feed(b"\0\0\1")
    with pytest.raises(WireError, match="middle of a sample"):
        decoder.finish()


@pytest.mark.parametrize("data", [
    b"ID3\x04 this is an mp3 file", b'{"error": "no such voice"}', b"RIFF\0\0\0\0WAVEdata\x10\0\0\0" + bytes(16),
    wav("ALAW"), wav("PCM_U8"), b"RIFF\0\0\0\0WAVEfmt \x08\0\0\0" + bytes(8) + b"data" + bytes(9),
    b"RIFF\0\0\0\0WAVEjunk\xff\xff\xff\x7f" + bytes(99), b"RIFF\0\0\0\0WAVE" + b"JUNK\0\0\0\0" * 9000,
])  # fmt: skip
def test_what_is_no_wav_is_refused(data: bytes) -> None:
    with pytest.raises(WireError):
        WavStream(8000).feed(data)
