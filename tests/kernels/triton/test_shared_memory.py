"""Pipelines have as many stages as fit in the shared memory, and at least one."""

import pytest

pytest.importorskip("triton")


def test_stages_in(monkeypatch: pytest.MonkeyPatch) -> None:
    from omnitts_cli.kernels.triton import shared_memory

    monkeypatch.setattr(shared_memory, "shared_bytes", lambda: 99 << 10)
    assert [shared_memory.stages_in(size << 10, 4) for size in (10, 24, 25, 40, 97, 200)] == [4, 4, 3, 2, 1, 1]
