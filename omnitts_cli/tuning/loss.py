"""The loss on recordings. The rows of an example are those of generation: the prompt of its text, then its frames.

Position p predicts what stands at p + 1. The codes 1.. of a frame are predicted from the same hidden state as its
code 0, that of the position before the frame. Losses are sums, to be divided by the counts of a whole step: the mean of
the means of unequal parts would weigh short clips more.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from omnitts_cli.errors import InputError
from omnitts_cli.families.common.parts import Language
from omnitts_cli.models.prompts import Draft

REST_WEIGHT = 0.3  # of the predictor's loss
NOTHING = -100  # a position without a label
SHIFTS = (0, 1, 2)


@dataclass(frozen=True, eq=False)
class SpokenText:
    """A text as the prompt of a request, and the frames that speak it."""

    draft: Draft
    codes: np.ndarray  # [T, G] int64
    speaker: int = 0  # among several

    @property
    def start(self) -> int:
        """The position of the first frame."""
        return len(self.draft.text)

    @property
    def length(self) -> int:
        """Positions that are read. The end code is only a label."""
        return self.start + len(self.codes)


@dataclass(frozen=True)
class BatchShape:
    """The sizes of a batch that are fixed where steps are captured: all batches of a shape have tensors of one size."""

    examples: int
    length: int
    known: int  # the different text ids fill a multiple of this
    chosen: int  # frames whose codes 1.. are predicted


@dataclass(frozen=True, eq=False)
class PaddedBatch:
    """Several examples, padded on the right. Places count through all positions [B * L]; one more takes what is added
    only to fill a shape."""

    known: Tensor  # [U] the different text ids
    text: Tensor  # [B * L + 1] indices of `known`
    controls: Tensor  # [N] ids, and their places
    controls_at: Tensor
    codes: Tensor  # [M, G] all frames, and their places
    frames_at: Tensor
    vectors: Tensor  # [S, H] of the speakers, their numbers, and their places
    speakers: Tensor
    vectors_at: Tensor
    labels: Tensor  # [B, L] of group 0
    chosen: Tensor  # [P] indices of the frames whose codes 1.. are predicted; -1: none

    @property
    def count(self) -> int:
        """Labels of group 0: the frames and the ends."""
        return int((self.labels != NOTHING).sum())

    @staticmethod
    def of(
        examples: Sequence[SpokenText], pad: int, end: int, chosen: np.ndarray | None = None,
        shape: BatchShape | None = None,
    ) -> "PaddedBatch":  # fmt: skip
        """`pad`: the text id beside frames whose text has run out. `end`: the code that ends the speech. `chosen`: all
        frames, if it is left out."""
        longest = max(one.length for one in examples) if shape is None else shape.length
        rows = len(examples) if shape is None else shape.examples
        text = np.full((rows, longest), pad, np.int64)
        labels = np.full((rows, longest), NOTHING, np.int64)
        controls, controls_at, frames_at, vectors, vectors_at, who = [], [], [], [], [], []
        for number, one in enumerate(examples):
            draft, begin = one.draft, number * longest
            text[number, : one.start] = draft.text
            feed = draft.feed[: len(one.codes)]
            text[number, one.start : one.start + len(feed)] = feed
            labels[number, one.start - 1 : one.length] = [*one.codes[:, 0], end]
            if draft.speaker_at is not None:
                vectors.append(draft.embedding)
                who.append(one.speaker)
                vectors_at.append(begin + draft.bare + draft.speaker_at)
            places = [(begin + draft.bare + at, code) for at, code in enumerate(draft.codec) if at != draft.speaker_at]
            controls_at += [at for at, _ in places]
            controls += [code for _, code in places]
            frames_at += range(begin + one.start, begin + one.length)
        known, which = np.unique(text, return_inverse=True)
        codes = np.concatenate([one.codes for one in examples])
        speakers = np.stack(vectors) if vectors else np.zeros((0, 0), np.float32)
        chosen = np.arange(len(codes)) if chosen is None else chosen
        nowhere = rows * longest

        def filled(values: Sequence[int] | np.ndarray, size: int | None, by: int) -> Tensor:
            array = np.asarray(values, np.int64)
            more = 0 if size is None else size - len(array)
            return torch.from_numpy(np.pad(array, [(0, more), *[(0, 0)] * (array.ndim - 1)], constant_values=by))

        most = None if shape is None else nowhere
        return PaddedBatch(
            filled(known, shape and -(-len(known) // shape.known) * shape.known, pad),
            filled(which.flatten(), nowhere + 1, 0),
            filled(controls, most, 0), filled(controls_at, most, nowhere),
            filled(codes, most, 0), filled(frames_at, most, nowhere),
            torch.from_numpy(np.pad(speakers, [(0, rows - len(speakers)), (0, 0)]) if shape else speakers),
            filled(who, shape and rows, 0), filled(vectors_at, shape and rows, nowhere), torch.from_numpy(labels),
            filled(chosen, shape and shape.chosen, -1),
        )  # fmt: skip

    def on(self, place: Callable[[np.ndarray], Tensor]) -> "PaddedBatch":
        """The same on a device."""
        return PaddedBatch(*(place(getattr(self, one.name).numpy()) for one in fields(self)))


def rows_of(language: Language, batch: PaddedBatch, vectors: Tensor | None = None) -> Tensor:
    """Input rows [B, L, H]. `vectors` [K, H], by the number of the speaker, take the place of the speakers' own."""
    kind = language.embedder.first.dtype
    rows = F.embedding(batch.text, language.text(batch.known).to(kind))
    rows = rows.index_add(0, batch.controls_at, language.embedder.control(batch.controls))
    rows = rows.index_add(0, batch.frames_at, language.embedder.frame(batch.codes).to(kind))
    if len(batch.vectors_at):
        own = batch.vectors if vectors is None else vectors[batch.speakers]
        rows = rows.index_add(0, batch.vectors_at, own.to(kind))
    return rows[:-1].unflatten(0, batch.labels.shape)


@dataclass(frozen=True, eq=False)
class LossSums:
    """Sums over a batch, and what they were computed from."""

    first: Tensor  # of group 0, over `batch.count` labels
    rest: Tensor  # [G - 1] of the other groups, over `predicted` frames
    right: Tensor  # labels of group 0 that were the likeliest
    predicted: int
    hidden: Tensor  # [B, L, H]
    logits: Tensor  # [B, L, V] float32


def losses(language: Language, batch: PaddedBatch, vectors: Tensor | None = None) -> LossSums:
    """The losses of a batch; of groups 1.. on its chosen frames."""
    talker: nn.Module = language.talker
    hidden = talker(rows_of(language, batch, vectors))
    logits = talker.logits(hidden).float()
    labels = batch.labels.flatten()
    first = F.cross_entropy(logits.flatten(0, 1), labels, ignore_index=NOTHING, reduction="sum")
    right = (logits.detach().argmax(-1).flatten() == labels).sum()
    chosen = batch.chosen.clamp(min=0)
    codes, before = batch.codes[chosen], batch.frames_at[chosen] - 1
    wanted = torch.where(batch.chosen[:, None] < 0, NOTHING, codes[:, 1:])
    scores = language.predictor(hidden.flatten(0, 1)[before], codes, language.embedder).float()
    each = F.cross_entropy(scores.flatten(0, 1), wanted.flatten(), ignore_index=NOTHING, reduction="none")
    return LossSums(first, each.view(wanted.shape).sum(0), right, len(codes), hidden, logits)


@torch.no_grad()
def first_of_each(language: Language, batch: PaddedBatch, vectors: Tensor) -> Tensor:
    """The loss of group 0 of each example [B], summed over its frames."""
    logits = language.talker.logits(language.talker(rows_of(language, batch, vectors))).float()
    each = F.cross_entropy(logits.transpose(1, 2), batch.labels, ignore_index=NOTHING, reduction="none")
    return each.sum(1)


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
