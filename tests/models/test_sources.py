"""Sources: plain values that say where a parameter comes from."""

from __future__ import annotations

from dataclasses import FrozenInstanceError

import pytest
import torch

from omnitts_cli.models.sources import Derived, Join, One, Stack


def test_equal_words_are_equal_sources() -> None:
    assert One("a") == One("a") and Join(("a", "b")) == Join(("a", "b"))
    assert Join(("a", "b")) != Stack(("a", "b")) and len({One("a"), One("a"), Stack(("a",))}) == 2


def test_they_do_not_change() -> None:
    with pytest.raises(FrozenInstanceError):
        One("a").name = "b"  # type: ignore[misc]


def test_derived_computes() -> None:
    source = Derived(("sum", "usage"), lambda total, usage: total / usage[:, None])
    assert source.compute(torch.ones(2, 3), torch.tensor([1.0, 2.0])).tolist() == [[1.0] * 3, [0.5] * 3]
