"""The journal: records that survive, torn ones that do not, and looking things up."""

import json
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnitts_cli.fleet import journal
from omnitts_cli.fleet.journal import DONE, FAILED, SIZE, Entry, Lookup, RowJournal


def entry(number: int, *, key: int | None = None, name: int | None = None, state: int = DONE, **more: int) -> Entry:
    details = json.dumps({"number": number, "text": "é" * (number % 7)}, ensure_ascii=False).encode()
    return Entry((key if key is not None else number, 1), name or number + 1, number, state, details, **more)


def filled(folder: Path, count: int, writer: str = "main") -> None:
    lookup = RowJournal(folder, writer)
    for start in range(0, count, 5):
        lookup.append([entry(n, length=n, offset=n << 33) for n in range(start, min(start + 5, count))])
    lookup.close()


def test_records_come_back(tmp_path: Path) -> None:
    filled(tmp_path, 23)
    lookup = Lookup(tmp_path)
    assert len(lookup.records) == 23
    for index in range(23):
        assert json.loads(lookup.details(index))["number"] == index
        assert int(lookup.records["offset"][index]) == index << 33
    lookup.close()


@pytest.mark.parametrize("lost", range(1, 2 * SIZE, 9))
def test_torn_records_are_cut_off_and_writing_goes_on(tmp_path: Path, lost: int) -> None:
    filled(tmp_path, 10)
    path = tmp_path / "journal-main.bin"
    path.write_bytes(path.read_bytes()[:-lost])
    whole = path.stat().st_size // SIZE
    assert len(journal.read(path)) == whole
    (tmp_path / "details-main.jsonl").open("ab").write(b'{"half a li')
    lookup = RowJournal(tmp_path)
    lookup.append([entry(77)])
    lookup.close()
    found = Lookup(tmp_path)
    assert [json.loads(found.details(i))["number"] for i in range(len(found.records))] == [*range(whole), 77]
    assert (tmp_path / "details-main.jsonl").read_bytes().count(b"half") == 0
    found.close()


@given(st.integers(0, 10 * SIZE - 1), st.integers(1, 255))
@settings(max_examples=60, deadline=None)
def test_a_flipped_bit_loses_one_record(tmp_path_factory: pytest.TempPathFactory, at: int, flip: int) -> None:
    folder = tmp_path_factory.mktemp("journal")
    filled(folder, 10)
    path = folder / "journal-main.bin"
    data = bytearray(path.read_bytes())
    data[at] ^= flip
    path.write_bytes(data)
    assert journal.read(path)["row"].tolist() == [n for n in range(10) if n != at // SIZE]


def test_the_checksum_is_zlibs() -> None:
    rows = np.random.default_rng(0).integers(0, 256, (50, 60), np.uint8)
    assert journal.crc32_of(rows).tolist() == [zlib.crc32(row.tobytes()) for row in rows]


def test_the_latest_record_of_a_name_counts(tmp_path: Path) -> None:
    lookup = RowJournal(tmp_path)
    lookup.append([entry(0, key=5, name=9), entry(1, key=6, name=8)])
    lookup.append([entry(2, key=7, name=9), entry(3, key=8, name=7, state=FAILED)])
    lookup.close()
    found = Lookup(tmp_path)
    assert found.of_names(np.array([9, 8, 7, 6], np.uint64)).tolist() == [2, 1, 3, -1]
    assert [found.with_key(np.array([key, 1], np.uint64)) for key in (5, 6, 7, 8)] == [-1, 1, 2, -1]
    keys = np.array([[5, 1], [6, 1], [8, 1]], np.uint64)
    assert found.has_keys(keys).tolist() == [False, True, False]
    found.close()


def test_an_empty_folder_and_two_writers(tmp_path: Path) -> None:
    empty = Lookup(tmp_path)
    assert empty.of_names(np.array([1], np.uint64)).tolist() == [-1]
    assert empty.with_key(np.array([1, 1], np.uint64)) == -1
    assert empty.has_keys(np.zeros((2, 2), np.uint64)).tolist() == [False, False]
    filled(tmp_path, 4, "a")
    filled(tmp_path, 6, "b")
    both = Lookup(tmp_path)
    assert len(both.records) == 10 and json.loads(both.details(9))["number"] == 5
    both.close()
