"""Shards: cut back to what is recorded, copies of a sound, and Parquet parts over several runs."""

import hashlib
import io
import json
import tarfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from corpus import lines_of, stored

from omnitts_cli.fleet.journal import DONE, SIZE, Entry, Lookup, RowJournal
from omnitts_cli.fleet.store import Made, ParquetParts, Shards, header, member, padded, sha8

Call = Callable[..., Any]
TOY = ["-m", "random:toy", "--max-frames", "8", "--json", "--progress", "none"]
CSV = "id,text\na,Same.\nb,Same.\nc,Other.\n"


def run(omnitts: Call, *more: str) -> dict[str, Any]:
    done = omnitts("batch", "m.csv", "-O", "out", *more, *TOY).ended(0)
    return dict(done.objects[0])


def made(folder: Path, index: int, size: int) -> Made:
    part = folder / f"part-{index}"
    data = np.random.default_rng(index).bytes(size)
    part.write_bytes(data)
    return Made(index, f"r{index}", "", (index, 0), DONE, {"n": index}, part, data[:8].hex(), size, f"text {index}")


def test_a_shard_is_a_tar_file_of_equal_bytes(tmp_path: Path) -> None:
    for name in ("one", "two"):
        work = tmp_path / name / "work"
        work.mkdir(parents=True)
        store = Shards(tmp_path / name, ".flac", 10_000, Lookup(work))
        group = [made(tmp_path, index, 700 + index) for index in range(9)]
        store.place(group[:5])
        store.place(group[5:])
        store.finish()
    one, two = (sorted((tmp_path / name).glob("*.tar")) for name in ("one", "two"))
    assert [path.read_bytes() for path in one] == [path.read_bytes() for path in two]
    with tarfile.open(one[0]) as tar:
        names = tar.getnames()
        assert names[:3] == ["00000001.json", "00000001.txt", "00000001.flac"]
        assert {info.mtime for info in tar} == {0}
    for path in one:
        assert path.stat().st_size % 512 == 0 and path.read_bytes().endswith(bytes(1024))


@pytest.mark.parametrize("recorded", [0, 1, 3, 5])
def test_a_shard_is_cut_back_to_its_records(tmp_path: Path, recorded: int) -> None:
    work = tmp_path / "work"
    work.mkdir()
    store = Shards(tmp_path, ".flac", 10**9, Lookup(work))
    group = [made(tmp_path, index, 600) for index in range(5)]
    by(store, work, "main", group[:recorded])
    store.place(group[recorded:])
    store.close()
    with (tmp_path / "shard-00000.tar").open("ab") as file:
        file.write(b"half a sound")
    again = Shards(tmp_path, ".flac", 10**9, Lookup(work))
    again.place([made(tmp_path, 7, 600)])
    again.finish()
    with tarfile.open(tmp_path / "shard-00000.tar") as tar:
        keys = [name.split(".")[0] for name in tar.getnames() if name.endswith(".flac")]
    assert keys == [f"{index + 1:08}" for index in range(recorded)] + ["00000008"]


def test_tar_members_are_padded() -> None:
    assert [padded(size) for size in (0, 1, 512, 513)] == [0, 512, 512, 1024]
    data = member("00000001.txt", b"words")
    assert len(data) == 1024 and tarfile.TarInfo.frombuf(data[:512], "utf-8", "strict").size == 5
    assert len(header("x", 1 << 40)) % 512 == 0  # larger than the field of the old format


@pytest.mark.parametrize("to", ["webdataset", "parquet"])
def test_copies_and_changes_in_shards(omnitts: Call, to: str) -> None:
    from pyarrow.parquet import read_table

    Path("m.csv").write_text(CSV)
    first = run(omnitts, "--to", to, "-F", "wav")
    assert (first["spoken_now"], first["copied_now"], first["spoken"]) == (2, 1, 3)
    Path("m.csv").write_text("id,text\nnew,Same.\nc,Another.\n")
    second = run(omnitts, "--to", to, "-F", "wav")
    assert (second["spoken_now"], second["copied_now"], second["spoken"]) == (1, 1, 2)
    rows = lines_of("out")
    assert list(rows) == ["new", "c"] and run(omnitts, "--to", to, "-F", "wav")["spoken_now"] == 0
    if to == "webdataset":
        data = Path("out", rows["new"]["output"]).read_bytes()[rows["new"]["offset"] :][: rows["new"]["bytes"]]
    else:
        table = read_table(f"out/{rows['new']['output']}").to_pylist()
        data = next(row["audio"] for row in table if row["id"] == "new")
        assert len(list(Path("out").glob("part-*.parquet"))) == 2 and not list(Path("out/.omnitts/shards").iterdir())
    assert len(soundfile.read(io.BytesIO(data))[0]) == round(rows["new"]["audio_s"] * 8000)
    assert sha8(data) == int.from_bytes(bytes.fromhex(rows["new"]["sha256"])[:8], "little")


@pytest.mark.parametrize("to", ["webdataset", "parquet"])
def test_a_row_with_a_new_id_keeps_its_sound_though_the_old_one_is_pruned(omnitts: Call, to: str) -> None:
    Path("m.csv").write_text("id,text\na,Hello there.\nold,Good morning.\n")
    options = ("--to", to, "-F", "wav", "--prune", "-y")
    run(omnitts, *options)
    before = lines_of("out")["old"]["sha256"]
    Path("m.csv").write_text("id,text\na,Hello there.\nnew,Good morning.\n")
    done = run(omnitts, *options)
    assert (done["spoken_now"], done["copied_now"], done["spoken"]) == (0, 1, 2)
    after = {id: row["sha256"] for id, row in lines_of("out").items()}
    assert after["new"] == before and set(after) == {"a", "new"}
    assert stored("out") == sorted(after.values())
    Path("m.csv").write_text("id,text\na,Hello there.\nnew,Good morning.\nlast,And this.\n")
    assert run(omnitts, *options)["spoken_now"] == 1 and len(stored("out")) == 3


@pytest.mark.parametrize("to", ["webdataset", "parquet"])
def test_prune_writes_shards_anew(omnitts: Call, to: str) -> None:
    options = ("--to", to, "-F", "wav", "--shard-size", "100KB", "--codes", "--seed", "3")
    texts = {f"r{n}": f"Sentence number {n} is here." for n in range(50)}

    def speak(*more: str) -> dict[str, Any]:
        Path("m.jsonl").write_text("".join(json.dumps({"id": id, "text": text}) + "\n" for id, text in texts.items()))
        done = omnitts("batch", "m.jsonl", "-O", "out", *options, *more, *TOY).ended(0)
        return dict(done.objects[0]) | {"err": done.err}

    assert speak()["spoken_now"] == 50
    before = lines_of("out")
    assert len({row["output"] for row in before.values()}) > 1 and len(stored("out")) == 50
    assert "removed" not in speak("--prune", "-y")["err"]
    for id in ("r0", "r1", "r45"):
        del texts[id]
    texts["r6"] = "This one has changed."
    done = speak("--prune", "-y")
    assert "removed 4 samples whose rows are gone" in done["err"] and done["spoken_now"] == 1
    after = lines_of("out")
    assert {id: row["sha256"] for id, row in after.items() if id != "r6"} == {
        id: before[id]["sha256"] for id in texts if id != "r6"
    }
    assert stored("out") == sorted(row["sha256"] for row in after.values())
    if to == "webdataset":
        for row in after.values():
            data = Path("out", row["output"]).read_bytes()[row["offset"] :][: row["bytes"]]
            assert hashlib.sha256(data).hexdigest() == row["sha256"]
    again = speak("--prune", "-y", "--verify-files")
    assert again["spoken_now"] == 0 and "removed" not in again["err"]
    omnitts("batch", "m.jsonl", "-O", "out", "--to", "files", *TOY).ended(2, f"was made with --to {to}, not files")


def test_a_lost_shard_is_made_again(omnitts: Call) -> None:
    Path("m.csv").write_text(CSV)
    run(omnitts, "--to", "webdataset")
    Path("out/shard-00000.tar").unlink()
    again = run(omnitts, "--to", "webdataset")
    assert again["spoken_now"] + again["copied_now"] == 3
    assert {row["output"] for row in lines_of("out").values()} == {"shard-00001.tar"}
    assert Path("out/.omnitts/journal-main.bin").stat().st_size == 6 * SIZE


def by(worker: Shards, work: Path, name: str, group: list[Made]) -> None:
    """A worker makes these rows, and is then killed."""
    sums = {one.index: sha8(one.part.read_bytes()) for one in group if one.part}
    worker.place(group)
    journal = RowJournal(work, name)
    journal.append(
        [
            Entry(one.key, one.index + 1, one.index, DONE, b"{}", sums[one.index], one.shard, one.offset, one.length)
            for one in group
        ]
    )
    journal.close()


@pytest.mark.parametrize("to", ["webdataset", "parquet"])
def test_shards_of_several_workers(tmp_path: Path, to: str) -> None:
    """Each has its own; what they leave is ended, and a row that two of them have made is kept once."""
    from pyarrow.parquet import read_table

    from omnitts_cli.fleet.prune import prune_doubles

    work = tmp_path / "work"
    work.mkdir()

    def opened(lookup: Lookup | None) -> Shards:
        if to == "parquet":
            return ParquetParts(tmp_path, ".flac", 6000, lookup, work)
        return Shards(tmp_path, ".flac", 6000, lookup)

    rows = {index: made(tmp_path, index, 600) for index in range(12)}
    sounds = {index: one.part.read_bytes() for index, one in rows.items() if one.part}
    one, two, three = opened(None), opened(None), opened(None)
    by(one, work, "w0", [rows[0], rows[1], rows[2]])
    by(two, work, "w1", [rows[3], rows[4]])
    by(one, work, "w0", [rows[5], rows[6], rows[7]])  # the shard is full now
    by(one, work, "w0", [rows[8]])
    by(two, work, "w1", [rows[9], made(tmp_path, 0, 600)])
    two.place([rows[10]])  # without a record
    three.place([rows[11]])
    main = RowJournal(work)
    main.absorb(work, one.is_there)
    after = opened(None)
    with closing(Lookup(work)) as lookup:
        after.end_all(lookup)
        prune_doubles(lookup, after, main)
    with closing(Lookup(work)) as lookup:
        records = lookup.of_names(np.arange(1, 13, dtype=np.uint64))
        assert (records >= 0).tolist() == [True] * 10 + [False] * 2
        if to == "webdataset":
            for index, record in enumerate(records[:10]):
                number, at = (int(lookup.records[field][record]) for field in ("shard", "offset"))
                assert after.path(number).read_bytes()[at:][:600] == sounds[index]
        prune_doubles(lookup, after, main)  # nothing is left to do
        assert len(lookup.records) == len(Lookup(work).records)
    main.close()
    if to == "webdataset":
        found = []
        for path in tmp_path.glob("shard-*.tar"):
            with tarfile.open(path) as tar:
                found += [tar.extractfile(one).read() for one in tar if one.name.endswith(".flac")]  # type: ignore[union-attr]
    else:
        assert not list((work / "shards").iterdir())
        found = [sound for path in tmp_path.glob("part-*") for sound in read_table(path)["audio"].to_pylist()]
    assert sorted(found) == sorted(sounds[index] for index in range(10))


def test_two_workers_do_not_take_one_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both look before either has created its file; a Parquet part counts as its shard."""
    one, two = (ParquetParts(tmp_path, ".flac", 6000, None, tmp_path / "work") for _ in range(2))
    monkeypatch.setattr(two, "numbers", list)
    one.place([made(tmp_path, 0, 600)])
    two.place([made(tmp_path, 1, 600)])
    one.finish()
    three = ParquetParts(tmp_path, ".flac", 6000, None, tmp_path / "work")
    monkeypatch.setattr(three, "numbers", list)
    three.place([made(tmp_path, 2, 600)])
    for store in (two, three):
        store.finish()
    assert sorted(path.name for path in tmp_path.glob("part-*.parquet")) == [
        f"part-{number:05}.parquet" for number in range(3)
    ]
