"""Sinks: atomic files, special targets, what is kept after an interruption, pipes, several places at once."""

import io
import os
import pty
import shutil
import subprocess
import threading
import time
import wave
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
from sounds import speech

from omnitts_cli.audio.encode import SoundFormat, choose_format
from omnitts_cli.audio.sinks import FileSink, MemorySink, PipeSink, Sink, TeeSink
from omnitts_cli.errors import DeviceError, GuardError, InputError, OutputError, UsageError

soundfile = pytest.importorskip("soundfile")

WAV = SoundFormat()
TONE = (0.2 * np.sin(np.arange(24000) * 0.1)).astype(np.float32)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def written(path: Path) -> None:
    with FileSink(path, WAV) as sink:
        sink.write(TONE)
        sink.finish()


def test_a_file_appears_whole_and_only_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "a.wav"
    with FileSink(path, WAV) as sink:
        sink.write(TONE)
        assert not path.exists()
        assert names(tmp_path) == [f".a.wav.part-{os.getpid()}"]
        sink.finish()
    assert names(tmp_path) == ["a.wav"]
    assert soundfile.info(path).frames == 24000


def test_leaving_without_finishing_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a.wav"
    path.write_bytes(b"the old one")
    with pytest.raises(ZeroDivisionError), FileSink(path, WAV) as sink:
        sink.write(TONE)
        sink.sentence_done()
        raise ZeroDivisionError
    assert names(tmp_path) == ["a.wav"]
    assert path.read_bytes() == b"the old one"


def test_sample_counts_are_the_sum_of_the_blocks(tmp_path: Path) -> None:
    for rate, count in ((24000, 24000 + 7 + 333), (48000, 2 * (24000 + 7 + 333))):
        path = tmp_path / f"{rate}.wav"
        with FileSink(path, SoundFormat(rate=rate)) as sink:
            for block in (TONE, TONE[:0], TONE[:7], TONE[:333]):
                sink.write(block)
            sink.finish()
        assert soundfile.info(path).frames == count


# -- interruption


@pytest.mark.parametrize("name", ["wav", "flac", "ogg", "opus", "mp3"])
def test_after_a_finished_sentence_the_part_is_kept(name: str, tmp_path: Path) -> None:
    path = tmp_path / f"book.{name}"
    path.write_bytes(b"the old one")
    with FileSink(path, choose_format(str(path))) as sink:
        sink.write(TONE)
        sink.sentence_done()
        sink.write(TONE[:12000])
        kept = sink.interrupt()
    assert kept == tmp_path / f"book.partial.{name}"
    assert set(names(tmp_path)) == {f"book.{name}", f"book.partial.{name}"}
    assert path.read_bytes() == b"the old one"
    assert abs(soundfile.info(kept).frames - 36000) <= (2400 if name == "mp3" else 0)


def test_a_file_that_was_being_put_in_its_place_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with FileSink(tmp_path / "a.wav", WAV) as sink:
        sink.write(TONE)
        sink.sentence_done()
        monkeypatch.setattr(os, "replace", Mock(side_effect=KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            sink.finish()
        monkeypatch.undo()
        assert sink.interrupt() == tmp_path / "a.partial.wav"
    assert names(tmp_path) == ["a.partial.wav"] and soundfile.info(tmp_path / "a.partial.wav").frames == 24000


def test_without_a_finished_sentence_nothing_is_kept(tmp_path: Path) -> None:
    with FileSink(tmp_path / "a.wav", WAV) as sink:
        sink.write(TONE)
        assert sink.interrupt() is None
    assert names(tmp_path) == []


# -- targets that cannot be


def test_a_really_full_disk(tmp_path: Path) -> None:
    mount = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", tmp_path], capture_output=True, check=False
    )
    if mount.returncode:
        pytest.skip("mounting a small tmpfs is not allowed here")
    try:
        with pytest.raises(OutputError, match="no space left"), FileSink(tmp_path / "a.wav", WAV) as sink:
            for _ in range(10):
                sink.write(TONE)
        assert names(tmp_path) == []
    finally:
        subprocess.run(["umount", tmp_path], check=True)


@pytest.mark.parametrize(("target", "words"), [
    ("", "it is a folder"), ("no/a.wav", "folder does not exist"), ("x" * 300 + ".wav", "name is too long"),
    ("a\0b.wav", "cannot write"),
])  # fmt: skip
def test_targets_that_cannot_be(target: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(OutputError, match=words) as caught:
        FileSink(tmp_path / target, WAV)
    assert caught.value.exit_code == 8
    assert names(tmp_path) == []


def test_the_longest_name_that_can_be(tmp_path: Path) -> None:
    path = tmp_path / ("ü" * 125 + ".wav")
    written(path)
    assert names(tmp_path) == [path.name]


def test_read_only_folder(tmp_path: Path) -> None:
    folder = tmp_path / "locked"
    folder.mkdir(mode=0o500)
    if os.access(folder, os.W_OK):
        pytest.skip("this user may write everywhere")
    with pytest.raises(OutputError, match="no permission"):
        FileSink(folder / "a.wav", WAV)


def test_a_symlink_stays_and_its_target_is_replaced(tmp_path: Path) -> None:
    real, link = tmp_path / "real.wav", tmp_path / "link.wav"
    real.write_bytes(b"old")
    link.symlink_to(real)
    written(link)
    assert link.is_symlink() and soundfile.info(real).frames == 24000


def test_no_clobber_when_another_program_was_faster(tmp_path: Path) -> None:
    path = tmp_path / "a.wav"
    with FileSink(path, WAV, no_clobber=True) as sink:
        sink.write(TONE)
        sink.sentence_done()
        path.write_bytes(b"theirs")
        with pytest.raises(InputError, match="already exists") as caught:
            sink.finish()
        assert sink.interrupt() is None, "as a command does after every error"
    assert path.read_bytes() == b"theirs"
    assert caught.value.hint is not None and "a.partial.wav" in caught.value.hint
    assert soundfile.info(tmp_path / "a.partial.wav").frames == 24000, "the work is not lost"


def test_two_writers_of_one_file_make_one_whole_file(tmp_path: Path) -> None:
    path = tmp_path / "a.wav"
    with FileSink(path, WAV) as one, FileSink(path, WAV) as other:
        one.write(TONE)
        other.write(TONE[:100])
        one.finish()
        other.finish()
    assert names(tmp_path) == ["a.wav"]
    assert soundfile.info(path).frames == 100


def test_the_permissions_of_a_replaced_file_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "a.wav"
    path.write_bytes(b"old")
    path.chmod(0o640)
    written(path)
    assert path.stat().st_mode & 0o777 == 0o640


# -- pipes


@pytest.mark.parametrize("name", ["wav", "flac", "ogg", "mp3", "opus"])
def test_a_reader_that_leaves_early(name: str) -> None:
    reader = subprocess.Popen(["head", "-c", "1000"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert reader.stdin is not None and reader.stdout is not None
    raw = open(reader.stdin.fileno(), "wb", buffering=0, closefd=False)
    noise = np.random.default_rng(0).standard_normal(24000).astype(np.float32) * 0.1
    with pytest.raises(BrokenPipeError), PipeSink(raw, choose_format(None, name)) as sink:
        for _ in range(600):
            sink.write(noise)
    assert len(reader.stdout.read()) == 1000
    reader.wait()
    reader.stdin = None


def test_a_slow_reader_slows_the_writer_and_nothing_is_stored() -> None:
    read, write = os.pipe()
    os.set_blocking(write, False)  # a full pipe then says so instead of waiting
    got = bytearray()

    def slowly() -> None:
        while data := os.read(read, 4096):
            got.extend(data)
            time.sleep(0.001)

    reader = threading.Thread(target=slowly)
    reader.start()
    with open(write, "wb", buffering=0) as file:
        sink = PipeSink(file, WAV)
        for _ in range(5):
            sink.write(TONE)
        sink.finish()
    reader.join(60)
    os.close(read)
    assert len(got) == 44 + 5 * 48000


@pytest.mark.parametrize("name", ["wav", "flac", "raw"])
def test_the_header_and_the_first_sound_leave_in_one_write(name: str) -> None:
    """sox finds the format in what the first read of a pipe returns."""
    read, write = os.pipe()
    with open(write, "wb", buffering=0) as file, open(read, "rb", buffering=0) as reader:
        os.set_blocking(read, False)
        sink = PipeSink(file, choose_format(None, name))
        assert reader.read(100) is None, "nothing has been said yet"
        first = b""
        while not first:
            sink.write(TONE[:1920])
            first = reader.read(1 << 16) or b""
        assert len(first) >= 256
        assert first.startswith({"wav": b"RIFF", "flac": b"fLaC", "raw": b""}[name])


def test_a_pipe_without_sound_gets_the_header() -> None:
    read, write = os.pipe()
    with open(write, "wb", buffering=0) as file:
        PipeSink(file, WAV).finish()
    with open(read, "rb") as reader:
        data = reader.read()
    assert len(data) == 44 and data.startswith(b"RIFF")


@pytest.mark.skipif(not shutil.which("sox"), reason="sox is not installed")
@pytest.mark.parametrize("name", ["wav", "flac"])
@pytest.mark.parametrize("more", [0, 24000])
def test_sox_reads_a_pipe_without_being_told_the_format(tmp_path: Path, name: str, more: int) -> None:
    sox = subprocess.Popen(["sox", "-", tmp_path / "out.wav"], stdin=subprocess.PIPE, stderr=subprocess.PIPE)
    assert sox.stdin is not None and sox.stderr is not None
    raw = open(sox.stdin.fileno(), "wb", buffering=0, closefd=False)
    sink = PipeSink(raw, choose_format(None, name))
    time.sleep(0.3)  # a model is loading; sox is waiting
    sink.write(TONE[:1920])
    sink.write(TONE[:more])
    sink.finish()
    sox.stdin.close()
    assert sox.wait(30) == 0, sox.stderr.read()
    sox.stderr.close()
    assert soundfile.info(tmp_path / "out.wav").frames == 1920 + more


def test_standard_output_that_is_full() -> None:
    if not os.path.exists("/dev/full"):
        pytest.skip("no /dev/full here")
    with open("/dev/full", "wb", buffering=0) as file, pytest.raises(OutputError, match="no space left"):
        PipeSink(file, WAV).write(TONE)


def test_a_terminal_is_refused() -> None:
    master, slave = pty.openpty()
    with open(slave, "wb", buffering=0) as file, pytest.raises(UsageError, match="terminal") as caught:
        PipeSink(file, WAV)
    os.close(master)
    assert caught.value.exit_code == 2 and "-o speech.wav" in (caught.value.hint or "")


def test_standard_output_that_is_a_file_gets_true_lengths(tmp_path: Path) -> None:
    with open(tmp_path / "a.wav", "wb", buffering=0) as file:
        sink = PipeSink(file, WAV)
        sink.write(TONE)
        sink.finish()
    with wave.open(str(tmp_path / "a.wav")) as reader:
        assert reader.getnframes() == 24000


def test_an_interrupted_pipe_is_ended_properly() -> None:
    file = io.BytesIO()
    sink = PipeSink(file, choose_format(None, "flac"))
    sink.write(TONE)
    assert sink.interrupt() is None
    assert soundfile.read(io.BytesIO(file.getvalue()))[0].size == 24000


# -- memory and several


def test_memory_keeps_the_very_samples() -> None:
    sink = MemorySink()
    sink.write(TONE[:10])
    sink.write(TONE[10:])
    sink.finish()
    assert np.array_equal(sink.sound, TONE)
    with pytest.raises(GuardError):
        sink.write(np.array([np.nan], np.float32))


def test_a_lost_loudspeaker_does_not_cost_the_file(tmp_path: Path) -> None:
    broken, path = Mock(spec=Sink), tmp_path / "a.wav"
    broken.write.side_effect = DeviceError("the sound output went away")
    with pytest.raises(DeviceError), TeeSink([FileSink(path, WAV), broken]) as tee:
        tee.write(TONE)
        tee.write(TONE)
        tee.finish()
    assert soundfile.info(path).frames == 48000
    broken.discard.assert_called_once()
    broken.finish.assert_not_called()


def test_a_tee_gives_all_the_same(tmp_path: Path) -> None:
    memory, path, sound = MemorySink(), tmp_path / "a.flac", speech(1.0)
    with TeeSink([memory, FileSink(path, choose_format("a.flac"))]) as tee:
        tee.write(sound)
        tee.sentence_done()
        kept = tee.interrupt()
    assert kept == tmp_path / "a.partial.flac"
    assert np.allclose(soundfile.read(kept)[0], memory.sound, atol=1 / 32768)
