"""Segments: the journal in a store, its copy on the disk, and many small ones joined."""

import zlib
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from omnitts_cli.errors import OutputError
from omnitts_cli.fleet import segments
from omnitts_cli.fleet.bucket import Bucket, Owner
from omnitts_cli.fleet.journal import DONE, Entry, Lookup, packed
from omnitts_cli.fleet.segments import FOLDER, Mirror, Segments, next_run, records_of, segment_of


def entry(row: int, take: int = 0) -> Entry:
    return Entry((row, take), 100 + row, row, DONE, f'{{"row": {row}, "take": {take}}}'.encode(), sha=take)


def details(work: Path, rows: int) -> list[str]:
    with closing(Lookup(work)) as lookup:
        found = lookup.of_names(np.arange(100, 100 + rows, dtype=np.uint64))
        return [lookup.details(int(record)).decode() if record >= 0 else "" for record in found]


def expected(rows: int, take: int = 0) -> list[str]:
    return [f'{{"row": {row}, "take": {take}}}' for row in range(rows)]


def opened(bucket: Bucket, work: Path, **more: Any) -> Mirror:
    work.mkdir(exist_ok=True)
    return Mirror(bucket, work, next_run(bucket), **{"late": False, **more})


def test_a_damaged_segment_holds_nothing_and_large_ones_are_read_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    data = segment_of(*packed([entry(1), entry(2)], 0))
    records, lines = records_of(data)
    assert records["row"].tolist() == [1, 2] and lines.count(b"\n") == 2
    for wrong in (b"", data[:-1], data[: len(data) // 2], zlib.compress(b"\x09")):
        assert len(records_of(wrong)[0]) == 0
    monkeypatch.setattr(segments, "READ_TOGETHER", 3)
    monkeypatch.setattr(segments, "READ_BYTES", 10)
    sizes = {"a": 1, "b": 1, "c": 1, "d": 9, "e": 30, "f": 5, "g": 5}
    assert list(segments.groups(sizes)) == [["a", "b", "c"], ["d"], ["e"], ["f", "g"]]
    assert list(segments.groups({})) == []


def test_another_machine_reads_what_writers_have_published(memory: str, tmp_path: Path) -> None:
    bucket = Bucket(memory)
    driver = opened(bucket, tmp_path / "one")
    driver.append([entry(0), entry(1)])
    worker = Segments(bucket, 1, "w0-a", late=True)
    worker.append([entry(2)])
    worker.append([entry(3)])
    assert driver.update().tolist() == []
    worker.publish()
    worker.publish()
    assert driver.update().tolist() == [2, 3] and driver.update().tolist() == []
    driver.close()
    assert details(tmp_path / "one", 4) == expected(4)
    opened(bucket, tmp_path / "two").close()
    assert details(tmp_path / "two", 4) == expected(4)
    before = (tmp_path / "one" / "journal-main.bin").read_bytes()
    opened(bucket, tmp_path / "one").close()  # nothing is read twice
    assert (tmp_path / "one" / "journal-main.bin").read_bytes() == before


def test_later_runs_count(memory: str, tmp_path: Path) -> None:
    """Whatever the writers are called."""
    bucket = Bucket(memory)
    for run in range(1, 8):
        assert next_run(bucket) == run
        Segments(bucket, run, f"w0-{'zyxwvutsr'[run]}", late=False).append([entry(0, run), entry(run, run)])
    opened(bucket, tmp_path / "one").close()
    assert details(tmp_path / "one", 1) == expected(1, 7)


def test_many_segments_become_few(memory: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments, "MANY", 4)
    monkeypatch.setattr(segments, "ROWS_TOGETHER", 5)
    monkeypatch.setattr(segments, "READ_TOGETHER", 3)
    bucket = Bucket(memory)
    journal = opened(bucket, tmp_path / "one")
    for row in range(0, 4):
        journal.append([entry(row)])
    journal.join()
    assert len(bucket.sizes(FOLDER)) == 4  # not many
    for row in range(4, 12):
        journal.append([entry(row, 1)])
        journal.append([entry(row)])
    journal.join()
    assert len(bucket.sizes(FOLDER)) == 4  # of 20 records
    journal.append([entry(3)])
    journal.close()
    for work in ("one", "two"):
        opened(bucket, tmp_path / work).close()
        assert details(tmp_path / work, 12) == expected(12)


def test_a_run_killed_while_it_joins_segments(memory: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some of the old segments are still there, and the machine's own copy knows others."""
    monkeypatch.setattr(segments, "MANY", 2)
    bucket, removed = Bucket(memory), list[str]()
    journal = opened(bucket, tmp_path / "one")
    for row in range(6):
        journal.append([entry(row, 1)])
        journal.append([entry(row)])

    def dies(self: Bucket, names: list[str]) -> None:
        removed.extend(names[::2])
        remove(self, names[::2])
        raise KeyboardInterrupt

    remove = Bucket.remove
    with monkeypatch.context() as patched:
        patched.setattr(Bucket, "remove", dies)
        with pytest.raises(KeyboardInterrupt):
            journal.join()
    journal.close()
    assert len(removed) == 6
    for work in ("one", "two"):
        opened(bucket, tmp_path / work).close()
        assert details(tmp_path / work, 6) == expected(6)


def test_a_run_that_has_lost_the_bucket_publishes_nothing(memory: str) -> None:
    bucket = Bucket(memory)
    owner = Owner(bucket, "1-mine")
    journal = Segments(bucket, 1, "w0-a", late=False, token="1-mine")
    journal.append([entry(0)])
    owner.release()
    with pytest.raises(OutputError, match="belongs to another run now"):
        journal.append([entry(1)])
    assert len(bucket.sizes(FOLDER)) == 1


def test_clear_forgets_everything(memory: str, tmp_path: Path) -> None:
    bucket = Bucket(memory)
    journal = opened(bucket, tmp_path / "one")
    journal.append([entry(0)])
    journal.clear()
    assert bucket.sizes(FOLDER) == {}
    journal.append([entry(1, 5)])
    journal.close()
    assert details(tmp_path / "one", 2) == ["", '{"row": 1, "take": 5}']
