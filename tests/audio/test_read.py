"""Reading recordings of every kind, also damaged ones. Each guard that libsndfile lacks has a test here."""

import io
import os
import random
import shutil
import socket
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sounds import Clip, speech

from omnitts_cli.audio import pyav, read, wav
from omnitts_cli.audio.read import duration, read_clip
from omnitts_cli.errors import InputError

soundfile = pytest.importorskip("soundfile")


def refused(path: object, match: str, **how: object) -> InputError:
    """The error, which must name the value and be of exit code 3."""
    with pytest.raises(InputError, match=match) as caught:
        read_clip(path, **how)  # type: ignore[arg-type]
    assert caught.value.exit_code == 3
    return caught.value


def patched(path: Path, at: int, data: bytes) -> Path:
    whole = bytearray(path.read_bytes())
    whole[at : at + len(data)] = data
    path.write_bytes(whole)
    return path


def ffmpeg(*arguments: object) -> None:
    if shutil.which("ffmpeg") is None:
        pytest.skip("ffmpeg is not installed")
    subprocess.run(["ffmpeg", "-v", "error", "-y", *map(str, arguments)], check=True)


# -- 1-4: nothing there


def test_missing_file(tmp_path: Path) -> None:
    error = refused(tmp_path / "gone.wav", "gone.wav not found")
    assert "System error" not in str(error)


@pytest.mark.parametrize("kind", ["folder", "fifo", "socket", "device"])
def test_no_regular_file(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "clip"
    if kind == "folder":
        path.mkdir()
    elif kind == "fifo":
        os.mkfifo(path)  # nobody writes: opening it would wait for ever
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(str(path))
    else:
        path = Path("/dev/zero")
    words = {"folder": "is a folder", "fifo": "is a named pipe", "socket": "is a socket", "device": "is a device"}
    refused(path, words[kind])


def test_standard_input_has_a_limit(clip: Clip, monkeypatch: pytest.MonkeyPatch) -> None:
    path = clip("a.wav")
    with open(path, "rb") as file:
        assert read_clip("-", stdin=file).sound.size == 4 * 24000
    monkeypatch.setattr(read, "STDIN_BYTES", 1000)
    with open("/dev/zero", "rb") as file:
        refused("-", "standard input is larger than", stdin=file)
    with open("/dev/null", "rb") as file:
        refused("-", "empty file", stdin=file)


def test_zero_bytes(tmp_path: Path) -> None:
    (tmp_path / "a.wav").touch()
    assert refused(tmp_path / "a.wav", "empty file").hint is None
    assert refused(tmp_path / "a.wav", "empty file", record="sing").hint == "sing"


def test_a_header_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "a.wav"
    path.write_bytes(wav.header(24000, "pcm16", 0))
    refused(path, "contains no audio")
    path.write_bytes(wav.header(24000, "pcm16", 1000))
    refused(path, "contains no audio")
    path.write_bytes(wav.header(24000, "pcm16", 0)[:30])
    refused(path, "contains no audio")


# -- 5-8: damaged, streamed, or something else


def test_cut_in_the_middle(clip: Clip) -> None:
    path = clip("a.wav")
    os.truncate(path, path.stat().st_size // 2)
    error = refused(path, "cut off or damaged; 2.00 s")
    assert error.hint is not None and "--ref-end 2.0" in error.hint
    inside = read_clip(path, end=1.5)
    assert inside.seconds == 1.5
    assert any("192,000 bytes" in notice and "95,978 are there" in notice for notice in inside.notices)
    refused(path, "lies outside", end=3.0)


@pytest.mark.parametrize(
    ("name", "share"),
    [("a.flac", 0.5), ("a.mp3", 0.5), *((name, share) for name in ("a.ogg", "a.opus") for share in (0.3, 0.9, 0.99))],
)
def test_other_formats_cut_somewhere(name: str, share: float, clip: Clip) -> None:
    path = clip(name, **({"format": "OGG", "subtype": "OPUS"} if name == "a.opus" else {}))
    os.truncate(path, int(path.stat().st_size * share))
    refused(path, "damaged|cannot be decoded|contains no audio")


@pytest.mark.parametrize(
    ("riff", "data"), [(0, 0), (0xFFFFFFFF, 0xFFFFFFFF), (36, 0), (0x7FFFF024, 0x7FFFF000), (0, 0x7FFFFFFF)]
)
def test_lengths_of_a_pipe(riff: int, data: int, clip: Clip) -> None:
    path = patched(patched(clip("a.wav"), 4, struct.pack("<I", riff)), 40, struct.pack("<I", data))
    recording = read_clip(path)
    assert recording.sound.size == 4 * 24000
    assert any("has no length in its header" in notice for notice in recording.notices)
    assert read_clip(path, start=1.0, end=2.0).seconds == 1.0


def without_length(path: Path) -> Path:
    """A FLAC file as an encoder leaves it that could not go back to its header."""
    data = bytearray(path.read_bytes())
    data[21] &= 0xF0
    data[22:26] = bytes(4)
    path.write_bytes(data)
    return path


def test_a_flac_stream_without_a_length(clip: Clip) -> None:
    path = without_length(clip("a.flac"))
    recording = read_clip(path)
    assert recording.sound.size == 4 * 24000 and recording.source_s is None
    assert read_clip(path, start=1.0, end=2.5).seconds == 1.5


def test_an_odd_byte_at_the_end(tmp_path: Path) -> None:
    data = wav.whole(speech(2.0), 24000)
    path = tmp_path / "a.wav"
    path.write_bytes(data[:40] + struct.pack("<I", len(data) - 43) + data[44:] + b"\x01")
    recording = read_clip(path)
    assert recording.sound.size == 48000
    assert any("ends inside a sample" in notice for notice in recording.notices)


@pytest.mark.parametrize(("head", "words"), [
    (b"hello, this is no sound at all", "text"), (b"\x89PNG\r\n\x1a\n", "a PNG picture"),
    (b"PK\x03\x04\x14\0", "a ZIP archive"), (b"<!DOCTYPE html><html><body>404", "a web page"),
    (b"%PDF-1.7", "a PDF document"), (b"\x80\x04\x95\x10\0", "a Python pickle"), (b"\0" * 64, "zero bytes"),
    (b"\x13\x37\xfe\x01", "bytes that begin with 13 37 fe 01"),
])  # fmt: skip
def test_something_else_called_wav(head: bytes, words: str, tmp_path: Path) -> None:
    path = tmp_path / "a.wav"
    path.write_bytes(head * 3)
    refused(path, f"not audio: it looks like {words}")


# -- 9-13: numbers


@pytest.mark.parametrize(("at", "data", "words"), [
    (22, struct.pack("<H", 0), "0 channels"), (22, struct.pack("<H", 65535), "65535 channels"),
    (34, struct.pack("<H", 0), "0 bits"), (34, struct.pack("<H", 9999), "9999 bits"),
    (24, struct.pack("<I", 0), "0 samples per second"),
    (24, struct.pack("<I", 2**32 - 1), "4294967295 samples per second"),
])  # fmt: skip
def test_insane_headers(at: int, data: bytes, words: str, clip: Clip) -> None:
    error = refused(patched(clip("a.wav"), at, data), "invalid header")
    assert error.cause is not None and words in error.cause


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("count", [1, 96000])
def test_samples_that_are_no_numbers(value: float, count: int, clip: Clip) -> None:
    sound = speech(4.0)
    sound[:count] = value
    path = clip("a.wav", sound, subtype="FLOAT")
    refused(path, f"{count:,} of 96,000 samples")
    if count == 1:
        assert read_clip(path, start=1.0).seconds == 3.0, "the rest of the clip is good"


def test_absurd_levels_are_taken_back(clip: Clip) -> None:
    recording = read_clip(clip("a.wav", speech(4.0) * 1e6, subtype="FLOAT"))
    assert np.max(np.abs(recording.sound)) == 1.0
    assert any("scaled down" in notice for notice in recording.notices)


def test_denormals_become_zero(clip: Clip) -> None:
    recording = read_clip(clip("a.wav", np.full(24000, 1e-40, np.float32), subtype="FLOAT"))
    assert not recording.sound.any()


@pytest.mark.parametrize("rate", [8000, 11025, 16000, 22050, 44100, 48000, 96000, 192000, 384000])
def test_every_rate_arrives_at_24_khz(rate: int, clip: Clip) -> None:
    recording = read_clip(clip("a.wav", rate=rate))
    assert recording.rate == 24000 and abs(recording.sound.size - 4 * 24000) <= 1
    assert any("dull" in notice for notice in recording.notices) == (rate < 16000)
    if rate >= 16000:
        one, other = recording.sound[:95000], speech(4.0)[:95000]
        assert np.dot(one, other) / np.sqrt(np.dot(one, one) * np.dot(other, other)) > 0.99


def test_channels_become_one_and_it_is_said(clip: Clip) -> None:
    sound = speech(4.0)
    cases = {
        "mono": ([sound], None),
        "equal": ([sound, sound], "2 identical channels"),
        "opposite": ([sound, -sound], "opposite phase"),
        "one side": ([np.zeros_like(sound), sound], "channel 2, the loudest"),
        "5.1": ([sound * k for k in (0.1, 0.2, 0.9, 0.0, 0.3, 0.1)], "6 channels; channel 3"),
        "8": ([sound * k / 8 for k in range(1, 9)], "8 channels; channel 8"),
    }
    for name, (channels, words) in cases.items():
        recording = read_clip(clip("a.wav", np.stack(channels, 1), subtype="FLOAT"))
        assert np.max(np.abs(recording.sound)) > 0.2, name
        assert (recording.notices == []) if words is None else any(words in n for n in recording.notices), name


EXACT_KINDS = {"PCM_U8": 1 / 64, "PCM_16": 1e-4, "PCM_24": 1e-6, "PCM_32": 1e-6, "FLOAT": 1e-6, "DOUBLE": 1e-6}
LOSSY_KINDS = ["ULAW", "ALAW", "IMA_ADPCM", "MS_ADPCM", "GSM610"]


@pytest.mark.parametrize("subtype", [*EXACT_KINDS, *LOSSY_KINDS])
def test_every_kind_of_wav(subtype: str, clip: Clip) -> None:
    read, made = read_clip(clip("a.wav", subtype=subtype)).sound[: 4 * 24000], speech(4.0)
    if subtype in EXACT_KINDS:
        assert np.max(np.abs(read - made)) <= EXACT_KINDS[subtype]
    else:
        assert np.dot(read, made) / np.sqrt(np.dot(read, read) * np.dot(made, made)) > 0.95


@pytest.mark.parametrize(("name", "how"), [
    ("a.wav", {"format": "WAVEX"}), ("a.rf64", {"format": "RF64", "subtype": "PCM_16"}),
    ("a.aiff", {"subtype": "PCM_24"}), ("a.flac", {"subtype": "PCM_24"}), ("a.caf", {"subtype": "PCM_16"}),
    ("a.w64", {"subtype": "PCM_16"}), ("a.au", {"subtype": "PCM_16"}), ("a.wav", {"endian": "BIG"}),
])  # fmt: skip
def test_other_containers(name: str, how: dict[str, str], clip: Clip) -> None:
    assert np.max(np.abs(read_clip(clip(name, **how)).sound - speech(4.0))) <= 1e-4


# -- 14: compressed


def test_mp3_with_a_cover_of_20_megabytes(clip: Clip) -> None:
    path = clip("a.mp3")
    size = 20 * 2**20
    tag = b"ID3\x04\0\0" + bytes(size >> shift & 127 for shift in (21, 14, 7, 0))
    path.write_bytes(tag + bytes(size) + path.read_bytes())
    assert read_clip(path).seconds == 4.0


def test_mp3_with_a_variable_rate_and_no_length(clip: Clip, tmp_path: Path) -> None:
    ffmpeg("-i", clip("a.wav"), "-q:a", 5, "-write_xing", 0, tmp_path / "a.mp3")
    assert read_clip(tmp_path / "a.mp3").seconds == pytest.approx(4.0, abs=0.1)


@pytest.mark.parametrize("name", ["a.opus", "a.ogg", "a.mp3", "a.m4a", "a.webm", "a.ac3", "a.eac3"])
def test_what_ffmpeg_writes(name: str, clip: Clip, tmp_path: Path) -> None:
    ffmpeg("-i", clip("a.wav", rate=48000), tmp_path / name)
    recording = read_clip(tmp_path / name)
    assert recording.seconds == pytest.approx(4.0, abs=0.15)
    with open(tmp_path / name, "rb") as file:
        if name != "a.m4a":  # an mp4 with its index at the end cannot be read from a pipe
            assert read_clip("-", stdin=file).seconds == pytest.approx(4.0, abs=0.15)


def test_a_damaged_m4a_with_ffmpeg_and_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.m4a"
    path.write_bytes(b"\0\0\0\x20ftypM4A " + bytes(100))
    if shutil.which("ffmpeg"):
        refused(path, "could not be read")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(pyav, "present", lambda: False)
    refused(path, "needs ffmpeg or PyAV")


# -- 16-18: lengths


@pytest.mark.parametrize("seconds", [0.05, 0.3, 0.49])
def test_too_short(seconds: float, clip: Clip) -> None:
    error = refused(clip("a.wav", speech(seconds)), rf"lasts {seconds:.2f} s; at least 0.5 s", record="sing")
    assert error.hint == "sing"


@pytest.mark.parametrize("seconds", [0.5, 0.9, 1.0, 30.0, 31.0, 300.0])
def test_long_enough(seconds: float, clip: Clip) -> None:
    sound = np.resize(speech(1.0), round(seconds * 24000))
    assert read_clip(clip("a.wav", sound)).seconds == seconds


def test_over_five_minutes_a_part_must_be_chosen(clip: Clip) -> None:
    path = clip("a.wav", np.zeros(24000 * 301, np.float32))
    error = refused(path, "lasts 5 min 01 s; at most 5 min 00 s can be read")
    assert error.hint is not None and "--ref-start" in error.hint
    assert read_clip(path, start=280).seconds == 21
    assert read_clip(path, start=280.5, end=290.25).seconds == 9.75


@pytest.mark.parametrize(("part", "words"), [
    ({"start": -1.0}, "--ref-start -1"), ({"start": float("nan")}, "--ref-start nan"),
    ({"end": float("inf")}, "--ref-end inf"), ({"start": 3.0, "end": 2.0}, "--ref-end 2 is not after"),
    ({"start": 4.0}, "--ref-start 4 lies outside"), ({"end": 4.5}, "--ref-end 4.5 lies outside"),
])  # fmt: skip
def test_parts_that_cannot_be(part: dict[str, float], words: str, clip: Clip) -> None:
    refused(clip("a.wav"), words, **part)


HUGE = """
import resource, sys
from omnitts_cli.audio.read import read_clip
from omnitts_cli.errors import InputError
import soundfile, soxr, numpy
def counted(decoder, frames=-1, *rest, **more):
    global decoded
    data = read(decoder, frames, *rest, **more)
    decoded += len(data)
    return data
decoded, read, soundfile.SoundFile.read = 0, soundfile.SoundFile.read, counted
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    read_clip(sys.argv[1])
except InputError as error:
    print(error)
print(read_clip(sys.argv[1], start=float(sys.argv[2]), end=float(sys.argv[2]) + 20).seconds)
print(decoded)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def in_own_process(path: Path, start: int) -> list[str]:
    done = subprocess.run([sys.executable, "-c", HUGE, path, str(start)], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def test_ten_hours(tmp_path: Path) -> None:
    path, size = tmp_path / "a.wav", 10 * 3600 * 24000 * 2
    path.write_bytes(wav.header(24000, "pcm16", size))
    os.truncate(path, 44 + size)  # a hole, so that no disk is filled
    warning, part, decoded, grown_kib = in_own_process(path, 35000)
    assert "lasts 10 h 00 min" in warning and part == "20.0"
    assert int(decoded) <= 21 * 24000
    assert int(grown_kib) < 100_000


def test_a_small_file_that_holds_hours(tmp_path: Path) -> None:
    path = tmp_path / "a.flac"
    with soundfile.SoundFile(path, "w", 24000, 1, subtype="PCM_16") as file:
        for _ in range(60):
            file.write(np.zeros(24000 * 60, np.int16))
    assert path.stat().st_size < 400_000
    warning, part, decoded, grown_kib = in_own_process(path, 3500)
    assert "lasts 1 h 00 min" in warning and part == "20.0"
    assert int(decoded) <= 21 * 24000 and int(grown_kib) < 100_000


def test_the_limit_holds_where_the_length_is_not_known(clip: Clip) -> None:
    path = without_length(clip("a.flac", np.zeros(24000 * 400, np.int16)))
    refused(path, "lasts more than 5 min 00 s")


# -- 20, 21: names, and files that change


@pytest.mark.parametrize(
    "name",
    ["with space.wav", 'it\'s "q".wav', "new\nline.wav", "\U0001f600.wav", "-rf.wav", "\udcff\udc80.wav", "a;b|c.wav"],
)
def test_names(name: str, clip: Clip, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = clip("plain.wav")
    os.replace(source, tmp_path / name)
    monkeypatch.chdir(tmp_path)
    assert read_clip(name).seconds == 4.0


@pytest.mark.parametrize("name", ["x" * 5000, "a\0b.wav", ""])
def test_names_that_cannot_be(name: str) -> None:
    refused(name, "cannot read|not found")


def test_a_file_that_changes_while_it_is_read(clip: Clip, monkeypatch: pytest.MonkeyPatch) -> None:
    path = clip("a.wav")
    real = read.read_part

    def meddle(*arguments: object) -> np.ndarray:
        with open(path, "ab") as file:
            file.write(b"more")
        return real(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(read, "read_part", meddle)
    refused(path, "was changed while it was read")


def test_a_disk_error_is_reported_in_words(clip: Clip, monkeypatch: pytest.MonkeyPatch) -> None:
    path = clip("a.wav")

    def fail(*arguments: object) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(read, "open_decoder", fail)
    refused(path, "input/output error")


# -- the rest


def test_parts_are_exact(clip: Clip) -> None:
    path = clip("a.wav", subtype="FLOAT")
    assert np.array_equal(read_clip(path, start=1.25, end=3.0).sound, speech(4.0)[30000:72000])


def test_durations_in_words() -> None:
    assert [duration(s) for s in (7.25, 75, 36120)] == ["7.2 s", "1 min 15 s", "10 h 02 min"]


@pytest.mark.parametrize("name", ["a.wav", "a.flac", "a.ogg", "a.mp3", "a.aiff"])
def test_damaged_bytes_are_a_recording_or_an_input_error(name: str, clip: Clip) -> None:
    whole, chance = clip(name, speech(0.6)).read_bytes(), random.Random(7)
    for _ in range(60):
        data = bytearray(whole)
        for _ in range(chance.choice([1, 2, 10])):
            data[chance.randrange(min(len(data), 120))] = chance.randrange(256)
        try:
            recording = read_clip("-", stdin=io.BytesIO(bytes(data)))
        except InputError as error:
            assert error.message
        else:
            assert np.isfinite(recording.sound).all() and recording.seconds >= 0.49
