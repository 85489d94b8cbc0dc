"""Recordings: every layout is read, every defect is named, and too little is refused."""

import itertools
import json
import os
from pathlib import Path

import numpy as np
import pytest
import soundfile
from recordings_kit import WORDS, hum, many, write

from omnitts_cli.errors import InputError, Notice
from omnitts_cli.tuning import pieces, recordings
from omnitts_cli.tuning.pieces import pauses_of, pieces_of
from omnitts_cli.tuning.recordings import RATE, Recordings, examine, held_out, mended, rows_in, usual_level
from omnitts_cli.tuning.transcripts import Transcripts


def look(count: int) -> None:
    """Nobody watches."""


def examined(folder: Path) -> tuple[Recordings, list[Notice]]:
    told: list[Notice] = []
    return examine(rows_in(str(folder), folder, folder), told.append, look), told


def test_a_folder_of_sounds_and_texts(tmp_path: Path) -> None:
    found, told = examined(many(tmp_path))
    assert len(found.clips) == 24 and not found.left_out
    assert 60 < found.seconds < 75 and len(told) == 1  # a few minutes are few


@pytest.mark.parametrize(
    "name", ["metadata.csv", "metadata.tsv", "metadata.jsonl", "list.csv", "ljspeech/metadata.csv"]
)
def test_lists_of_other_layouts(tmp_path: Path, name: str) -> None:
    base = (tmp_path / name).parent
    folder = base / "wavs"
    rows = [(f"{n}.wav", f"{WORDS} {n}") for n in range(3)]
    for sound, _ in rows:
        write(folder, sound, hum(2.0), None)
    path = tmp_path / name
    if name.startswith("ljspeech"):
        path.write_text("".join(f"{sound[:-4]}|{text}|{text}\n" for sound, text in rows))
    elif name.endswith("jsonl"):
        path.write_text("".join(json.dumps({"audio": f"wavs/{s}", "sentence": t}) + "\n" for s, t in rows))
    else:
        mark = "\t" if name.endswith("tsv") else ","
        lines = [("file_name", "transcription"), *((f"wavs/{s}", t) for s, t in rows)]
        path.write_text("".join(mark.join(line) + "\n" for line in lines))
    found = rows_in(str(path if name == "list.csv" else base), tmp_path, tmp_path)
    assert [(row.path.name, row.text) for row in found] == rows and all(row.path.is_file() for row in found)


def test_every_defect_is_named(tmp_path: Path) -> None:
    many(tmp_path)
    write(tmp_path, "silent.wav", np.zeros(3 * RATE, np.float32))
    write(tmp_path, "short.wav", hum(0.6), "brown fox")
    write(tmp_path, "shortest.wav", hum(0.05), "a")
    write(tmp_path, "long.wav", hum(25.0), WORDS * 6)
    write(tmp_path, "clipped.wav", np.clip(20 * hum(3.0), -1, 1))
    write(tmp_path, "untold.wav", hum(3.0), None)
    write(tmp_path, "empty.wav", hum(3.0), "  ")
    write(tmp_path, "misfit.wav", hum(3.0, 90), WORDS * 5)
    write(tmp_path, "again.wav", hum(3.0, 3), "another text of about that length, as it seems")
    soundfile.write(tmp_path / "nan.wav", np.full(3 * RATE, np.nan, np.float32), RATE, subtype="FLOAT")
    (tmp_path / "nan.txt").write_text(WORDS)
    (tmp_path / "damaged.wav").write_bytes(b"RIFF....")
    (tmp_path / "damaged.txt").write_text(WORDS)
    (tmp_path / "folder.wav").mkdir()
    (tmp_path / "nowhere.wav").symlink_to(tmp_path / "missing")
    for number in range(5):
        write(tmp_path, f"same{number}.wav", hum(3.0, 100 + number))
    write(tmp_path, "telephone.wav", hum(3.0, 91, rate=8000), f"{WORDS} by phone", rate=8000)
    write(tmp_path, "noisy.wav", hum(3.0, 92) + 0.05 * hiss(3.0), f"{WORDS} in a storm")
    silence = np.zeros(2 * RATE, np.float32)
    write(tmp_path, "pause.wav", np.concatenate([hum(2.0, 93), silence, hum(2.0, 94)]), f"{WORDS} and {WORDS}")
    found, told = examined(tmp_path)
    names = {reason: {Path(one.split(": ")[0]).name for one in some} for reason, some in found.left_out.items()}
    assert names["silent"] == {"silent.wav"} and names["too short"] == {"short.wav", "shortest.wav"}
    assert names["too long"] == {"long.wav"} and names["clipped"] == {"clipped.wav"}
    assert names["no transcript"] == {"untold.wav", "empty.wav", "nowhere.wav"}
    assert names["misfit"] == {"misfit.wav"} and names["unreadable"] == {"damaged.wav", "nan.wav"}
    duplicates = sorted(names["duplicate"])
    assert len(duplicates) == 3 and "same4.wav" in duplicates
    assert len(found.clips) == 24 + 3 + 3 and any(notice.cause for notice in told)
    doubtful = {reason: [Path(one).name for one in some] for reason, some in found.doubtful.items()}
    assert doubtful == {"telephone": ["telephone.wav"], "noisy": ["noisy.wav"], "pause": ["pause.wav"]}


def hiss(seconds: float) -> np.ndarray:
    return np.random.default_rng(9).standard_normal(round(seconds * RATE)).astype(np.float32)


def test_what_is_allowed_is_not_left_out(tmp_path: Path) -> None:
    many(tmp_path)
    write(tmp_path, "short.wav", hum(0.6), "brown fox")
    write(tmp_path, "clipped.wav", np.clip(20 * hum(3.0), -1, 1))
    write(tmp_path, "misfit.wav", hum(3.0, 90), WORDS * 5)
    write(tmp_path, "again.wav", hum(3.0, 3), "another text of about that length, as it seems")
    write(tmp_path, "silent.wav", np.zeros(3 * RATE, np.float32))
    rows = rows_in(str(tmp_path), tmp_path, tmp_path)
    found = examine(rows, lambda notice: None, look, allowed=("too short", "clipped", "misfit", "duplicate"))
    assert len(found.clips) == 24 + 4 and [*found.left_out] == ["silent"]


def test_texts_are_checked_by_a_recogniser(tmp_path: Path) -> None:
    many(tmp_path)
    others = {"60": WORDS, "61": "the quick brown fox jumps under a busy cat", "62": "something else is said in here"}
    for name in others:
        write(tmp_path, f"{name}.wav", hum(3.0, int(name)))
    write(tmp_path, "untold.wav", hum(3.0, 63), None)
    answers = iter([*[WORDS] * 24, *others.values()])  # in the order of the names

    def found(checks: bool, allowed: tuple[str, ...] = ()) -> Recordings:
        transcripts = Transcripts(lambda sound: next(answers), tmp_path / "told.json", False, checks, "en")
        result = examine(rows_in(str(tmp_path), tmp_path, tmp_path), lambda notice: None, look, transcripts, allowed)
        transcripts.keep()
        return result

    blue = Transcripts(lambda sound: "blue tooth", tmp_path / "blue.json", checks=True, language="en")
    assert blue.wrong("Bluetooth", np.zeros(9, np.float32), "x") == 0.0 < blue.wrong("Blue teeth", hum(1.0), "x") < 0.3
    untold = {"no transcript": [str(tmp_path / "untold.wav")]}
    assert found(False).left_out == untold and not found(False).doubtful
    checked = found(True)
    assert checked.left_out == untold | {"misheard": [str(tmp_path / "62.wav")]}
    assert checked.doubtful == {"words": [str(tmp_path / "61.wav")]} and len(checked.clips) == 26
    allowed = found(True, ("misheard",))  # what was understood is known
    assert allowed.left_out == untold and len(allowed.clips) == 27 and len(allowed.doubtful["words"]) == 2


def test_a_long_recording_is_cut_at_its_pauses(tmp_path: Path) -> None:
    sound = np.concatenate([np.concatenate([hum(4.0, n), np.zeros(RATE // 2, np.float32)]) for n in range(36)])
    path = write(tmp_path / "one", "talk.wav", sound, None)
    pieces = list(pieces_of(path))
    assert len(pieces) == 18 and all(8 < end - begin <= 12 for begin, end in pieces)  # two sentences each
    assert all(one[1] == two[0] for one, two in itertools.pairwise(pieces)) and pieces[-1][1] == pytest.approx(
        162, 0.01
    )
    number = itertools.count()
    transcripts = Transcripts(lambda sound: f"{WORDS} and {WORDS} {next(number)}", tmp_path / "told.json")
    alone = rows_in(str(path), tmp_path, tmp_path, whole=True)
    for rows in (alone, rows_in(str(path.parent), tmp_path, tmp_path)):
        found = examine(rows, lambda notice: None, look, transcripts)
        assert len(found.clips) == 18 and not found.left_out and found.mended["cut into pieces"] == 1
    clip = mended(found.clips[3], -20.0)
    assert clip.size == found.clips[3].end - found.clips[3].begin and np.abs(clip).max() > 0.01


def test_what_has_no_pause_is_not_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pause = np.zeros(RATE // 2, np.float32)
    steady = np.sin(np.arange(30 * RATE) / 20).astype(np.float32)
    path = write(tmp_path, "steady.wav", np.concatenate([hum(5.0), pause, steady, pause, hum(5.0, 1)]), None)
    assert [round(end - begin) for begin, end in pieces_of(path)] == [5, 5]
    monkeypatch.setattr(pieces, "LONGEST_S", 20.0)
    assert not list(pieces_of(path))
    assert pauses_of(np.zeros(0, np.float32)) == []


def test_a_data_set_in_parquet(tmp_path: Path) -> None:
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    source, data = many(tmp_path / "source"), tmp_path / "set" / "data"
    rows = [{"audio": {"bytes": path.read_bytes(), "path": path.name}, "text": path.with_suffix(".txt").read_text()}
            for path in sorted(source.glob("*.wav"))]  # fmt: skip
    data.mkdir(parents=True)
    for number, some in enumerate((rows[:12], rows[12:])):
        parquet.write_table(pyarrow.Table.from_pylist(some), data / f"train-{number}.parquet")
    for place in (data.parent, data):
        found = examine(rows_in(str(place), tmp_path, tmp_path / "run"), lambda notice: None, look)
        assert [clip.text for clip in found.clips] == [row["text"] for row in rows]
        assert len(list((tmp_path / "run").iterdir())) == 24
    plain = [{"audio": {"bytes": None, "path": str(source / "00.wav")}, "text": WORDS}]
    parquet.write_table(pyarrow.Table.from_pylist(plain), tmp_path / "names.parquet")
    assert rows_in(str(tmp_path / "names.parquet"), tmp_path, tmp_path)[0].path == source / "00.wav"


def test_hostile_folders_are_read_or_refused(tmp_path: Path) -> None:
    """Names, links, pipes and devices; ten hours in one clip; a text of 40 MB."""
    many(tmp_path)
    os.mkfifo(tmp_path / "pipe.wav")
    for name, target in (("zero", "/dev/zero"), ("loop", "loop.wav"), ("passwd", "/etc/passwd")):
        (tmp_path / f"{name}.wav").symlink_to(target)
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "up").symlink_to(tmp_path)
    ten = write(tmp_path, "ten.wav", hum(3.0, 70))
    wavhead, size = bytearray(ten.read_bytes()[:44]), 10 * 3600 * RATE * 2
    wavhead[4:8], wavhead[40:44] = (36 + size).to_bytes(4, "little"), size.to_bytes(4, "little")
    with ten.open("r+b") as file:
        file.write(wavhead)
        file.truncate(44 + size)  # no blocks on the disk
    big = write(tmp_path, "big.wav", hum(3.0, 71))
    big.with_suffix(".txt").write_bytes(b"x" * (40 << 20))
    odd = ["a\nb\x1b[31m.wav", "x..  .wav", os.fsdecode(b"\xff\xfe.wav"), "--help.wav"]
    for number, name in enumerate(odd):
        made = write(tmp_path, "new.wav", hum(3.0, 72 + number), f"{WORDS} in file {number}")
        for path in (made, made.with_suffix(".txt")):
            path.rename((tmp_path / name).with_suffix(path.suffix))
    for path in tmp_path.glob("*.wav"):
        if not path.with_suffix(".txt").exists():
            path.with_suffix(".txt").write_text(f"{WORDS} {path.stem}"[:60].encode("utf-8", "replace").decode())
    found, _ = examined(tmp_path)
    assert len(found.clips) == 24 + len(odd)
    left = {reason: {Path(one.split(": ")[0]).stem for one in names} for reason, names in found.left_out.items()}
    assert left == {"unreadable": {"pipe", "zero", "loop", "passwd", "big"}, "too long": {"ten"}}


def test_a_recogniser_writes_missing_texts(tmp_path: Path) -> None:
    many(tmp_path)
    write(tmp_path, "untold.wav", hum(3.0, 60), None)
    write(tmp_path, "unheard.wav", hum(3.0, 61), None)
    write(tmp_path, "misheard.wav", hum(3.0, 62), None)
    answers = [WORDS * 9, "", f" {WORDS}\n"]  # in the order of the names
    sizes: list[int] = []

    def hear(sound: np.ndarray) -> str:
        sizes.append(sound.size)
        return answers[(len(sizes) - 1) % 3]

    def found() -> Recordings:
        path = tmp_path / "transcripts.json"
        transcripts = Transcripts(hear, path)
        result = examine(rows_in(str(tmp_path), tmp_path, tmp_path), lambda notice: None, look, transcripts)
        transcripts.keep()
        return result

    first = found()
    assert sizes == [48_000] * 3 and first.mended["transcribed"] == 1
    assert next(clip.text for clip in first.clips if clip.path.name == "untold.wav") == WORDS
    assert {reason: len(names) for reason, names in first.left_out.items()} == {"no transcript": 1, "misfit": 1}
    assert found().clips == first.clips and len(sizes) == 3
    (tmp_path / "transcripts.json").write_text("[")
    assert found().clips == first.clips and len(sizes) == 6


def test_a_very_long_recording_is_not_read_whole(tmp_path: Path) -> None:
    many(tmp_path)
    with soundfile.SoundFile(tmp_path / "day.flac", "w", RATE, 1) as file:
        for _ in range(20):
            file.write(np.zeros(60 * RATE, np.float32))
    (tmp_path / "day.txt").write_text(WORDS)
    found, _ = examined(tmp_path)
    assert len(found.left_out["too long"]) == 1


def test_rows_that_cannot_be_read_are_left_out(tmp_path: Path) -> None:
    many(tmp_path / "wavs")
    rows = [{"audio": f"wavs/{n:02}.wav", "text": f"{WORDS} {n}"} for n in range(24)]
    lines = [*map(json.dumps, rows), "not json", json.dumps({"text": "no sound"}), json.dumps({"audio": "../x.wav"})]
    (tmp_path / "metadata.jsonl").write_text("\n".join(lines))
    found, _ = examined(tmp_path)
    assert len(found.clips) == 24
    assert len(found.left_out["unreadable"]) == 2 and len(found.left_out["no transcript"]) == 1


def test_too_little_is_refused_with_a_hint(tmp_path: Path) -> None:
    for place in (tmp_path / "nothing", tmp_path):
        with pytest.raises(InputError) as caught:
            rows_in(str(place), tmp_path, tmp_path)
        assert caught.value.hint
    write(tmp_path / "one", "a.wav", hum(3.0))
    with pytest.raises(InputError) as caught:
        rows_in(str(tmp_path / "one" / "a.wav"), tmp_path, tmp_path)
    assert caught.value.hint
    with pytest.raises(InputError) as caught:
        examined(tmp_path / "one")
    assert caught.value.exit_code == 3 and caught.value.hint
    for number in range(4):
        write(tmp_path / "untold", f"{number}.wav", hum(3.0), None)
        write(tmp_path / "clipped", f"{number}.wav", np.clip(20 * hum(3.0, number), -1, 1))
        write(tmp_path / "silent", f"{number}.wav", np.zeros(3 * RATE, np.float32))
    for name in ("untold", "clipped", "silent"):
        with pytest.raises(InputError) as caught:
            examined(tmp_path / name)
        assert caught.value.cause and caught.value.hint


def test_too_many_rows_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recordings, "MOST_ROWS", 3)
    for number in range(4):
        (tmp_path / f"{number}.wav").touch()
    with pytest.raises(InputError):
        rows_in(str(tmp_path), tmp_path, tmp_path)


def test_edges_are_cut_and_levels_evened(tmp_path: Path) -> None:
    many(tmp_path)
    quiet = np.concatenate([np.zeros(RATE, np.float32), hum(3.0, 50, level=0.03), np.zeros(RATE, np.float32)])
    write(tmp_path, "quiet.wav", quiet, f"{WORDS} again")
    write(tmp_path, "stereo.wav", np.stack([hum(3.0, 51, rate=16000)] * 2, 1), f"{WORDS} twice", rate=16000)
    found, _ = examined(tmp_path)
    assert found.mended["silence cut"] == 1 and found.mended["resampled"] == 1 and found.mended["made mono"] == 1
    clip = next(one for one in found.clips if one.path.name == "quiet.wav")
    assert 3.0 <= clip.seconds <= 3.35
    level = usual_level(found.clips)
    assert level - clip.loudness > 6
    sound = mended(clip, level)
    gained = np.abs(sound).max() / np.abs(quiet).max()
    assert abs(20 * np.log10(gained) - 6) < 0.1


def test_what_is_held_out_stays_when_clips_are_added(tmp_path: Path) -> None:
    found, _ = examined(many(tmp_path, 40, 2.0))
    some, every = held_out(found.clips[:30], 0.2), held_out(found.clips, 0.2)
    assert len(some) == 6 and len(every) == 8
    assert len(some & every) >= 4  # an added text may come before them
    assert held_out(list(reversed(found.clips)), 0.2) == every


def test_a_long_recording_is_cut_by_its_subtitles(tmp_path: Path) -> None:
    sound = np.concatenate([np.concatenate([hum(3.0, n), np.zeros(RATE, np.float32)]) for n in range(24)])
    path = write(tmp_path, "talk.wav", sound, None)
    lines = ["WEBVTT", ""]
    for n in range(24):
        moments = (4 * n, "000"), (4 * n, "500"), (4 * n + 3, "200")
        at = [f"00:{whole // 60:02}:{whole % 60:02}.{rest}" for whole, rest in moments]
        lines += [f"{at[0]} --> {at[1]}", f"{n} the quick", "", f"{at[1]} --> {at[2]}", "brown fox jumps over it.", ""]
    path.with_suffix(".vtt").write_text("\n".join(lines))
    rows = rows_in(str(path), tmp_path, tmp_path)
    assert len(rows) == 24 and rows[1].text == "1 the quick brown fox jumps over it." and rows[1].part == (4.0, 7.2)
    assert rows_in(str(tmp_path), tmp_path, tmp_path) == rows
    found = examine(rows, lambda notice: None, lambda count: None)
    assert len(found.clips) == 24 and all(2.8 < clip.seconds < 3.3 for clip in found.clips)
    clip = mended(found.clips[5], -20.0)
    assert clip.size == found.clips[5].end - found.clips[5].begin and np.abs(clip).max() > 0.01
    path.with_suffix(".vtt").unlink()
    with pytest.raises(InputError):
        rows_in(str(path), tmp_path, tmp_path)
