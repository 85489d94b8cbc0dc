"""The check pass: a plan that is used again, rows that are found again by their place, and names that meet."""

import json
import os
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from omnitts_cli.errors import InputError
from omnitts_cli.fleet import plan as plans
from omnitts_cli.fleet.content import Keys
from omnitts_cli.fleet.manifest import open_manifest
from omnitts_cli.fleet.plan import BAD, CAPITALS, Naming, RowPlan, plan_of
from omnitts_cli.fleet.rows import RowRules
from omnitts_cli.settings.table import Speech, TextIn
from omnitts_cli.speech.speaking import estimated_s


def planned(name: str, *, seed: int = 1, kind: str | None = None, **rules: Any) -> RowPlan:
    work = Path("work")
    work.mkdir(exist_ok=True)
    manifest = open_manifest(name, kind, work, None, False)
    found = RowRules(base=manifest.base, typed=manifest.typed, by_line=manifest.by_line, name=name, **rules)
    keys = Keys(TextIn(), Speech(), {"format": "flac"}, seed)
    return plan_of(manifest, found, keys, Naming(".flac"), work)


def written(rows: list[dict[str, Any]], name: str = "m.jsonl") -> str:
    Path(name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    return name


def test_rows_are_found_again(home: Path) -> None:
    rows = [{"id": f"r{n}", "text": f"Text {n} é\n" * (n % 3 + 1), "tags": {"n": n}} for n in range(50)]
    plan = planned(written(rows))
    for index in (0, 49, 17):
        row = plan.row(index)
        assert (row.id, row.tags) == (f"r{index}", {"n": index})
        key, _ = plan.keys.of(row)
        assert (np.frombuffer(key, "<u8") == plan.rows["key"][index]).all()
    assert plan.count == 50 and plan.bad == 0


def test_quoted_fields_over_several_lines_are_found_again(home: Path) -> None:
    Path("m.csv").write_text(
        'id,text,tags\r\na,"one\r\ntwo, ""three""",\r\n\r\nb,four,"{""x"": 1}"\r\n"c","é",\r\n', "utf-8"
    )
    plan = planned("m.csv")
    assert [plan.row(n).text for n in range(3)] == ['one\ntwo, "three"', "four", "é"]
    assert plan.row(1).tags == {"x": 1} and plan.rows["line"].tolist() == [2, 5, 6]


@pytest.mark.parametrize("suffix", [".csv", ".tsv"])
@pytest.mark.parametrize("quote", ["", '"'])
def test_a_text_with_other_separators_of_lines_is_whole(home: Path, suffix: str, quote: str) -> None:
    comma = {".csv": ",", ".tsv": "\t"}[suffix]
    texts = [f"One.{mark}Two." for mark in "\u2028\u2029\x85\x0b\x0c\x1c\x1d\x1e"]
    rows = [f"r{n}{comma}{quote}{text}{quote}\n" for n, text in enumerate(texts)]
    Path(f"m{suffix}").write_bytes("".join([f"id{comma}text\n", *rows]).encode())
    source = open_manifest(f"m{suffix}", None, Path(), None, False).source
    raws = list(source.rows())
    assert [raw.values for raw in raws] == [{"id": f"r{n}", "text": text} for n, text in enumerate(texts)]
    assert [source.read(raw.offset, raw.length) for raw in raws] == [raw.values for raw in raws]


@pytest.mark.parametrize("line", ['a,"open', "a,x,y", '"a"b,x'])
def test_a_broken_row_of_a_table_does_not_take_others_along(home: Path, line: str) -> None:
    Path("m.csv").write_text(f"id,text\nfirst,One.\n{line}\n")
    plan = planned("m.csv")
    assert plan.row(0).text == "One." and plan.bad >= 1


def test_a_plan_is_made_again_only_if_something_changed(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("a.voice").write_bytes(b"one")
    rows = [{"id": "x", "text": "Hello.", "voice": "a.voice"}, {"id": "y", "text": "Hello."}]
    made: list[str] = []
    write = plans.ManifestCheck.write
    monkeypatch.setattr(plans.ManifestCheck, "write", lambda self: (made.append("made"), write(self))[1])
    first = planned(written(rows))
    again = planned("m.jsonl")
    assert made == ["made"] and (first.rows == again.rows).all()
    Path("a.voice").write_bytes(b"two")
    changed = planned("m.jsonl")
    assert (changed.rows["key"] == first.rows["key"]).all(1).tolist() == [False, True]
    planned("m.jsonl", seed=2)
    planned(written([*rows, {"id": "z", "text": "More."}]))
    assert len(made) == 4 and len(list(Path("work").glob("plan-*.bin"))) == 1


def test_the_key_is_of_the_content(home: Path) -> None:
    same = {"text": "Hello."}
    rows = [
        {"id": "a", **same}, {"id": "b", **same}, {"id": "c", "text": "Hello"}, {"id": "d", **same, "speed": 1.2},
        {"id": "e", **same, "style": "soft"}, {"id": "f", **same, "language": "en"}, {"id": "g", **same, "seed": 3},
        {"id": "h", **same, "max_frames": 9}, {"id": "i", **same, "voice": "ann"},
        {"id": "j", **same, "tags": {"x": 1}},
        {"id": "k", **same, "description": "deep"}, {"id": "l", **same, "format": "md"},
    ]  # fmt: skip
    keys = [tuple(key) for key in planned(written(rows)).rows["key"].tolist()]
    assert keys[0] == keys[1] == keys[9] and len(set(keys)) == len(rows) - 2


def test_expected_seconds_and_unknown_fields(home: Path) -> None:
    rows = [{"text": "The kettle is on."}, {"text": "The kettle is on.", "speed": 2}, {"text": "水壶"}]
    expected, kettle = planned(written(rows)).rows["expected"], estimated_s("The kettle is on.")
    np.testing.assert_allclose(expected, [kettle, kettle / 2, estimated_s("水壶")], rtol=1e-6)
    with pytest.raises(InputError, match="line 3: unknown field 'texte'") as raised:
        planned(written([{"text": "a"}, {"text": "b"}, {"texte": "c"}]))
    assert raised.value.where == ("m.jsonl", 3) and "'text'" in str(raised.value.hint)


def test_names_that_meet(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("omnitts_cli.fleet.names.folder_of", lambda id: "00")
    ids = ["a", "A", "b", "a", "B", "A", "c"]
    plan = planned(written([{"id": id, "text": f"Row {n}."} for n, id in enumerate(ids)]))
    assert plan.rows["state"].tolist() == [0, CAPITALS, 0, BAD, CAPITALS, BAD | 0, 0]
    assert [plan.output(n, ids[n]) for n in (0, 1, 4)] == ["00/a.flac", "00/%41.flac", "00/%42.flac"]
    bad = {row["row"]: row["message"] for row in plan.bad_rows()}
    assert bad[4] == "the id 'a' is already in line 1" and bad[6] == "the id 'A' is already in line 2"


def test_a_row_of_one_model_too_many_is_bad(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plans, "MOST_MODELS", 1)
    rows = [{"id": id, "text": "Hi.", "model": model} for id, model in (("a", "x"), ("b", "y"), ("c", "x"), ("c", "x"))]
    plan = planned(written(rows))
    assert plan.rows["state"].tolist() == [0, BAD, 0, BAD]
    bad = {row["id"]: row["message"] for row in plan.bad_rows()}
    assert bad == {"b": "more than 1 models in one manifest", "c": "the id 'c' is already in line 3"}


def checked(rows: int) -> tuple[list[int], RowPlan]:
    """How many functions a first and a second plan of so many rows call."""
    with Path("m.jsonl").open("w") as file:
        for number in range(rows):
            file.write(
                json.dumps({"id": f"utterance-{number:07}", "text": f"The text of row {number}, as it is."}) + "\n"
            )
    calls: list[int] = []

    def count(*event: object) -> None:
        calls[-1] += 1

    for _ in range(2):
        calls.append(0)
        sys.setprofile(count)
        try:
            plan = planned("m.jsonl")
        finally:
            sys.setprofile(None)
    return calls, plan


def test_many_rows(home: Path) -> None:
    (first, again), plan = checked(20_000)
    assert plan.count == 20_000 and again < first / 2
    tracemalloc.start()
    plan = planned("m.jsonl")
    kept = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert plan.count == 20_000 and kept < 10e6


def memory() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_million_rows(home: Path) -> None:
    before = memory()
    _, plan = checked(1_000_000)
    assert plan.count == 1_000_000 and memory() - before < 200
    assert plan.row(999_999).text == "The text of row 999999, as it is."


DAMAGES = {
    "empty": lambda data: b"",
    "half": lambda data: data[: len(data) // 2],
    "head of zeros": lambda data: bytes(100) + data[100:],
    "zeros": lambda data: bytes(len(data)),
    "a row": lambda data: data[:-5] + bytes([data[-5] ^ 1]) + data[-4:],
    "longer": lambda data: data + b"x",
    "deep": lambda data: b"[" * 60_000,
    "a number of rows": lambda data: data.replace(b'"rows": 20', b'"rows": 19', 1),
    "no text": lambda data: b"\xff\xfe" + data[2:],
}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("what", ["bin", "bad", "voices"])
def test_a_damaged_plan_is_made_again(home: Path, damage: str, what: str) -> None:
    rows: list[dict[str, Any]] = [{"id": f"r{n}", "text": f"Text {n}."} for n in range(18)]
    name = written([*rows, {"id": "r1", "text": "twice"}, {"id": 7}])
    before = planned(name)
    known, bad = before.rows.tobytes(), list(before.bad_rows())
    path = before.path if what == "bin" else plans.beside(before.path, what)
    del before
    data = path.read_bytes()
    path.write_bytes(DAMAGES[damage](data) if data else b"[")
    again = planned(name)
    assert again.rows.tobytes() == known and list(again.bad_rows()) == bad and again.count == 20


def test_parquet_with_text_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    import pyarrow
    from pyarrow.parquet import write_table

    texts = pyarrow.array([b"Hello.", b"\xcb\xff"], pyarrow.binary()).view(pyarrow.string())
    write_table(pyarrow.table({"text": texts}), tmp_path / "rows.parquet")
    with pytest.raises(InputError) as raised:
        open_manifest(str(tmp_path / "rows.parquet"), None, tmp_path, None, True)
    assert raised.value.message
