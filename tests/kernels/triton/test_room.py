"""Pipelines are as deep as the card's shared memory allows, and never gone."""

from __future__ import annotations

import pytest

pytest.importorskip("triton")


def test_stages_in(monkeypatch: pytest.MonkeyPatch) -> None:
    from omnitts_cli.kernels.triton import room

    monkeypatch.setattr(room, "shared_bytes", lambda: 99 << 10)
    assert [room.stages_in(size << 10, 4) for size in (10, 24, 25, 40, 97, 200)] == [4, 4, 3, 2, 1, 1]
