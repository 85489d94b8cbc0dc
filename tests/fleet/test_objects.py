"""Output in a store, as the command makes it: rows and bytes of a folder, and all that changes them later."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from corpus import KINDS, TOY, forget, lines_of, stored, sums

from omnitts_cli.fleet.bucket import Bucket
from omnitts_cli.fleet.journal import DONE, Entry
from omnitts_cli.fleet.names import name_hash
from omnitts_cli.fleet.objects import ObjectShards
from omnitts_cli.fleet.segments import Segments

Call = Callable[..., Any]
Texts = dict[str, str]


def speak(omnitts: Call, out: str, texts: Texts, *more: str) -> dict[str, Any]:
    Path("m.jsonl").write_text("".join(json.dumps({"id": id, "text": text}) + "\n" for id, text in texts.items()))
    done = omnitts("batch", "m.jsonl", "-O", out, "--shard-size", "100KB", *TOY, *more, "--json").ended(0)
    return dict(done.objects[0]) | {"err": done.err}


TEXTS = {f"r{n}": f"Sentence number {n} is here." for n in range(40)}


@pytest.mark.parametrize("to", KINDS)
def test_rows_and_bytes_are_those_of_a_folder(omnitts: Call, home: Path, memory: str, to: str) -> None:
    speak(omnitts, "folder", TEXTS)
    assert speak(omnitts, memory, TEXTS, "--to", to)["spoken_now"] == 40
    assert sums(memory) == sums("folder") and stored(memory) == sorted(sums(memory).values())
    row = lines_of(memory)["r7"]
    if to == "webdataset":
        assert row["output"].startswith("shard-")
        sound = Bucket(memory).get(row["output"], row["offset"], row["bytes"])
        assert hashlib.sha256(sound or b"").hexdigest() == row["sha256"]
    assert Bucket(memory).get("report.md") and Bucket(memory).get(".omnitts/run") is None
    assert speak(omnitts, memory, TEXTS, "--to", to)["spoken_now"] == 0
    forget(home)
    assert speak(omnitts, memory, TEXTS, "--to", to)["spoken_now"] == 0
    refused = omnitts("batch", "m.jsonl", "-O", memory, "--to", "files" if to == "parquet" else "parquet", *TOY)
    assert refused.code == 2 and f"was made with --to {to}" in refused.err


@pytest.mark.parametrize("to", KINDS)
def test_changes_copies_and_prune(omnitts: Call, home: Path, memory: str, to: str) -> None:
    more = ("--to", to, "--codes")
    texts = {**TEXTS, "twin": TEXTS["r3"]}
    first = speak(omnitts, memory, texts, *more)
    copies = int(to == "files")  # the codes of a sound in a shard are not taken out for a copy: it is spoken again
    assert (first["spoken_now"], first["copied_now"]) == (41 - copies, copies)
    before = sums(memory)
    assert before["twin"] == before["r3"]
    for id in ("r0", "r1", "r30"):
        del texts[id]
    texts |= {"r6": "This one has changed.", "copy": TEXTS["r7"]}
    forget(home)
    done = speak(omnitts, memory, texts, *more, "--prune", "-y")
    assert (done["spoken_now"], done["copied_now"]) == (2 - copies, copies) and "whose rows are gone" in done["err"]
    after = sums(memory)
    assert {id: sha for id, sha in after.items() if id not in ("r6", "copy")} == {
        id: sha for id, sha in before.items() if id in texts and id != "r6"
    }
    assert after["copy"] == before["r7"] and after["r6"] != before["r6"]
    assert stored(memory) == sorted(after.values())
    forget(home)
    assert speak(omnitts, memory, texts, *more, "--prune", "-y", "--verify-files")["spoken_now"] == 0


def test_a_damaged_or_lost_object_is_made_again(omnitts: Call, memory: str) -> None:
    speak(omnitts, memory, TEXTS)
    bucket, rows, whole = Bucket(memory), lines_of(memory), sums(memory)
    bucket.remove([rows["r3"]["output"]])
    bucket.put(rows["r4"]["output"], b"too short")
    assert speak(omnitts, memory, TEXTS)["spoken_now"] == 2
    bucket.put(rows["r5"]["output"], b"\0" * rows["r5"]["bytes"])
    done = speak(omnitts, memory, TEXTS, "--verify-files")
    assert done["spoken_now"] == 1 and "1 file damaged" in done["err"]
    assert sums(memory) == whole and stored(memory) == sorted(whole.values())


@pytest.mark.parametrize("to", KINDS)
def test_fresh_removes_what_is_ours(omnitts: Call, memory: str, to: str) -> None:
    speak(omnitts, memory, TEXTS, "--to", to, "--codes")
    bucket = Bucket(memory)
    bucket.put("theirs.tar", b"x")
    bucket.put("aa/theirs.flac", b"x")
    texts = {id: TEXTS[id] for id in list(TEXTS)[:5]}
    assert speak(omnitts, memory, texts, "--fresh", "-y")["spoken_now"] == 5
    assert bucket.get("theirs.tar") == bucket.get("aa/theirs.flac") == b"x"
    bucket.remove(["aa/theirs.flac", "theirs.tar"])
    assert stored(memory) == sorted(sums(memory).values()) and len(sums(memory)) == 5
    assert not [name for name in bucket.sizes() if name.startswith(("shard-", "part-"))]


def test_a_seed_that_was_drawn_is_kept(omnitts: Call, home: Path, memory: str) -> None:
    Path("m.txt").write_text("One.\nTwo.\n")
    toy = [one for one in TOY if one not in ("--seed", "5")]
    assert omnitts("batch", "m.txt", "-O", memory, "--limit", "1", *toy).code == 0
    seed = Bucket(memory).get(".omnitts/seed")
    forget(home)
    done = omnitts("batch", "m.txt", "-O", memory, *toy, "--json")
    assert done.json["spoken_now"] == 1 and seed == Bucket(memory).get(".omnitts/seed")


def test_what_is_not_ours_is_left_alone(omnitts: Call, memory: str) -> None:
    Path("m.txt").write_text("One.\n")
    bucket = Bucket(memory)
    bucket.put("manifest.jsonl", b"theirs")
    omnitts("batch", "m.txt", "-O", memory, *TOY).ended(8, "that is not ours")
    bucket.remove(["manifest.jsonl"])
    bucket.put("a.flac", b"theirs")
    for more in (["--fresh", "-y"], ["--flat"]):
        omnitts("batch", "m.txt", "-O", memory, *TOY, *more).ended(8, "was not made by omnitts batch")
    assert bucket.get("a.flac") == b"theirs"


def test_two_writers_take_different_numbers(memory: str, tmp_path: Path) -> None:
    bucket = Bucket(memory)
    stores = [
        ObjectShards(bucket, ".flac", 1000, tmp_path / name, lambda: None, to_parquet=False) for name in ("one", "two")
    ]
    assert [store.next_number() for store in [*stores, *stores]] == [0, 1, 2, 3]
    bucket.put("shard-00009.tar", b"")
    assert stores[0].next_number() == 10


def test_of_two_takes_of_a_row_the_one_that_is_there_counts(omnitts: Call, home: Path, memory: str) -> None:
    """Two workers may make a row differently on GPUs; the object holds what was uploaded last."""
    texts = {"a": "One.", "b": "Two."}
    speak(omnitts, memory, texts)
    bucket, row = Bucket(memory), lines_of(memory)["a"]
    key = tuple(np.frombuffer(bytes.fromhex(row["key"]), "<u8").tolist())
    sha, length = hashlib.sha256(b"another take").hexdigest(), 12
    about = {**row, "sha256": sha, "bytes": length}
    short = int.from_bytes(bytes.fromhex(sha)[:8], "little")
    other = Entry(key, name_hash(row["output"]), 0, DONE, json.dumps(about).encode(), short, 0, 0, length)
    Segments(bucket, 1, "w1-zzzz", late=False).append([other])
    forget(home)
    assert speak(omnitts, memory, texts)["spoken_now"] == 0
    assert lines_of(memory)["a"]["sha256"] == row["sha256"]
    Segments(bucket, 9, "w1-zzzz", late=False).append([other])
    bucket.put(row["output"], b"another take")
    assert speak(omnitts, memory, texts)["spoken_now"] == 0
    assert lines_of(memory)["a"]["sha256"] == sha
