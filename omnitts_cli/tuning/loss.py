"""The loss on recordings. The rows of an example are those of generation: the prompt of its text, then its frames.

Position p predicts what stands at p + 1. The codes 1.. of a frame are predicted from the same hidden state as its
code 0, that of the position before the frame. Losses are sums, to be divided by the counts of a whole step: the mean of
the means of unequal parts would weigh short clips more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from omnitts_cli.errors import InputError
from omnitts_cli.families.common.parts import Language
from omnitts_cli.models.roles import Draft

REST_WEIGHT = 0.3  # of the predictor's loss
NOTHING = -100  # a position without a label
SHIFTS = (0, 1, 2)


@dataclass(frozen=True, eq=False)
class SpokenText:
    """A text as the prompt of a request, and the frames that speak it."""

    draft: Draft
    codes: np.ndarray  # [T, G] int64

    @property
    def start(self) -> int:
        """The position of the first frame."""
        return len(self.draft.text)

    @property
    def length(self) -> int:
        """Positions that are read. The end code is only a label."""
        return self.start + len(self.codes)


@dataclass(frozen=True, eq=False)
class PaddedBatch:
    """Several examples, padded on the right. Places count through all positions [B * L]."""

    text: Tensor  # [B, L] ids
    controls: Tensor  # [N] ids, and their places
    controls_at: Tensor
    codes: Tensor  # [M, G] all frames, and their places
    frames_at: Tensor
    vectors: Tensor  # [S, H] of the speakers, and their places
    vectors_at: Tensor
    labels: Tensor  # [B, L] of group 0

    @property
    def count(self) -> int:
        """Labels of group 0: the frames and the ends."""
        return int((self.labels != NOTHING).sum())

    @staticmethod
    def of(examples: Sequence[SpokenText], pad: int, end: int, device: torch.device | str = "cpu") -> PaddedBatch:
        """`pad`: the text id beside frames whose text has run out. `end`: the code that ends the speech."""
        longest = max(one.length for one in examples)
        text = np.full((len(examples), longest), pad, np.int64)
        labels = np.full((len(examples), longest), NOTHING, np.int64)
        controls, controls_at, frames_at, vectors, vectors_at = [], [], [], [], []
        for number, one in enumerate(examples):
            draft, begin = one.draft, number * longest
            text[number, : one.start] = draft.text
            feed = draft.feed[: len(one.codes)]
            text[number, one.start : one.start + len(feed)] = feed
            labels[number, one.start - 1 : one.length] = [*one.codes[:, 0], end]
            if draft.speaker_at is not None:
                vectors.append(draft.embedding)
                vectors_at.append(begin + draft.bare + draft.speaker_at)
            places = [(begin + draft.bare + at, code) for at, code in enumerate(draft.codec) if at != draft.speaker_at]
            controls_at += [at for at, _ in places]
            controls += [code for _, code in places]
            frames_at += range(begin + one.start, begin + one.length)

        def ids(values: Sequence[int] | np.ndarray) -> Tensor:
            return torch.as_tensor(np.asarray(values, np.int64), device=device)

        known = np.stack(vectors) if vectors else np.zeros((0, 0), np.float32)
        return PaddedBatch(
            ids(text), ids(controls), ids(controls_at), ids(np.concatenate([one.codes for one in examples])),
            ids(frames_at), torch.as_tensor(known, device=device), ids(vectors_at), ids(labels),
        )  # fmt: skip


def rows_of(language: Language, batch: PaddedBatch, vector: Tensor | None = None) -> Tensor:
    """Input rows [B, L, H]. `vector` [H] takes the place of the speakers' own."""
    shape = batch.text.shape
    known, which = batch.text.flatten().unique(return_inverse=True)
    rows = F.embedding(which, language.text(known))
    rows = rows.index_add(0, batch.controls_at, language.embedder.control(batch.controls))
    rows = rows.index_add(0, batch.frames_at, language.embedder.frame(batch.codes))
    if len(batch.vectors_at):
        vectors = batch.vectors if vector is None else vector.expand(len(batch.vectors_at), -1)
        rows = rows.index_add(0, batch.vectors_at, vectors.to(rows.dtype))
    return rows.unflatten(0, shape)


@dataclass(frozen=True, eq=False)
class LossSums:
    """Sums over a batch, and what they were computed from."""

    first: Tensor  # of group 0, over `batch.count` labels
    rest: Tensor  # [G - 1] of the other groups, over `predicted` frames
    right: Tensor  # labels of group 0 that were the likeliest
    predicted: int
    hidden: Tensor  # [B, L, H]
    logits: Tensor  # [B, L, V] float32


def losses(
    language: Language, batch: PaddedBatch, vector: Tensor | None = None, chosen: Tensor | None = None
) -> LossSums:
    """`chosen`: indices of the frames whose codes 1.. are predicted; all, if it is left out."""
    talker: nn.Module = language.talker
    hidden = talker(rows_of(language, batch, vector))
    logits = talker.logits(hidden).float()
    labels = batch.labels.flatten()
    first = F.cross_entropy(logits.flatten(0, 1), labels, ignore_index=NOTHING, reduction="sum")
    right = (logits.detach().argmax(-1).flatten() == labels).sum()
    codes, before = batch.codes, batch.frames_at - 1
    if chosen is not None:
        codes, before = codes[chosen], before[chosen]
    scores = language.predictor(hidden.flatten(0, 1)[before], codes, language.embedder).float()
    each = F.cross_entropy(scores.flatten(0, 1), codes[:, 1:].flatten(), reduction="none")
    return LossSums(first, each.view(len(codes), -1).sum(0), right, len(codes), hidden, logits)


@torch.no_grad()
def shifted_losses(language: Language, batch: PaddedBatch) -> list[float]:
    """The mean loss of group 0 if the labels were those of the position itself, of the next one, of the one after it.

    The next one is right.
    """
    logits = language.talker.logits(language.talker(rows_of(language, batch))).float()
    found = []
    for shift in SHIFTS:
        labels = torch.full_like(batch.labels, NOTHING)
        by, length = shift - 1, labels.shape[1]
        labels[:, max(0, -by) : length - max(0, by)] = batch.labels[:, max(0, by) : length - max(0, -by)]
        found.append(float(F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=NOTHING)))
    return found


def refuse_misfits(language: Language, batch: PaddedBatch) -> None:
    """Raises InputError unless the codes of a batch fit the model: then the right place of the labels has the smallest
    loss."""
    found = shifted_losses(language, batch)
    if not min(found) == found[1]:
        what = ", ".join(f"{loss:.2f}" for loss in found)
        raise InputError(
            "the recordings do not fit the model: it predicts their codes no better than those of other frames",
            cause=f"loss for the frame itself, the next and the one after it: {what}; the second must be the smallest",
            hint="are the transcripts those of the recordings?",
        )
