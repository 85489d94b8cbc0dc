"""Chapter marks, tags and covers in FLAC, Ogg and MP3, as ffprobe and libsndfile read them back."""

import io
import shutil
from pathlib import Path

import numpy as np
import pytest
import soundfile
from books import PNG, probe

from omnitts_cli.books.marks import Mark, Marks
from omnitts_cli.books.tags import TAGGERS

KINDS = {
    "flac": ("FLAC", "PCM_16"), "opus": ("OGG", "OPUS"), "ogg": ("OGG", "VORBIS"), "mp3": ("MP3", "MPEG_LAYER_III"),
}  # fmt: skip
MARKS = Marks(
    [Mark("One = 1; ü", 0.0, 1.0), Mark("Two", 1.0, 2.5)], {"title": "A Book", "artist": "Jané", "album": "A Book"}
)


def encoded(form: str) -> bytes:
    file = io.BytesIO()
    kind, subtype = KINDS[form]
    sound = 0.3 * np.sin(np.arange(int(2.5 * 24_000)) * 0.05)
    soundfile.write(file, sound, 24_000, format=kind, subtype=subtype)
    return file.getvalue()


@pytest.mark.parametrize("cover", [None, PNG, PNG + bytes(200_000)], ids=["none", "small", "large"])
@pytest.mark.parametrize("form", list(TAGGERS))
def test_the_sound_is_the_same_and_the_marks_are_there(form: str, cover: bytes | None, tmp_path: Path) -> None:
    before = encoded(form)
    target = io.BytesIO()
    TAGGERS[form](io.BytesIO(before), target, Marks(MARKS.chapters, MARKS.tags, cover))
    path = tmp_path / f"a.{form}"
    path.write_bytes(target.getvalue())
    expected, sound = soundfile.read(io.BytesIO(before))[0], soundfile.read(path)[0]
    assert np.array_equal(expected, sound)
    if not shutil.which("ffprobe"):
        return
    found = probe(path)
    tags = {**found["format"].get("tags", {}), **found["streams"][0].get("tags", {})}
    tags = {name.lower(): value for name, value in tags.items()}
    assert tags["title"] == "A Book" and tags["artist"] == "Jané"
    chapters = [(one["tags"]["title"], round(float(one["start_time"]), 2)) for one in found["chapters"]]
    assert chapters == [("One = 1; ü", 0.0), ("Two", 1.0)]
    assert any(one["disposition"]["attached_pic"] for one in found["streams"]) == (cover is not None)
