"""PromptRows: text side plus codec side, row by row, and many drafts at once are each by itself."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from omnitts_cli.models.embed import FrameEmbedder, TextEmbedder
from omnitts_cli.models.prompts import Draft, PromptRows

HIDDEN, GROUPS, CODES, PAD = 64, 3, 10, 39
REFERENCE = np.array([[1, 2, 3], [4, 5, 6]])
VECTOR = np.linspace(-1, 1, HIDDEN, dtype=np.float32)

NAMED = Draft([1, 2, 3, 4, 5], [10, 11, 12], feed=[6, 7])
WHOLE = Draft([8], [13])
CLONED = Draft(
    [1, 2, 30, 31, 32, 33], [10, 11, 12, 0, 0], speaker_at=1, frames_at=3, embedding=VECTOR, reference=REFERENCE
)


@pytest.fixture
def parts() -> tuple[TextEmbedder, FrameEmbedder, PromptRows]:
    torch.manual_seed(0)
    text = TextEmbedder(40, 48, HIDDEN).requires_grad_(False)
    frames = FrameEmbedder(CODES + 6, GROUPS, CODES, HIDDEN).requires_grad_(False)
    return text, frames, PromptRows(text, frames, PAD, torch.from_numpy)


def by_hand(text: TextEmbedder, frames: FrameEmbedder, draft: Draft) -> Tensor:
    """One row after the other."""
    rows = [text.rows(np.array([index]), torch.from_numpy)[0] for index in draft.text]
    for at, control in enumerate(draft.codec):
        codec = frames.first[control]
        if at == draft.speaker_at:
            codec = torch.from_numpy(draft.embedding)
        elif draft.frames_at is not None and at >= draft.frames_at:
            codec = frames.frame(torch.from_numpy(draft.reference[at - draft.frames_at]))
        rows[len(draft.text) - len(draft.codec) + at] += codec
    return torch.stack(rows)


@pytest.mark.parametrize("drafts", [[NAMED], [WHOLE], [CLONED], [CLONED, NAMED, WHOLE, CLONED, NAMED]], ids=len)
def test_rows_are_those_made_by_hand(
    drafts: list[Draft], parts: tuple[TextEmbedder, FrameEmbedder, PromptRows]
) -> None:
    text, frames, rows = parts
    for _ in range(2):  # the second time every token is known
        prompts = rows.prompts(drafts)
        assert [prompt.draft for prompt in prompts] == drafts
        for draft, prompt in zip(drafts, prompts, strict=True):
            assert torch.equal(prompt.rows, by_hand(text, frames, draft))
            assert torch.equal(prompt.feed, text.rows(np.array(draft.feed, np.int64), torch.from_numpy))
            assert torch.equal(prompt.pad, text.rows(np.array([PAD]), torch.from_numpy)[0])


def test_prompts_do_not_overlap(parts: tuple[TextEmbedder, FrameEmbedder, PromptRows]) -> None:
    *_, rows = parts
    first, second = rows.prompts([NAMED, NAMED])
    kept = second.rows.clone(), second.feed.clone()
    first.rows.zero_()
    first.feed.zero_()
    assert torch.equal(second.rows, kept[0]) and torch.equal(second.feed, kept[1])
