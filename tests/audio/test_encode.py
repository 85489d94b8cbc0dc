"""Encoders: which format a target gets, and made files read back by libsndfile, sox and ffmpeg."""

import io
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sounds import speech

from omnitts_cli.audio.encode import FORMATS, SoundFormat, choose_format, format_name, open_encoder
from omnitts_cli.audio.outlet import Outlet
from omnitts_cli.audio.sinks import FileSink, PipeSink
from omnitts_cli.errors import GuardError, UsageError

soundfile = pytest.importorskip("soundfile")

SOUND_FILES = [name for name in FORMATS if name != "raw"]
EXACT = {"wav", "raw", "flac", "ogg"}


# -- choosing


@pytest.mark.parametrize(("target", "given", "chosen"), [
    ("a.flac", None, "flac"), ("a.FLAC", None, "flac"), ("a.oga", None, "ogg"), ("a.xyz", None, "wav"),
    (None, None, "wav"), ("-", "opus", "opus"), ("a.m4a", "wav", "wav"),
])  # fmt: skip
def test_the_format_comes_from_the_option_then_the_suffix(target: str | None, given: str | None, chosen: str) -> None:
    assert format_name(target, given) == chosen


@pytest.mark.parametrize("wrong", [
    {"name": "m4a"}, {"target": "a.m4a"}, {"name": "mp3", "subtype": "float"}, {"name": "flac", "subtype": "float"},
    {"subtype": "pcm8"}, {"rate": 7999}, {"rate": 192001}, {"name": "wav", "bitrate": 96},
    {"name": "ogg", "bitrate": 96}, {"name": "flac", "quality": 5.0}, {"name": "mp3", "rate": 8000, "bitrate": 96},
    {"name": "mp3", "bitrate": 96, "quality": 5.0},
])  # fmt: skip
def test_contradictions_are_usage_errors(wrong: dict[str, object]) -> None:
    with pytest.raises(UsageError) as caught:
        choose_format(**wrong)  # type: ignore[arg-type]
    assert caught.value.exit_code == 2
    assert caught.value.hint or not {"bitrate", "quality"} & set(wrong)


@pytest.mark.parametrize(("name", "rate", "used"), [
    ("opus", 44100, 48000), ("opus", 22050, 24000), ("opus", 96000, 48000), ("mp3", 96000, 48000),
    ("ogg", 44100, 44100),
])  # fmt: skip
def test_a_rate_that_the_format_lacks_is_replaced_with_a_notice(name: str, rate: int, used: int) -> None:
    form = choose_format(None, name, rate=rate)
    assert form.rate == used
    assert bool(form.notices) == (rate != used)


# -- reading back


def write(path: Path, sound: np.ndarray, form: SoundFormat) -> None:
    with FileSink(path, form) as sink:
        for start in range(0, sound.size, 1000):
            sink.write(sound[start : start + 1000])
        sink.finish()


def programs(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found


def decode_by(program: str, path: Path | None, form: SoundFormat, data: bytes = b"") -> np.ndarray:
    """The file, or the bytes on its standard input, as an independent program decodes it."""
    source = "-" if path is None else str(path)
    if program == "ffmpeg":
        raw = ["-f", "s16le", "-ar", str(form.rate)] if form.name == "raw" else []
        command = [programs("ffmpeg"), "-v", "error", *raw, "-i", source, "-f", "s16le", "-c:a", "pcm_s16le", "-"]
    else:
        kind = ["-r", str(form.rate), "-e", "signed", "-b", "16", "-c", "1"] if form.name == "raw" else []
        command = [programs("sox"), "-V1", "-t", form.name, *kind, source, "-t", "s16", "-"]
    done = subprocess.run(command, input=data, capture_output=True, check=False)
    if program == "sox" and b"no handler for given file type" in done.stderr:
        pytest.skip(f"this sox cannot read {form.name}")
    assert done.returncode == 0, done.stderr
    return np.frombuffer(done.stdout, "<i2")


def same_sound(one: np.ndarray, other: np.ndarray) -> float:
    """The correlation of two sounds where they overlap."""
    n = min(one.size, other.size)
    a, b = one[:n].astype(float), other[:n].astype(float)
    return float(np.dot(a, b) / np.sqrt(np.dot(a, a) * np.dot(b, b)))


@pytest.mark.parametrize("rate", [None, 16000, 44100])
@pytest.mark.parametrize("name", SOUND_FILES)
def test_libsndfile_reads_what_was_written(name: str, rate: int | None, tmp_path: Path) -> None:
    form, sound, path = choose_format(None, name, rate=rate), speech(3.0), tmp_path / "x"
    write(path, sound, form)
    read, read_rate = soundfile.read(path)
    expected = round(sound.size * form.rate / 24000)
    assert read_rate == form.rate
    assert abs(read.size - expected) <= (0 if name in EXACT else 1152 if name == "mp3" else form.rate * 0.02)
    if form.rate == 24000:
        assert same_sound(sound, read) > 0.98


@pytest.mark.parametrize("program", ["sox", "ffmpeg"])
@pytest.mark.parametrize("name", FORMATS)
def test_sox_and_ffmpeg_read_what_was_written(name: str, program: str, tmp_path: Path) -> None:
    form, sound, path = choose_format(None, name), speech(3.0), tmp_path / f"x.{name}"
    write(path, sound, form)
    decoded = decode_by(program, path, form)
    if program == "ffmpeg" and name == "opus":  # ffmpeg decodes opus at 48 kHz
        decoded = decoded[::2]
    # ffmpeg drops a first Vorbis block, sox keeps the padding of MP3: theirs to decide
    slack = 0 if name in EXACT and (program, name) != ("ffmpeg", "ogg") else 3000
    assert abs(decoded.size - sound.size) <= slack
    if name in EXACT:
        assert same_sound(sound, decoded) > 0.98


@pytest.mark.parametrize("program", ["sox", "ffmpeg"])
@pytest.mark.parametrize("name", FORMATS)
def test_every_format_through_a_pipe(name: str, program: str) -> None:
    form, sound, file = choose_format(None, name), speech(2.0), io.BytesIO()
    sink = PipeSink(Unseekable(file), form)
    for start in range(0, sound.size, 1000):
        sink.write(sound[start : start + 1000])
    sink.finish()
    decoded = decode_by(program, None, form, file.getvalue())
    size = decoded.size // 2 if (program, name) == ("ffmpeg", "opus") else decoded.size
    assert abs(size - sound.size) <= (0 if name in ("wav", "raw", "flac") else 3000)


class Unseekable:
    """A buffer that behaves like a pipe."""

    def __init__(self, file: io.BytesIO) -> None:
        self.file = file

    def write(self, data: bytes) -> int:
        return self.file.write(data)


def test_the_header_of_a_pipe_is_not_repeated_at_its_end() -> None:
    """libFLAC and LAME go back to correct their headers; on a pipe that must not become bytes at the end."""
    for name in ("flac", "mp3", "ogg", "opus"):
        piped, filed = io.BytesIO(), io.BytesIO()
        for file in (Unseekable(piped), filed):
            sink = PipeSink(file, choose_format(None, name))
            sink.write(speech(1.0))
            sink.finish()
        assert len(piped.getvalue()) == len(filed.getvalue()), name


@pytest.mark.parametrize("program", ["sox", "ffmpeg"])
@pytest.mark.parametrize(("name", "subtype"), [("wav", "pcm24"), ("wav", "float"), ("flac", "pcm24")])
def test_wider_samples_are_read_by_others_too(name: str, subtype: str, program: str, tmp_path: Path) -> None:
    form, sound, path = choose_format(None, name, subtype=subtype), speech(1.0), tmp_path / f"x.{name}"
    write(path, sound, form)
    decoded = decode_by(program, path, form)
    assert decoded.size == sound.size and same_sound(sound, decoded) > 0.999


def test_flac_holds_the_very_samples_of_wav(tmp_path: Path) -> None:
    for subtype, kind in (("pcm16", "int16"), ("pcm24", "int32")):
        for name in ("wav", "flac"):
            write(tmp_path / f"x.{name}", speech(1.0) * 3, choose_format(None, name, subtype=subtype))
        one, other = (soundfile.read(tmp_path / f"x.{name}", dtype=kind)[0] for name in ("wav", "flac"))
        assert np.array_equal(one, other)


# -- guards


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("name", FORMATS)
def test_nan_never_reaches_an_encoder(name: str, bad: float, tmp_path: Path) -> None:
    sound = np.zeros(4000, np.float32)
    sound[100] = bad
    with pytest.raises(GuardError), FileSink(tmp_path / "x", choose_format(None, name)) as sink:
        sink.write(sound)
    assert list(tmp_path.iterdir()) == []


def test_the_encoder_itself_refuses_too() -> None:
    """MP3 would end this process here, so the guard stands right in front of libsndfile as well."""
    encoder = open_encoder(Outlet(io.BytesIO(), "x"), choose_format(None, "mp3"))
    with pytest.raises(GuardError):
        encoder.write(np.full(100, np.nan, np.float32))


HOUR = """
import resource, sys
import numpy as np
from pathlib import Path
from typing import Any
from omnitts_cli.audio.encode import choose_format
from omnitts_cli.audio.sinks import FileSink
path, name, hours = Path(sys.argv[1]), sys.argv[2], float(sys.argv[3])
block = (0.3 * np.sin(np.arange(24000) * 0.05)).astype(np.float32)
with FileSink(path, choose_format(None, name)) as sink:
    for second in range(int(hours * 3600)):
        sink.write(block)
        if second == 60:
            early = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    sink.finish()
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - early)
"""


LONG = [("ogg", 1), ("opus", 1), ("mp3", 1), ("wav", 13), ("flac", 13)]


@pytest.mark.parametrize(
    ("name", "hours"),
    [("wav", 1), ("flac", 1), ("ogg", 0.25), *(pytest.param(*case, marks=pytest.mark.slow) for case in LONG)],
)
def test_hours_in_flat_memory(name: str, hours: float, tmp_path: Path) -> None:
    path = tmp_path / f"x.{name}"
    if hours > 1 and shutil.disk_usage(tmp_path).free < 3 * 2**30:
        pytest.skip("needs 3 GiB of free disk space")
    done = subprocess.run([sys.executable, "-c", HOUR, path, name, str(hours)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 20_000 * min(hours, 1), "its memory grows by that, in KiB, after the first minute"
    slack = 2400 if name in ("opus", "mp3") else 0
    assert abs(soundfile.info(path).frames - hours * 3600 * 24000) <= slack


def test_ten_minutes_of_vorbis(tmp_path: Path) -> None:
    """Five minutes in one write end the process with a segmentation fault; blocks of a second do not."""
    path, sound = tmp_path / "x.ogg", np.zeros(10 * 60 * 24000, np.float32)
    with FileSink(path, choose_format(None, "ogg")) as sink:
        sink.write(sound)
        sink.finish()
    assert soundfile.info(path).frames == sound.size


def test_libraries_are_imported_only_for_what_needs_them() -> None:
    code = (
        "import sys, io, numpy as np, omnitts_cli.audio.speaker\n"
        "from omnitts_cli.audio.encode import choose_format\n"
        "from omnitts_cli.audio.sinks import PipeSink\n"
        "sink = PipeSink(io.BytesIO(), choose_format('a.wav'))\n"
        "sink.write(np.zeros(9, np.float32)); sink.finish()\n"
        "print(sorted({'soundfile', 'sounddevice', 'soxr', 'torch'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("name", "rate", "bitrate"),
    [("mp3", 24_000, 32), ("mp3", 24_000, 96), ("mp3", 44_100, 192), ("opus", 24_000, 16), ("opus", 24_000, 64)],
)
def test_a_file_has_the_bitrate_that_was_asked_for(name: str, rate: int, bitrate: int) -> None:
    assert kilobits(choose_format(None, name, rate=rate, bitrate=bitrate)) == pytest.approx(bitrate, rel=0.25)


@pytest.mark.parametrize("name", ["mp3", "opus", "ogg"])
def test_a_higher_quality_takes_more_bits(name: str) -> None:
    sizes = [kilobits(choose_format(None, name, quality=quality)) for quality in (0.0, 5.0, 10.0)]
    assert sizes[0] < 0.8 * sizes[1] and sizes[1] < 0.8 * sizes[2]


def kilobits(form: SoundFormat, seconds: int = 4) -> float:
    """A second of noise in this format."""
    file = io.BytesIO()
    noise = np.random.default_rng(0).standard_normal(form.rate * seconds).astype(np.float32) * 0.1
    encoder = open_encoder(Outlet(file, "x"), form)
    encoder.write(noise)
    encoder.close()
    return len(file.getvalue()) * 8 / 1000 / seconds
