"""Embedders: a text row depends on its token alone, to the last bit; a frame's row is the sum of its groups'."""

import numpy as np
import pytest
import torch
from tiny_models import language
from torch import Tensor

from omnitts_cli.models.embed import TextEmbedder, sent
from omnitts_cli.models.prompts import BLOCK, KnownRows


def embedder() -> TextEmbedder:
    torch.manual_seed(0)
    return TextEmbedder(300, 48, 64).requires_grad_(False)


def made(text: TextEmbedder, ids: Tensor) -> Tensor:
    return text.rows(ids.numpy(), torch.from_numpy)


def test_a_row_is_the_same_alone_and_in_any_batch() -> None:
    text = embedder()
    together = made(text, torch.arange(100))
    for count in (1, 2, BLOCK - 1, BLOCK, BLOCK + 1):
        ids = torch.randperm(100, generator=torch.Generator().manual_seed(count))[:count]
        assert torch.equal(made(text, ids), together[ids])


@torch.no_grad()
def test_a_frame_is_the_sum_of_its_groups() -> None:
    frames = language("base").embedder
    codes = torch.randint(0, 64, (2, 5, 16), generator=torch.Generator().manual_seed(0))
    rows = sum(frames.group(group, codes[..., group]) for group in range(16))
    torch.testing.assert_close(frames.frame(codes), rows)
    assert torch.equal(frames.group(0, codes[..., 0]), frames.control(codes[..., 0]))


def test_no_ids_no_rows() -> None:
    assert made(embedder(), torch.zeros(0, dtype=torch.int64)).shape == (0, 64)


def test_training_sees_any_shape_and_has_gradients() -> None:
    torch.manual_seed(0)
    text = TextEmbedder(30, 8, 12)
    text(torch.zeros(2, 5, dtype=torch.int64)).sum().backward()
    assert text.table.grad[0].abs().sum() > 0 and text.table.grad[1].abs().sum() == 0


@pytest.mark.parametrize("most", [8192, 50, 8])
def test_known_rows_are_those_that_were_made(most: int) -> None:
    """Met before or not, with room for all, after beginning anew, or where one text has more than there is room for."""
    text, drawn = embedder(), torch.Generator().manual_seed(0)
    known, truth = KnownRows(text, most), made(text, torch.arange(300))
    for count in (1, 20, 0, 40, 49, 12, 300):
        ids = torch.randint(0, 300, (count,), generator=drawn).tolist()
        rows, also = known.rows(ids, torch.from_numpy, ids[:3])
        assert torch.equal(rows, truth[ids]) and also.tolist() == ids[:3]
        assert len(known._places) <= most


def test_what_is_known_is_not_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    text, asked = embedder(), []
    monkeypatch.setattr(text, "rows", lambda ids, place, rows=text.rows: asked.append(ids.tolist()) or rows(ids, place))
    known = KnownRows(text)
    for ids in ([3, 5, 3], [5, 3], [9, 5]):
        known.rows(ids, torch.from_numpy)
    assert asked == [[3, 5], [9]]


def test_cached_rows_belong_to_one_prompter() -> None:
    known = KnownRows(embedder())
    known.rows([1, 2], torch.from_numpy)[0].zero_()
    assert known.rows([1], torch.from_numpy)[0].any()
    with torch.inference_mode():  # what was made there may still be written to later
        known.rows([4], torch.from_numpy)
    known.rows([5], torch.from_numpy)[0].zero_()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_entries_sent_from_the_host_have_the_same_bits(dtype: torch.dtype) -> None:
    table, places = torch.randn(20, 6).to(dtype), []
    found = sent(table, np.array([3, 0, 19, 3]), lambda bits: places.append(bits) or torch.from_numpy(bits))
    assert torch.equal(found, table[[3, 0, 19, 3]])
    assert places[0].nbytes == 4 * 6 * dtype.itemsize  # these entries only
