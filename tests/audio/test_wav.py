"""WAV headers: 44 bytes, correct lengths if they can be known, else one length that all readers accept."""

import io
import struct
import wave

import numpy as np
import pytest
from sounds import speech

from omnitts_cli.audio import wav
from omnitts_cli.audio.outlet import Outlet
from omnitts_cli.audio.pcm import BYTES_PER_SAMPLE, SUBTYPES, Subtype, to_int16

soundfile = pytest.importorskip("soundfile")


@pytest.mark.parametrize("subtype", SUBTYPES)
def test_the_header_is_44_bytes_and_readers_agree(subtype: Subtype) -> None:
    sound = speech(0.5)[:-1]
    data = wav.whole(sound, 24000, subtype)
    size = sound.size * BYTES_PER_SAMPLE[subtype]
    assert data[:4] == b"RIFF" and data[36:40] == b"data"
    assert struct.unpack("<I", data[40:44])[0] == size
    assert struct.unpack("<I", data[4:8])[0] == len(data) - 8
    read, rate = soundfile.read(io.BytesIO(data), dtype="float32")
    assert rate == 24000 and read.size == sound.size
    assert np.max(np.abs(read - sound)) <= 1 / 32768


def test_python_wave_reads_the_same_samples() -> None:
    sound = speech(0.3)
    with wave.open(io.BytesIO(wav.whole(sound, 16000))) as reader:
        assert (reader.getnchannels(), reader.getsampwidth(), reader.getframerate()) == (1, 2, 16000)
        assert np.array_equal(np.frombuffer(reader.readframes(10**9), "<i2"), to_int16(sound))


@pytest.mark.parametrize("subtype", SUBTYPES)
def test_a_stream_into_a_file_is_the_whole(subtype: Subtype) -> None:
    sound, file = speech(0.5)[:-1], io.BytesIO()
    writer = wav.WavWriter(Outlet(file, "x"), 24000, subtype)
    for start in range(0, sound.size, 1000):
        writer.write(sound[start : start + 1000])
    writer.close()
    assert file.getvalue() == wav.whole(sound, 24000, subtype)
    assert writer.notice is None


def test_on_a_pipe_the_length_is_the_one_that_all_readers_take() -> None:
    sound, file = speech(0.2), io.BytesIO()
    writer = wav.WavWriter(Outlet(file, "x", seekable=False), 24000)
    writer.write(sound)
    writer.close()
    data = file.getvalue()
    assert struct.unpack("<I", data[40:44])[0] == 0x7FFFF000
    assert struct.unpack("<I", data[4:8])[0] == 0x7FFFF000 + 36
    assert soundfile.read(io.BytesIO(data))[0].size == sound.size
    with wave.open(io.BytesIO(data)) as reader:
        assert len(reader.readframes(10**7)) == 2 * sound.size


@pytest.mark.parametrize("subtype", SUBTYPES)
def test_a_streaming_length_is_a_whole_number_of_samples(subtype: Subtype) -> None:
    file = io.BytesIO()
    wav.WavWriter(Outlet(file, "x", seekable=False), 24000, subtype)
    assert struct.unpack("<I", file.getvalue()[40:44])[0] % BYTES_PER_SAMPLE[subtype] == 0


def test_thirteen_hours_fit_and_beyond_4_gib_the_header_says_to_the_end() -> None:
    thirteen = 2 * 13 * 3600 * 24000
    assert struct.unpack("<I", wav.header(24000, "pcm16", thirteen)[40:44])[0] == thirteen
    head = wav.header(24000, "pcm16", 2**32)
    assert struct.unpack("<I", head[40:44])[0] == struct.unpack("<I", head[4:8])[0] == 0xFFFFFFFF


def test_lengths_that_the_header_cannot_hold_are_told() -> None:
    piped = wav.WavWriter(Outlet(io.BytesIO(), "x", seekable=False), 24000)
    piped.data_bytes = 0x7FFFF001
    assert piped.notice is not None and "raw" in piped.notice
    filed = wav.WavWriter(Outlet(io.BytesIO(), "x"), 24000)
    filed.data_bytes = 2**32
    assert filed.notice is not None and "4 GiB" in filed.notice


def test_raw_is_the_samples_and_nothing_else() -> None:
    file, sound = io.BytesIO(), speech(0.1)
    writer = wav.RawWriter(Outlet(file, "x"), "pcm16")
    writer.write(sound)
    writer.close()
    assert file.getvalue() == to_int16(sound).tobytes()
