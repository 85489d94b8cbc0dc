"""The number of threads that suits the host."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from omnitts_cli.devices.cpu import omp_threads, physical_cores, quota


@pytest.mark.parametrize(("value", "threads"), [("3", 3), ("0", None), ("4,2", None), ("", None), ("-1", None)])
def test_omp_num_threads_is_respected(monkeypatch: pytest.MonkeyPatch, value: str, threads: int | None) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", value)
    assert omp_threads() == threads


@pytest.mark.parametrize(
    ("text", "cores"), [("150000 100000", 2), ("20000 100000", 1), ("max 100000", sys.maxsize), ("", sys.maxsize)]
)
def test_a_containers_share_of_the_cores(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str, cores: int
) -> None:
    monkeypatch.setattr("omnitts_cli.devices.cpu.CONTAINER", tmp_path / "cpu.max")
    assert quota() == sys.maxsize
    (tmp_path / "cpu.max").write_text(text)
    assert quota() == cores
    assert physical_cores() <= cores
