"""PromptRows: drafts -> prompts, many at once: the rows of sixteen prompts take a device as long as those of one."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Self

import numpy as np
import torch
from torch import Tensor

from omnitts_cli.errors import InputError
from omnitts_cli.models.embed import FrameEmbedder
from omnitts_cli.models.roles import Draft, Prompt
from omnitts_cli.models.text_rows import KnownRows, TextEmbedder
from omnitts_cli.request import Request

Place = Callable[[np.ndarray], Tensor]
"""Puts an array where the model is."""


class PromptRows:
    """Drafts -> prompts. `pad` is the id whose row is added once a closed feed has run out."""

    def __init__(self, text: TextEmbedder, frames: FrameEmbedder, pad: int, place: Place) -> None:
        self._text, self._frames, self._pad, self._place = text, frames, pad, place
        self._known = KnownRows(text)

    def fresh(self) -> PromptRows:
        """The same with an empty cache of rows."""
        return PromptRows(self._text, self._frames, self._pad, self._place)

    @torch.no_grad()
    def text(self, ids: Sequence[int]) -> Tensor:
        """[N] ids -> [N, H], their text rows."""
        return self._known.rows(ids, self._place)

    @torch.no_grad()
    def prompts(self, drafts: Sequence[Draft]) -> list[Prompt]:
        """A prompt for each draft. Their rows are views of one tensor that do not overlap, except `pad`."""
        rows = self.text([*(i for draft in drafts for i in (*draft.text, *draft.feed)), self._pad])
        self._add_codec_side(rows, drafts)
        return list(self._cut(rows, drafts))

    def _add_codec_side(self, rows: Tensor, drafts: Sequence[Draft]) -> None:
        """Add each control id, vector and frame to its row, each kind in one operation."""
        ids, at, vectors, vectors_at, frames, frames_at = [], [], [], [], [], []
        begin = 0
        for draft in drafts:
            first = len(ids)
            ids += draft.codec
            at += range(begin + draft.bare, begin + len(draft.text))
            if draft.speaker_at is not None:
                vectors.append(draft.embedding)
                vectors_at.append(first + draft.speaker_at)
            if draft.frames_at is not None:
                frames.append(draft.reference)
                frames_at += range(first + draft.frames_at, first + draft.frames_at + len(draft.reference))
            begin += len(draft.text) + len(draft.feed)
        codec_ids, places = self._place(np.array([ids, at], np.int64))
        codecs = self._frames.control(codec_ids)
        if vectors:
            codecs.index_copy_(0, self._place(np.array(vectors_at)), self._place(np.stack(vectors)).to(codecs.dtype))
        if frames:
            rows_of_frames = self._frames.frame(self._place(np.concatenate(frames)))
            codecs.index_copy_(0, self._place(np.array(frames_at)), rows_of_frames)
        rows.index_add_(0, places, codecs)

    def _cut(self, rows: Tensor, drafts: Sequence[Draft]) -> Iterator[Prompt]:
        begin = 0
        for draft in drafts:
            middle = begin + len(draft.text)
            end = middle + len(draft.feed)
            yield Prompt(draft, rows[begin:middle], rows[middle:end], rows[-1])
            begin = end


def refuse_too_long(draft: Draft, most: int) -> None:
    """Raise InputError for a prompt that leaves no room for speech in the model's `most` positions."""
    rows, what, hint = len(draft.text) + len(draft.feed), "the text needs", "split the text"
    if draft.reference is not None:
        what, hint = "text and reference need", f"{hint}, or use a shorter reference clip"
    if rows >= most:
        raise InputError(f"{what} {rows} positions; the model has {most}, and speech needs some of them", hint=hint)


class Drafter(ABC):
    """A prompter that writes drafts; PromptRows computes their rows."""

    def __init__(self, rows: PromptRows) -> None:
        self._rows = rows

    @abstractmethod
    def draft(self, request: Request) -> Draft:
        """The draft of a request whose text is complete."""

    def fresh(self) -> Self:
        """A copy with its own row cache. Cached rows belong to the stream that made them: one copy per engine."""
        made = copy.copy(self)
        made._rows = self._rows.fresh()
        return made

    def prompts(self, drafts: Sequence[Draft]) -> list[Prompt]:
        """A prompt for each draft."""
        return self._rows.prompts(drafts)

    def prompt(self, request: Request) -> Prompt:
        """The prompt of one request."""
        return self.prompts([self.draft(request)])[0]
