"""PyAV in place of ffmpeg: AAC written and read back, chapters and cover, and files that are not what they seem."""

import io
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest

from omnitts_cli.audio import pyav
from omnitts_cli.audio.read import read_clip
from omnitts_cli.errors import InputError

av = pytest.importorskip("av")
RATE = 24_000


@pytest.fixture(autouse=True)
def no_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")


def tone(seconds: float) -> np.ndarray:
    return (0.3 * np.sin(np.arange(round(seconds * RATE)) * 2 * np.pi * 440 / RATE)).astype(np.float32)


def m4a(path: Path, seconds: float = 3.0, rate: int = RATE) -> Path:
    writer = pyav.AacWriter(f"file:{path}", "mp4", RATE, rate, 64_000)
    for block in np.array_split(tone(seconds), 7):
        writer.write(block)
    writer.write(np.zeros(0, np.float32))
    writer.close()
    return path


def png() -> bytes:
    """A picture of two by two points."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", 2, 2, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", zlib.compress((b"\0" + bytes(6)) * 2)) + chunk(b"IEND", b"")


@pytest.mark.parametrize("rate", [RATE, 44_100])
def test_a_clip_in_aac_is_read_as_it_was_written(tmp_path: Path, rate: int) -> None:
    clip = read_clip(m4a(tmp_path / "a.m4a", rate=rate))
    assert clip.seconds == pytest.approx(3.0, abs=0.06) and clip.source_rate == rate
    middle = clip.sound[clip.rate : 2 * clip.rate]
    crossings = np.count_nonzero(np.diff(np.signbit(middle))) / 2
    assert crossings == pytest.approx(440, abs=3) and np.abs(middle).max() == pytest.approx(0.3, abs=0.05)
    with (tmp_path / "a.m4a").open("rb") as file:
        assert read_clip("-", stdin=file).seconds == clip.seconds  # bytes, such as an upload


def test_reading_ends_at_the_limit(tmp_path: Path) -> None:
    with m4a(tmp_path / "a.m4a").open("rb") as file:
        data = pyav.decoded(file, 1.0, 60.0)
    assert len(data) == 44 + 2 * RATE


def test_a_damaged_clip_and_one_that_refers_to_others(tmp_path: Path) -> None:
    whole = m4a(tmp_path / "a.m4a").read_bytes()
    for data in (whole[:100], b"\0\0\0\x20ftypM4A " + bytes(100), b"ffconcat version 1.0\nfile a.m4a\n"):
        with pytest.raises(pyav.MediaError):
            pyav.decoded(io.BytesIO(data), 10.0, 60.0)
    (tmp_path / "b.m4a").write_bytes(whole[:100])
    with pytest.raises(InputError) as found:
        read_clip(tmp_path / "b.m4a")
    assert found.value.hint


def test_chapters_tags_and_a_cover(tmp_path: Path) -> None:
    titles = [("One = #1; \\", 0.0, 1.2), ("Zwei – ü", 1.2, 3.0)]
    sound, tags = m4a(tmp_path / "a.m4a"), {"title": "T", "artist": "A", "album": ""}
    pyav.remux(sound, tmp_path / "b: c.m4b", tags, titles, png())
    with av.open(f"file:{tmp_path / 'b: c.m4b'}") as book:
        found = [(one["metadata"]["title"], one["start"] * one["time_base"]) for one in book.chapters()]
        assert [(title, float(start)) for title, start in found] == [("One = #1; \\", 0.0), ("Zwei – ü", 1.2)]
        assert (book.metadata["title"], book.metadata["artist"]) == ("T", "A") and "album" not in book.metadata
        picture = book.streams.video[0]
        assert picture.codec_context.name == "png" and av.stream.Disposition.attached_pic in picture.disposition
        assert bytes(next(book.demux(picture))) == png()
    assert read_clip(tmp_path / "b: c.m4b").seconds == pytest.approx(3.0, abs=0.06)


def test_a_stream_begins_at_once() -> None:
    class Kept(list[bytes]):
        def write(self, data: bytes) -> int:
            self.append(bytes(data))
            return len(data)

    out = Kept()
    writer = pyav.AacWriter(out, "adts", RATE, RATE, 96_000)
    writer.write(tone(0.3))
    assert sum(map(len, out)) > 500 and out[0][:2] == b"\xff\xf1"
    writer.close()
    assert len(pyav.decoded(io.BytesIO(b"".join(out)), 10.0, 60.0)) > 2 * 0.25 * RATE


def test_a_file_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(pyav.MediaError):
        writer = pyav.AacWriter(f"file:{tmp_path}/gone/a.m4a", "mp4", RATE, RATE, 64_000)
        writer.write(tone(1.0))
    m4a(tmp_path / "a.m4a")
    writer = pyav.AacWriter(f"file:{tmp_path}/c.m4a", "mp4", RATE, RATE, 64_000)
    writer.write(tone(0.1))
    writer.discard()
