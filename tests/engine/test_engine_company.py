"""benchmarks/company.py in miniature: equal requests are found equal, and one changed sample is found."""

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

import pytest
import tables
import warm

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
MINIATURE = "-m random:toy -d cpu -t 1 --dtype fp32 --exact -n 10 --short 2,4 --long 9,12 --no-keep".split()


@pytest.fixture
def company(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    spec = importlib.util.spec_from_file_location("company_script", BENCHMARKS / "company.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_one_changed_sample_is_found(company: Any) -> None:
    alone = {str(index): (bytes([index, 1]), bytes([index, 2, 3])) for index in range(12)}
    assert company.differing(alone, alone) == {"codes_differ": 0, "samples_differ": 0, "which": []}
    found = alone | {"10": (alone["10"][0], b"\x0a\x02\x04"), "2": (b"\x02\x00", alone["2"][1])}
    assert company.differing(alone, found) == {"codes_differ": 1, "samples_differ": 1, "which": ["2", "10"]}
    before, after = company.hashes(alone), company.hashes(found)
    assert all(before[key] != after[key] for key in ("codes_sha256", "samples_sha256"))


@pytest.mark.skipif(tables.native() is None, reason="the library of the CPU was not compiled")
def test_the_same_alone_in_a_batch_and_in_another_process(
    company: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The other process has other slots and other chunks; a row with another hash is found."""

    def run(*more: str) -> tuple[int | str | None, list[dict[str, Any]]]:
        monkeypatch.setattr(sys, "argv", ["company.py", *MINIATURE, *more])
        with pytest.raises(SystemExit) as ended:
            company.main()
        return ended.value.code, [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    code, rows = run("--levels", "2,5", "--passes", "1")
    assert code == 0
    assert [row["level"] for row in rows] == [1, 2, 5]
    assert [(row["codes_differ"], row["samples_differ"]) for row in rows[1:]] == [(0, 0), (0, 0)]
    assert rows[0]["kinds"] == ["cloned", "designed", "named"] and rows[0]["n"] == 10
    (kept := tmp_path / "company.jsonl").write_text(json.dumps(rows[0]) + "\n")
    other = "--levels", "3", "--passes", "0", "--chunk", "4", "--against", str(kept)
    command = [sys.executable, str(BENCHMARKS / "company.py"), *MINIATURE, *other]
    again = json.loads(warm.run(command, capture_output=True, text=True).stdout)
    assert again["codes_sha256_as_before"] and again["samples_sha256_as_before"]
    kept.write_text(json.dumps(rows[0] | {"samples_sha256": "0"}) + "\n")
    code, (row,) = run(*other)
    assert (code, row["codes_sha256_as_before"], row["samples_sha256_as_before"]) == (1, True, False)
