"""The row that the talker reads after a frame: the sum of one row of each group, and the text beside it."""

from __future__ import annotations

import pytest
import torch
from golden_set import case
from tiny_models import language


@torch.no_grad()
@pytest.mark.parametrize(
    "name",
    [
        "custom_voice/english_nonstream", "base/icl_stream_text_longer", "base/xvector_stream",
        "custom_voice/short_stream",
    ],
)  # fmt: skip
def test_inputs_of_the_official_steps(name: str) -> None:
    """Frame k comes with text row k, and with pad once the text has run out."""
    tensors, embedder = case(name).tensors, language(name.split("/")[0]).embedder
    frames, wanted = tensors["talker.frames"][0], tensors["talker.step_input"][0]
    text, pad = tensors["prefill.trailing_text_hidden"][0], tensors["prefill.tts_pad_embed"][0]
    beside = torch.cat([text, pad.expand(max(0, len(wanted) - len(text)), -1)])[: len(wanted)]
    torch.testing.assert_close(embedder.frame(frames[: len(wanted)]) + beside, wanted, rtol=1e-5, atol=1e-5)


@torch.no_grad()
def test_a_frame_is_the_sum_of_its_groups() -> None:
    embedder = language("base").embedder
    codes = torch.randint(0, 64, (2, 5, 16), generator=torch.Generator().manual_seed(0))
    rows = sum(embedder.group(group, codes[..., group]) for group in range(16))
    torch.testing.assert_close(embedder.frame(codes), rows)
    assert torch.equal(embedder.group(0, codes[..., 0]), embedder.first[codes[..., 0]])
    assert torch.equal(embedder.group(7, codes[..., 7]), embedder.rest[6][codes[..., 7]])


@torch.no_grad()
def test_control_rows_are_those_of_group_0() -> None:
    embedder = language("base").embedder
    last = embedder.first.shape[0] - 1
    assert torch.equal(embedder.control(torch.tensor([0, last])), embedder.first[[0, last]])
