"""Input rows of the talker: from codes (FrameEmbedder), from text (TextEmbedder, cached by KnownRows), and of whole
prompts. PromptRows makes the rows of many prompts at once: sixteen take a device no longer than one.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Self

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from omnitts_cli.errors import InputError
from omnitts_cli.kernels.ops import Ops, TextParts
from omnitts_cli.models.roles import Draft, Prompt
from omnitts_cli.models.sources import random
from omnitts_cli.request import Request


class FrameEmbedder(nn.Module):
    """The sum of one table per code group. Group 0's table also holds the control ids of prompts."""

    def __init__(self, vocabulary: int, groups: int, codes: int, hidden: int) -> None:
        super().__init__()
        self.first = random(vocabulary, hidden)
        self.rest = random(groups - 1, codes, hidden)

    def control(self, ids: Tensor) -> Tensor:
        """Rows of group 0's table: [...] -> [..., H]."""
        return F.embedding(ids, self.first)

    def group(self, group: int, codes: Tensor) -> Tensor:
        """Rows of one group's table: [...] -> [..., H]."""
        return F.embedding(codes, self.first if group == 0 else self.rest[group - 1])

    def frame(self, codes: Tensor) -> Tensor:
        """[..., G] -> [..., H]; all groups are added in one sum, so bfloat16 rounds once."""
        groups = torch.arange(self.rest.shape[0], device=codes.device) * self.rest.shape[1]
        rest = F.embedding(codes[..., 1:] + groups, self.rest.flatten(0, 1))
        return torch.cat([F.embedding(codes[..., :1], self.first), rest], -2).sum(-2)  # [..., G, H] -> [..., H]


BLOCK = 32
BITS = {1: torch.int8, 2: torch.int16, 4: torch.int32}
Place = Callable[[np.ndarray], Tensor]
"""Copies an array to the device of the model."""


class TextEmbedder(nn.Module):
    """A table and a small MLP: out(silu(inner(table[id]))). A row depends on its id alone.

    The MLP is as wide inside as the table unless `inner` says otherwise. The table may have a type of its own, and an
    accelerator's stays in the memory of the host: the rows of a text are few, and known ones are kept by `KnownRows`.
    """

    def __init__(self, vocabulary: int, width: int, hidden: int, inner: int | None = None) -> None:
        super().__init__()
        self.inner = nn.Linear(width, inner or width)
        self.out = nn.Linear(inner or width, hidden)
        self.table = random(vocabulary, width)
        self.fused: Callable[[Tensor], Tensor] | None = None

    def prepare(self, ops: Ops, head: Tensor) -> None:
        """Make a loaded embedder ready for inference, beside a talker with this head."""
        if ops.fuse_text is not None:
            parts = TextParts(self.inner.weight, self.inner.bias, self.out.weight, self.out.bias)
            self.fused = ops.fuse_text(head, parts)
        self.to_host()

    def to_host(self) -> None:
        """Keep the table in the memory of the host."""
        if not self.table.is_meta:
            self.table.data = self.table.data.cpu()

    def forward(self, ids: Tensor) -> Tensor:
        """[...] -> [..., H]."""
        return self._made(self.table[ids])

    def _made(self, entries: Tensor) -> Tensor:
        """Entries of the table [..., W] -> [..., H]."""
        return self.out(F.silu(self.inner(entries.to(self.inner.weight.dtype))))

    def rows(self, ids: np.ndarray, place: Place) -> Tensor:
        """[N] -> [N, H], always computed in blocks of one size. The rounding of a product depends on its shape; with
        one shape, a token has the same row in every text and in text that arrives word by word.
        """
        if self.fused is not None:  # here a row does not depend on others
            return self.fused(self.table[place(ids)])
        count = ids.shape[0]
        whole = np.pad(ids, (0, -count % BLOCK))
        here = self.table.device == self.inner.weight.device
        entries = self.table[place(whole)] if here else sent(self.table, whole, place)
        return torch.cat([self._made(block) for block in entries.split(BLOCK)])[:count]


def sent(table: Tensor, ids: np.ndarray, place: Place) -> Tensor:
    """Entries of a table in the memory of the host, on the device; as bits, because NumPy has no bfloat16."""
    bits = table.detach().view(BITS[table.element_size()]).numpy()
    return place(bits[ids]).view(table.dtype)


class KnownRows:
    """A cache of text rows in one table on the device, because most tokens of a text have occurred before. The
    embedder's weights must not change.
    """

    def __init__(self, text: TextEmbedder, most: int = 8192) -> None:
        self._text, self._most = text, most
        self._places: dict[int, int] = {}  # of each id in the table
        self._table: Tensor | None = None  # [room, H], grows by doubling up to `most` rows

    def rows(self, ids: Sequence[int], place: Place, also: Sequence[int] = ()) -> tuple[Tensor, Tensor]:
        """[N] -> [N, H], a new tensor; and the numbers of `also` on the device, from the same copy."""
        new = [index for index in dict.fromkeys(ids) if index not in self._places]
        if len(self._places) + len(new) > self._most:  # rare, so start over
            self._places.clear()
            new = list(dict.fromkeys(ids))
        if len(new) > self._most:
            return self._text.rows(np.array(ids, np.int64), place), place(np.array(also, np.int64))
        if new:
            self._learn(new, place)
        sent = place(np.array([*map(self._places.__getitem__, ids), *also], np.int64))
        return self._table[sent[: len(ids)]], sent[len(ids) :]

    @torch.inference_mode(False)  # a CPU's stream is in inference mode, and tensors created in it are read-only outside
    @torch.no_grad()
    def _learn(self, new: list[int], place: Place) -> None:
        rows, begin = self._text.rows(np.array(new, np.int64), place), len(self._places)
        end = begin + len(new)
        if self._table is None or end > len(self._table):
            room = min(self._most, max(end, 2 * begin, 8 * BLOCK))
            table = rows.new_empty(room, rows.shape[1])
            if begin:
                table[:begin] = self._table[:begin]
            self._table = table
        self._table[begin:end] = rows
        self._places.update(zip(new, range(begin, end), strict=True))


class PromptRows:
    """Drafts -> prompts. `pad` is the id whose row is added once a closed feed has run out."""

    def __init__(self, text: TextEmbedder, frames: FrameEmbedder, pad: int, place: Place) -> None:
        self._text, self._frames, self._pad, self._place = text, frames, pad, place
        self._known = KnownRows(text)

    @property
    def pad(self) -> int:
        """The id of the text beside frames whose own text has run out."""
        return self._pad

    @torch.no_grad()
    def text(self, ids: Sequence[int]) -> Tensor:
        """[N] ids -> [N, H], their text rows."""
        return self._known.rows(ids, self._place)[0]

    @torch.no_grad()
    def prompts(self, drafts: Sequence[Draft]) -> list[Prompt]:
        """A prompt for each draft. Their rows are views of one tensor that do not overlap, except `pad`."""
        ids, controls, at, vectors, vectors_at, frames, frames_at = [], [], [], [], [], [], []
        for draft in drafts:
            begin, first = len(ids), len(controls)
            ids += draft.text
            ids += draft.feed
            controls += draft.codec
            at += range(begin + draft.bare, begin + len(draft.text))
            if draft.speaker_at is not None:
                vectors.append(draft.embedding)
                vectors_at.append(first + draft.speaker_at)
            if draft.frames_at is not None:
                frames.append(draft.reference)
                frames_at += range(first + draft.frames_at, first + draft.frames_at + len(draft.reference))
        ids.append(self._pad)
        rows, sent = self._known.rows(ids, self._place, [*controls, *at])
        codecs = self._frames.control(sent[: len(at)])
        if vectors:
            codecs.index_copy_(0, self._place(np.array(vectors_at)), self._place(np.stack(vectors)).to(codecs.dtype))
        if frames:
            rows_of_frames = self._frames.frame(self._place(np.concatenate(frames)))
            codecs.index_copy_(0, self._place(np.array(frames_at)), rows_of_frames)
        rows.index_add_(0, sent[len(at) :], codecs)
        return list(self._cut(rows, drafts))

    @torch.no_grad()
    def last_row(self, draft: Draft, text_row: Tensor) -> Tensor:
        """[H], the last row of a draft whose last token became known later; `text_row` [H] is the row of that token."""
        return text_row + self._frames.control(self._place(np.array(draft.codec[-1:], np.int64)))[0]

    def _cut(self, rows: Tensor, drafts: Sequence[Draft]) -> Iterator[Prompt]:
        begin, pad, nothing = 0, rows[-1], rows[:0]
        for draft in drafts:
            middle = begin + len(draft.text)
            end = middle + len(draft.feed)
            if draft.turns is not None and draft.turns.rows is not None:
                where = self._place(np.array(draft.turns.places, np.int64) + begin)
                rows.index_copy_(0, where, draft.turns.rows)
            yield Prompt(draft, rows[begin:middle], rows[middle:end] if draft.feed else nothing, pad)
            begin = end


def refuse_too_long(draft: Draft, most: int) -> None:
    """Raise InputError if a prompt leaves no room for speech in the model's `most` positions."""
    rows, what, hint = len(draft.text) + len(draft.feed), "the text needs", "split the text"
    if draft.reference is not None:
        what, hint = "text and reference need", f"{hint}, or use a shorter reference clip"
    if rows >= most:
        raise InputError(f"{what} {rows} positions; the model has {most}, and speech needs some of them", hint=hint)


class Drafter(PromptRows, ABC):
    """A prompter that writes drafts; the base class computes their rows."""

    @abstractmethod
    def draft(self, request: Request) -> Draft:
        """The draft of a request whose text is complete."""

    def fresh(self) -> Self:
        """A copy with its own row cache. Cached rows belong to the stream that made them: one copy per engine."""
        made = copy.copy(self)
        made._known = KnownRows(self._text)
        return made

    def prompt(self, request: Request) -> Prompt:
        """The prompt of one request."""
        return self.prompts([self.draft(request)])[0]
