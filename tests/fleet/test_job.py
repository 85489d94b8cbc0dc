"""omnitts batch from the manifest to the report: every kind of input and output, and what is done again."""

import io
import json
import re
import tarfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import soundfile

from omnitts_cli.fleet import job
from omnitts_cli.fleet.part import Writers
from omnitts_cli.fleet.speaker import KEPT_S
from omnitts_cli.kernels.cpu import library

Call = Callable[..., Any]
TOY = ["-m", "random:toy", "--max-frames", "8", "--json", "--progress", "none"]
CSV = "id,text\na,Hello there.\nb,Good morning.\nc,How are you today?\n"


def batch(omnitts: Call, *arguments: str, stdin: bytes = b"", code: int = 0) -> dict[str, Any]:
    done = omnitts("batch", *arguments, *TOY, stdin=stdin).ended(code)
    return dict(done.objects[0]) | {"err": done.err}


def rows_of(out: str = "out") -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(out, "manifest.jsonl").read_text("utf-8").splitlines()]


def by_id(out: str = "out") -> dict[str, dict[str, Any]]:
    return {row["id"]: row for row in rows_of(out)}


# ---- in


@pytest.mark.parametrize(("name", "content", "ids"), [
    ("m.csv", '\ufeffid,text\r\na,"One, ""two""\nand three."\r\n\r\nb,Four.\r\n', ["a", "b"]),
    ("m.tsv", "text\tid\nOne.\ta\nTwo.\tb\n", ["a", "b"]),
    ("m.jsonl", '{"text": "One."}\n\n{"input": "Two.", "id": 7}\n', ["00000001", "7"]),
    ("m.txt", "One.\n\nThree.\n", ["00000001", "00000003"]),
    ("metadata.csv", 'LJ1|In 1906, "x"|In nineteen oh six, x\nLJ2|Two|\n', ["LJ1", "LJ2"]),
])  # fmt: skip
def test_every_kind_of_manifest(omnitts: Call, name: str, content: str, ids: list[str]) -> None:
    Path(name).write_bytes(content.encode())
    assert batch(omnitts, name, "-O", "out")["spoken"] == len(ids)
    assert [row["id"] for row in rows_of()] == ids
    for row in rows_of():
        assert len(soundfile.read(Path("out", row["output"]))[0]) == round(8000 * row["audio_s"]) >= 640 * row["frames"]
        assert row["output"].endswith(".flac") and len(row["output"].split("/")) == 2
    again = batch(omnitts, name, "-o", "out")
    assert (again["spoken_now"], again["spoken"]) == (0, len(ids))
    assert f"; {len(ids)} rows were already done" in again["err"]


def test_parquet_in_and_out(omnitts: Call) -> None:
    import pyarrow
    from pyarrow.parquet import read_table, write_table

    write_table(pyarrow.table({"id": ["a", "b"], "text": ["Hello.", "Good day."]}), "m.parquet")
    assert batch(omnitts, "m.parquet", "-O", "out", "--to", "parquet", "-F", "wav")["spoken"] == 2
    assert [row["output"] for row in rows_of()] == ["part-00000.parquet"] * 2
    table = read_table("out/part-00000.parquet").to_pylist()
    assert sorted(row["id"] for row in table) == ["a", "b"]
    sounds = {row["id"]: soundfile.read(io.BytesIO(row["audio"]))[0] for row in table}
    assert all(sounds[row["id"]].size == round(row["audio_s"] * 8000) > 0 for row in rows_of())
    assert batch(omnitts, "m.parquet", "-O", "out", "--to", "parquet", "-F", "wav")["spoken_now"] == 0


def test_a_folder_of_texts_does_not_speak_its_own_reports(omnitts: Call) -> None:
    """The output may lie below the texts; a corpus is not a folder of texts."""
    Path("texts").mkdir()
    Path("texts/a.txt").write_text("Hello.")
    assert batch(omnitts, "texts", "-O", "texts/out")["rows"] == 1
    assert batch(omnitts, "texts", "-O", "texts/out")["rows"] == 1
    before = Path("texts/out/manifest.jsonl").read_bytes()
    omnitts("batch", "texts/out", "-O", "texts/out", *TOY).ended(3, "texts/out has no rows")
    assert Path("texts/out/manifest.jsonl").read_bytes() == before
    Path("texts/report.md").write_text("Good day.")  # of somebody else
    assert batch(omnitts, "texts", "-O", "texts/out")["rows"] == 2


def test_a_folder_of_texts_and_standard_input(omnitts: Call) -> None:
    Path("texts/deep").mkdir(parents=True)
    Path("texts/a.txt").write_text("Hello.")
    Path("texts/deep/b.md").write_text("# Title\n\nSome *words*.")
    Path("texts/c.ssml").write_text("<speak>Hello <break time='300ms'/> you.</speak>")
    assert batch(omnitts, "texts", "-O", "out")["spoken"] == 3
    assert [row["id"] for row in rows_of()] == ["a", "c", "deep/b"]
    assert by_id()["deep/b"]["output"].endswith("/deep%2Fb.flac")
    lines = b'{"id": "x", "text": "From a pipe."}\n'
    assert batch(omnitts, "-", "-O", "piped", stdin=lines)["spoken"] == 1
    assert batch(omnitts, "-", "-O", "piped", stdin=lines)["spoken_now"] == 0


# ---- out


def test_webdataset(omnitts: Call) -> None:
    Path("m.csv").write_text(CSV)
    batch(omnitts, "m.csv", "-O", "out", "--to", "webdataset", "--codes")
    with tarfile.open("out/shard-00000.tar") as tar:
        members = {one.name: tar.extractfile(one).read() for one in tar}  # type: ignore[union-attr]
    assert [name.split(".", 1)[1] for name in members][:4] == ["json", "txt", "codes.npy", "flac"]
    about = json.loads(members["00000002.json"])
    assert about["id"] == "b" and members["00000002.txt"] == b"Good morning."
    codes = np.load(io.BytesIO(members["00000002.codes.npy"]))
    assert codes.shape[0] == about["frames"] > 0
    row = by_id()["b"]
    data = Path("out", row["output"]).read_bytes()[row["offset"] :][: row["bytes"]]
    assert data == members["00000002.flac"]
    Path("m.csv").write_text(CSV + "d,A fourth one.\n")
    assert batch(omnitts, "m.csv", "-O", "out", "--to", "webdataset", "--codes")["spoken_now"] == 1
    with tarfile.open("out/shard-00000.tar") as tar:
        assert len(tar.getnames()) == 16
    assert batch(omnitts, "m.csv", "-O", "out", "--to", "webdataset", "--codes")["spoken_now"] == 0
    assert Path("out/shard-00000.tar").read_bytes().endswith(bytes(1024))


def test_files_are_what_say_would_write(omnitts: Call) -> None:
    """The seed of a row is in the output manifest, and say makes the same speech with it."""
    Path("m.csv").write_text(CSV)
    batch(omnitts, "m.csv", "-O", "out", "-F", "wav", "--flat")
    row = by_id()["c"]
    assert row["output"] == "c.wav"
    omnitts(
        "say", "-m", "random:toy", "--max-frames", "8", "--seed", str(row["seed"]), "-o", "c.wav", "How are you today?"
    )
    one, other = (soundfile.read(name, dtype="int16")[0].astype(int) for name in ("c.wav", "out/c.wav"))
    assert one.size == other.size and np.abs(one - other).max() <= 1


def test_rows_beside_a_gpu_are_written_by_other_processes(omnitts: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    long = " ".join(f"Sentence number {n}." for n in range(60))
    Path("m.csv").write_text(CSV + f"d,{long}\n")
    batch(omnitts, "m.csv", "-O", "own", "--seed", "3")
    real, made = job.PlannedModel.of, list[Path]()
    monkeypatch.setattr(job.PlannedModel, "of", lambda *given: replace(real(*given), on_cpu=False))
    monkeypatch.setattr(job, "writers_beside_a_gpu", lambda: 2)
    make = Writers.make
    monkeypatch.setattr(Writers, "make", lambda self, path, blocks: made.append(path) or make(self, path, blocks))
    batch(omnitts, "m.csv", "-O", "others", "--seed", "3")
    assert rows_of("own") == rows_of("others") and len(made) == 3  # the long one does not wait in memory
    assert rows_of("own")[3]["audio_s"] > KEPT_S


def test_the_report(omnitts: Call, picture: None) -> None:
    """A row counts as spoken only if it was."""
    Path("m.csv").write_text("id,text,voice\na,Hello there.,\nb,Good morning.,\nc,Hello.,missing\nd,,\n")
    done = batch(omnitts, "m.csv", "-O", "out", code=6)
    report = Path("out/report.md").read_text()
    assert "| rows | 4 |" in report and "| failed | 2 |" in report and "line 5, id 'd'" in report
    assert "| this run: rows | 2 spoken, 0 copied |" in report
    assert "| length of speech | 0:0" in report and "× realtime |" in report
    assert Path("out/report.png").read_bytes().startswith(b"\x89PNG")
    assert done["failed"] == 2 and "the row has no text" in done["err"]


def test_notices_about_texts_are_reported(omnitts: Call) -> None:
    lines = [
        {"id": "tags", "format": "ssml", "text": "<speak><prosody rate='slow'>Hello.</prosody></speak>"},
        {"id": "also", "format": "ssml", "text": "<speak><prosody>Good day.</prosody></speak>"},
        {"id": "pause", "text": "Hello. [pause:90s] Goodbye."},
        {"id": "none", "text": "Good morning."},
        {"id": "cues", "format": "srt", "text": "1\n00:00:01,000 --> 00:00:02,000\nHello.\n"},
    ]
    Path("m.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    arguments = ("m.jsonl", "-O", "out", "--sentence-gap", "0", "--paragraph-gap", "0")
    done = omnitts("batch", *arguments, *TOY)
    record = done.objects[0]
    assert record["rows_with_notices"] == 5 and len(record["warnings"]) == 1
    assert "5 rows have notices, such as: sentence 1 was cut at 8 frames" in done.err
    found = {row["id"]: row["notices"][0] for row in rows_of()}
    assert found["tags"] == found["also"] == "the text: the words in <prosody> are spoken, the tags have no effect"
    assert found["pause"] == "[pause:90s] is cut to 60 s, the longest pause"
    assert found["none"].startswith("sentence 1 was cut at 8 frames")
    assert "times are not kept" in found["cues"]
    report = Path("out/report.md").read_text()
    assert "| with notices | 5 |" in report and f"| {found['tags']} | 2 |" in report
    again = omnitts("batch", *arguments, *TOY)
    assert again.objects[0]["rows_with_notices"] == 5 and again.objects[0]["spoken_now"] == 0
    assert "5 rows have notices, such as:" in again.err  # nothing was read or written again


def test_the_next_step_after_bad_rows_is_to_correct_them(omnitts: Call) -> None:
    Path("m.jsonl").write_text('{"text": "Hello."}\n{"text": ""}\n')
    done = omnitts("batch", "m.jsonl", "-O", "out", *TOY)
    assert "correct m.jsonl and run the same command again" in done.err and "--retry-failed" not in done.err
    Path("m.jsonl").write_text('{"text": "Hello."}\n{"text": "Hi.", "voice": "unknown"}\n')
    done = omnitts("batch", "m.jsonl", "-O", "out", *TOY)
    assert "voice 'unknown' not found" in done.err
    assert "correct m.jsonl and run the same command again" in done.err and "--retry-failed" not in done.err
    Path("m.jsonl").write_text('{"text": "Hello."}\n{"text": "Hi."}\n')
    assert omnitts("batch", "m.jsonl", "-O", "out", *TOY).code == 0


# ---- again


def test_changed_rows_are_spoken_again(omnitts: Call) -> None:
    Path("m.csv").write_text(CSV)
    batch(omnitts, "m.csv", "-O", "out")
    before = by_id()
    Path("m.csv").write_text(CSV.replace("Good morning", "Good evening") + "d,And one more.\n")
    assert batch(omnitts, "m.csv", "-O", "out")["spoken_now"] == 2
    after = by_id()
    assert before["a"] == after["a"] and before["b"]["sha256"] != after["b"]["sha256"] and list(after) == list("abcd")
    assert batch(omnitts, "m.csv", "-O", "out", "-F", "wav")["spoken_now"] == 4
    assert batch(omnitts, "m.csv", "-O", "out", "-F", "wav", "--speed", "1.5")["spoken_now"] == 4


def test_a_drawn_seed_is_kept_and_another_one_speaks_again(omnitts: Call) -> None:
    Path("m.csv").write_text(CSV)
    batch(omnitts, "m.csv", "-O", "out")
    seeds = {row["id"]: row["seed"] for row in rows_of()}
    Path("m.csv").write_text(CSV.replace("c,How", "c,Who"))
    assert batch(omnitts, "m.csv", "-O", "out")["spoken_now"] == 1
    kept = {row["id"]: row["seed"] for row in rows_of()}
    assert (kept["a"], kept["b"]) == (seeds["a"], seeds["b"])
    assert batch(omnitts, "m.csv", "-O", "out", "--seed", "9")["spoken_now"] == 3
    batch(omnitts, "m.csv", "-O", "other")
    assert {row["seed"] for row in rows_of("other")}.isdisjoint(seeds.values())


def test_a_changed_voice_and_changed_weights_speak_again(omnitts: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    from omnitts_cli.fleet import content

    soundfile.write("me.wav", np.random.default_rng(0).normal(0, 0.1, 48_000), 24_000)
    Path("m.jsonl").write_text('{"id": "a", "text": "Hi.", "ref_audio": "me.wav"}\n{"id": "b", "text": "Hi."}\n')
    batch(omnitts, "m.jsonl", "-O", "out")
    assert batch(omnitts, "m.jsonl", "-O", "out")["spoken_now"] == 0
    soundfile.write("me.wav", np.random.default_rng(1).normal(0, 0.1, 48_000), 24_000)
    assert batch(omnitts, "m.jsonl", "-O", "out")["spoken_now"] == 1
    assert batch(omnitts, "m.jsonl", "-O", "out", "-v", "ben")["spoken_now"] == 1  # the row with a clip has its voice
    monkeypatch.setattr(content, "SOUND", content.SOUND + 1)
    assert batch(omnitts, "m.jsonl", "-O", "out", "-v", "ben")["spoken_now"] == 2


def test_changed_weights_speak_again(omnitts: Call, landed: Path) -> None:
    Path("m.csv").write_text("text\nHello.\n")
    arguments = ("batch", "m.csv", "-O", "out", "--max-frames", "8", "--json", "--progress", "none")
    assert omnitts(*arguments).objects[0]["spoken_now"] == 1
    again = omnitts(*arguments)
    assert again.objects[0]["spoken_now"] == 0 and "spoken again" not in again.err
    weights = landed / "speech_tokenizer" / "model.safetensors"
    data = bytearray(weights.read_bytes())
    data[-4:] = b"\0\0\0\0"
    weights.write_bytes(data)
    again = omnitts(*arguments)
    assert again.objects[0]["spoken_now"] == 1 and "spoken again" in again.err


def test_one_content_under_two_ids_is_spoken_once(omnitts: Call) -> None:
    Path("m.csv").write_text("id,text\na,Same.\nb,Same.\nc,Other.\n")
    done = batch(omnitts, "m.csv", "-O", "out", "--codes")
    assert (done["spoken_now"], done["copied_now"], done["spoken"]) == (2, 1, 3)
    assert by_id()["a"]["sha256"] == by_id()["b"]["sha256"]
    codes = [Path("out", row["codes"]).read_bytes() for row in rows_of()]
    assert codes[0] == codes[1] != codes[2] and np.load(io.BytesIO(codes[0])).size
    Path("m.csv").write_text("id,text\nnew name,Same.\nc,Other.\n")
    done = batch(omnitts, "m.csv", "-O", "out", "--codes")
    assert (done["spoken_now"], done["copied_now"]) == (0, 1)
    [first] = Path("out").glob("*/a.flac")
    assert Path("out", by_id()["new name"]["output"]).read_bytes() == first.read_bytes()


def test_missing_and_damaged_files(omnitts: Call) -> None:
    Path("m.csv").write_text(CSV)
    batch(omnitts, "m.csv", "-O", "out")
    a, b = (Path("out", by_id()[id]["output"]) for id in "ab")
    a.unlink()
    assert batch(omnitts, "m.csv", "-O", "out")["spoken_now"] == 1
    data = bytearray(b.read_bytes())
    data[-1] ^= 1
    b.write_bytes(data)
    assert batch(omnitts, "m.csv", "-O", "out")["spoken_now"] == 0  # the length is the same
    assert batch(omnitts, "m.csv", "-O", "out", "--verify-files")["spoken_now"] == 1
    b.write_bytes(b.read_bytes()[:-1])
    assert batch(omnitts, "m.csv", "-O", "out")["spoken_now"] == 1


def test_limit_only_prune_and_fresh(omnitts: Call) -> None:
    Path("m.csv").write_text(CSV)
    assert batch(omnitts, "m.csv", "-O", "out", "--only", "b")["spoken"] == 1
    done = batch(omnitts, "m.csv", "-O", "out", "--limit", "1")
    assert (done["spoken"], done["left"]) == (2, 1)
    batch(omnitts, "m.csv", "-O", "out")
    assert omnitts("batch", "m.csv", "-O", "out", "--only", "nobody", *TOY).code == 3
    Path("m.csv").write_text("id,text\na,Hello there.\n")
    assert omnitts("batch", "m.csv", "-O", "out", "--prune", *TOY).code == 2
    assert len(list(Path("out").glob("*/*.flac"))) == 3
    assert "removed 2 files" in batch(omnitts, "m.csv", "-O", "out", "--prune", "-y")["err"]
    assert [path.name for path in Path("out").glob("*/*.flac")] == ["a.flac"]
    Path("out/mine.txt").write_text("mine")
    assert batch(omnitts, "m.csv", "-O", "out", "--fresh", "-y")["spoken_now"] == 1
    assert Path("out/mine.txt").exists()


# ---- bad rows: the rest is spoken, exit code 6, line and id in the message


def test_bad_rows(omnitts: Call) -> None:
    lines = [
        '{"id": "good", "text": "Hello."}',
        '{"id": "broken", "text": "Hello.',
        '["a list"]',
        '{"id": "no text"}',
        '{"id": "empty", "text": " "}',
        '{"id": "signs", "text": "?!..."}',
        '{"id": "number", "text": 7}',
        '{"id": "good", "text": "Twice."}',
        '{"id": "two", "text": "Hi.", "voice": "ann", "description": "deep"}',
        '{"id": "speed", "text": "Hi.", "speed": 9}',
        '{"id": "clip", "text": "Hi.", "ref_audio": "nothing.wav"}',
        '{"id": "away", "text": "Hi.", "ref_audio": "../../etc/passwd"}',
        '{"id": "voice", "text": "Hi.", "voice": "nobody"}',
        '{"id": "nul\\u0000", "text": "Hi."}',
        '{"id": "half", "text": "Hi \\ud800."}',
        '{"id": "tongue", "text": "Hi.", "language": "fr"}',
        '{"id": "seed", "text": "Hi.", "seed": true}',
        '{"id": "deep", "text": "Hi.", "tags": ' + "[" * 2000 + "]" * 2000 + "}",
        '{"id": "last", "text": "Goodbye."}',
    ]
    data = "\n".join(lines).encode() + b'\n{"id": "latin", "text": "caf\xe9"}\n'
    Path("m.jsonl").write_bytes(data)
    done = batch(omnitts, "m.jsonl", "-O", "out", code=6)
    assert (done["spoken"], done["failed"]) == (2, 18)
    messages = {row["row"]: (row["id"], row.get("message")) for row in rows_of()}
    assert messages[1] == ("good", None) and messages[19] == ("last", None)
    expected = {2: "not valid JSON", 3: "not a JSON object", 4: "no text", 5: "nothing to speak", 6: "nothing to speak",
                7: "not a string", 8: "already in line 1", 9: "both voice and description", 10: "speed 9",
                11: "cannot read reference clip", 12: "outside the folder", 13: "voice 'nobody' not found",
                14: "control character", 15: "surrogate", 16: "does not support French", 17: "seed True",
                18: "nested", 20: "not UTF-8"}  # fmt: skip
    for row, words in expected.items():
        assert words in str(messages[row][1]), (row, messages[row])
    assert "line 8, id 'good': the id 'good' is already in line 1" in Path("out/report.md").read_text()
    assert messages[13][0] == "voice" and "18 of 20 rows failed" in done["err"]


def test_ids_become_safe_and_different_names(omnitts: Call) -> None:
    ids = [
        "../x", "CON", "nul.txt", "a", "A", ".hidden", "dot.", "emoji 😀", "e\u0301", "x" * 200, "per%cent", "Aa", "aA",
    ]  # fmt: skip
    Path("m.jsonl").write_text("".join(json.dumps({"id": id, "text": f"Row {n}."}) + "\n" for n, id in enumerate(ids)))
    assert batch(omnitts, "m.jsonl", "-O", "out", "--flat")["spoken"] == len(ids)
    rows = rows_of()
    names = [row["output"] for row in rows]
    assert names[0] == "%2E.%2Fx.flac" and names[1] == "%43ON.flac" and names[4] == "%41.flac"
    assert rows[8]["id"] == "\u00e9"
    folded = [row["output"].lower() for row in rows]
    assert len(set(folded)) == len(ids)
    assert all(len(name.encode()) <= 255 for name in names)
    assert batch(omnitts, "m.jsonl", "-O", "out", "--flat")["spoken_now"] == 0
    found = [path for path in Path().resolve().parent.rglob("*.flac") if "out" not in path.parts]
    assert found == []


def test_a_line_of_a_hundred_megabytes(omnitts: Call) -> None:
    with Path("m.jsonl").open("wb") as file:
        file.write(b'{"id": "a", "text": "One."}\n{"id": "b", "text": "')
        for _ in range(100):
            file.write(b"x" * 1_000_000)
        file.write(b'"}\n{"id": "c", "text": "Three."}\n')
    done = batch(omnitts, "m.jsonl", "-O", "out", code=6)
    assert (done["spoken"], done["failed"]) == (2, 1) and "line 2: the line has 100,000,0" in done["err"]


def test_empty_rows_may_be_silence(omnitts: Call) -> None:
    Path("m.csv").write_text("id,text\na,Hello.\nb,\n")
    batch(omnitts, "m.csv", "-O", "out", "--empty", "silence")
    sound, rate = soundfile.read(Path("out", by_id()["b"]["output"]))
    assert len(sound) == 0.2 * rate and not sound.any()


def test_an_unknown_field_stops_everything(omnitts: Call) -> None:
    Path("m.jsonl").write_text('{"text": "One."}\n{"text": "Two.", "speeed": 1}\n')
    omnitts("batch", "m.jsonl", "-O", "out", *TOY).ended(3, "m.jsonl line 2: unknown field 'speeed'", "'speed'")
    done = omnitts("batch", "-", "-O", "out", *TOY, stdin=Path("m.jsonl").read_bytes())
    assert done.code == 3 and "error: standard input line 2: unknown field" in done.err
    assert batch(omnitts, "m.jsonl", "-O", "out", "--ignore-unknown")["spoken"] == 2
    Path("m.csv").write_text("txt\nOne.\n")
    assert "no column 'text'" in omnitts("batch", "m.csv", "-O", "out", *TOY).err


@pytest.mark.parametrize(("words", "code", "message"), [
    (["nothing.csv", "-O", "out"], 3, "manifest nothing.csv not found\n  try: ls ."),
    (["m.doc", "-O", "out"], 2, "'.doc'"),
    (["half.jsonl", "-O", "out"], 6, "line 1: the line is not valid JSON: Expecting ',' delimiter, column 15"),
    (["m.csv"], 2, "needs a folder"),
    (["m.csv", "-O", "file:///out"], 2, "file:///out is a folder"),
    (["m.csv", "-O", "https://bucket/out"], 2, "https://bucket/out cannot be written to"),
    (["m.csv", "-O", "s3://"], 2, "s3:// names no bucket"),
    (["m.csv", "-O", "nothing://bucket"], 2, "Protocol not known: nothing"),
    (["m.csv", "-O", "memory://out"], 2, "memory://out is the memory of this process"),
    (["m.doc", "-O", "out"], 2, "--manifest-format lines"),
    (["m.xlsx", "-O", "out"], 2, "save it as CSV"),
    (["m.pdf", "-O", "out"], 2, "a manifest is a JSONL, CSV, TSV, Parquet or text file"),
    (["my rows.json", "-O", "out"], 2, "jq -c '.[]' 'my rows.json' | omnitts batch - -O DIR"),
    (["empty.jsonl", "-O", "out"], 3, "error: empty.jsonl has no rows"),
    (["-", "-O", "out"], 3, "error: standard input has no rows"),
    (["m.csv", "-O", "out", "--asr-model", "base"], 2, "--asr-model has no effect without --verify asr"),
    (["m.csv", "-O", "out", "--tries", "5"], 2, "--tries has no effect without --verify asr"),
    (["m.csv", "-O", "out", "--tries", "3"], 2, "--tries has no effect without --verify asr"),
    (["m.csv", "-O", "out", "-v", "nobody"], 4, "voice 'nobody' not found"),
    (["semicolons.csv", "-O", "out"], 3, "separated by commas"),
    (["m.csv", "-O", "m.csv"], 8, "cannot make the folder"),
    (["here", "-O", "here", "--flat"], 8, "was not made by omnitts batch"),
])  # fmt: skip
def test_refusals(omnitts: Call, words: list[str], code: int, message: str) -> None:
    Path("m.csv").write_text(CSV)
    Path("semicolons.csv").write_text("id;text\na;Hello.\n")
    Path("m.doc").write_text("x")
    Path("m.xlsx").write_bytes(b"PK\x03\x04")
    Path("m.pdf").write_bytes(b"%PDF-1.4\n%\xe2\xe3\n")
    Path("half.jsonl").write_text('{"text": "Hi."\n')
    Path("my rows.json").write_text('[{"text": "Hello."}]')
    Path("empty.jsonl").write_text("\n")
    Path("here").mkdir()
    Path("here/a.txt").write_text("Hello.")
    omnitts("batch", *words, *TOY).ended(code, message)
    assert not Path("out").exists() or (code != 2 and words[0] != "nothing.csv")


@pytest.mark.parametrize(("content", "kind"), [
    ('\ufeff{"text": "One."}\n', "jsonl"), ("id,Text\na,One.\n", "csv"), ('"text"\tid\r\n', "tsv"),
    ("LJ1|One|One\n", "ljspeech"), ("One, two.\n", "lines"), ("PAR1\x15", "parquet"),
])  # fmt: skip
def test_the_hint_names_a_kind_that_fits(omnitts: Call, content: str, kind: str) -> None:
    Path("rows.dat").write_text(content)
    omnitts("batch", "rows.dat", "-O", "out", *TOY).ended(2, f"--manifest-format {kind}\n")


@pytest.mark.skipif(not library.usable(), reason="needs the compiled library")
def test_an_exact_corpus_has_one_fingerprint(omnitts: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("m.csv").write_text(CSV)
    rows = batch(omnitts, "m.csv", "-O", "out")["spoken"]
    before = {id: row["sha256"] for id, row in by_id().items()}
    done = batch(omnitts, "m.csv", "-O", "out", "--exact")
    assert done["spoken_now"] == rows
    assert {id: row["sha256"] for id, row in by_id().items()} == before  # on a CPU
    assert re.fullmatch("[0-9a-f]{12}", done["exact"])
    assert Path("out/.omnitts/exact").read_text() == done["exact"]
    Path("m.csv").write_text(CSV + "new,One more.\n")
    monkeypatch.setattr(job, "bits_of", lambda tts: "another")
    omnitts("batch", "m.csv", "-O", "out", "--exact", *TOY).ended(5, "this device has another", "omnitts doctor")


def test_a_recogniser_that_is_not_there_is_4(omnitts: Call) -> None:
    pytest.importorskip("faster_whisper")
    Path("m.csv").write_text(CSV)
    done = omnitts("batch", "m.csv", "-O", "out", "--verify", "asr", "--asr-model", "/nowhere/base", *TOY)
    assert done.code == 4 and "not found" in done.err


def test_check_loads_no_model_and_writes_nothing(omnitts: Call) -> None:
    Path("m.csv").write_text(CSV + ",x\nd,\n")
    done = omnitts("batch", "m.csv", "--check", "-m", "no such model", "--json")
    assert done.code == 6 and "line 6" in done.err and done.objects[0]["bad"] == 1
    assert [path.name for path in Path().iterdir()] == ["m.csv"]


def test_full_disk_is_found_before_the_start(omnitts: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    from omnitts_cli.fleet import disk

    Path("m.csv").write_text(CSV)
    monkeypatch.setattr(disk, "free_bytes", lambda folder: 1000)
    omnitts("batch", "m.csv", "-O", "out", *TOY).ended(8, "1,000 are free")


@pytest.mark.parametrize(("stored", "begun", "asked", "used"), [
    (None, False, "auto", "auto"),
    ("auto", True, "auto", "auto"),
    (None, True, "auto", "fp32"),  # begun when auto did not choose 8 bits
    ("fp32", True, "auto", "fp32"),
    ("fp32", True, "q8", "q8"),
    (None, True, "q8", "q8"),
])  # fmt: skip
def test_a_corpus_keeps_the_precision_with_which_it_was_begun(
    stored: str | None, begun: bool, asked: str, used: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def of(name: str, machine: dict[str, Any]) -> job.PlannedModel:
        eight = machine["dtype"] in ("auto", "q8")
        return job.PlannedModel(name, "", np.zeros(2, "<u8"), True, "q8" if eight else "float32")

    monkeypatch.setattr(job.PlannedModel, "of", of)
    path, told = tmp_path / "dtype", []
    if stored:
        path.write_text(stored)
    this: Any = SimpleNamespace(
        machine={"dtype": asked}, tell=told.append, keep=lambda path, words: path.write_text(words)
    )
    models = job.BatchJob._models(this, ["0.6b"], path, begun)
    assert this.machine["dtype"] == path.read_text() == used
    assert models[0].dtype == ("float32" if used == "fp32" else "q8")
    assert len(told) == (stored is None and begun and asked == "auto")
