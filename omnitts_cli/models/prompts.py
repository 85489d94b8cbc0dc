"""Rows of text (cached by KnownRows) and of whole prompts. PromptRows makes the rows of many prompts at once: sixteen
take a device no longer than one. Arrays are those of NumPy, or tensors.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol, Self

import numpy as np

from omnitts_cli.errors import InputError
from omnitts_cli.kernels.arrays import add_rows, empty, outside_streams, put_rows
from omnitts_cli.models.roles import Draft, Prompt
from omnitts_cli.request import Request

BLOCK = 32
"""Rows that are computed together."""
Place = Callable[[np.ndarray], Any]
"""Copies an array to the device of the model."""


class TextRows(Protocol):
    """Makes the row of each token of a text."""

    def rows(self, ids: np.ndarray, place: Place) -> Any:
        """[N] -> [N, H]; a token has the same row in every text."""
        ...


class CodeRows(Protocol):
    """The tables of the code groups. Group 0's also holds the control ids of prompts."""

    def control(self, ids: Any) -> Any:
        """Rows of group 0's table: [...] -> [..., H]."""
        ...

    def frame(self, codes: Any) -> Any:
        """[..., G] -> [..., H], the sum over the groups."""
        ...


class KnownRows:
    """A cache of text rows in one table on the device, because most tokens of a text have occurred before. The
    embedder's weights must not change.
    """

    def __init__(self, text: TextRows, most: int = 8192) -> None:
        self._text, self._most = text, most
        self._places: dict[int, int] = {}  # of each id in the table
        self._table: Any = None  # [room, H], grows by doubling up to `most` rows

    def rows(self, ids: Sequence[int], place: Place, also: Sequence[int] = ()) -> tuple[Any, Any]:
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

    def _learn(self, new: list[int], place: Place) -> None:
        rows, begin = self._text.rows(np.array(new, np.int64), place), len(self._places)
        end = begin + len(new)
        with outside_streams(rows):
            if self._table is None or end > len(self._table):
                room = min(self._most, max(end, 2 * begin, 8 * BLOCK))
                table = empty(room, rows)
                if begin:
                    table[:begin] = self._table[:begin]
                self._table = table
            self._table[begin:end] = rows
        self._places.update(zip(new, range(begin, end), strict=True))


class PromptRows:
    """Drafts -> prompts. `pad` is the id whose row is added once a closed feed has run out."""

    def __init__(self, text: TextRows, frames: CodeRows, pad: int, place: Place) -> None:
        self._text, self._frames, self._pad, self._place = text, frames, pad, place
        self._known = KnownRows(text)

    @property
    def pad(self) -> int:
        """The id of the text beside frames whose own text has run out."""
        return self._pad

    def text(self, ids: Sequence[int]) -> Any:
        """[N] ids -> [N, H], their text rows."""
        return self._known.rows(ids, self._place)[0]

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
            put_rows(codecs, self._place(np.array(vectors_at)), self._place(np.stack(vectors)))
        if frames:
            rows_of_frames = self._frames.frame(self._place(np.concatenate(frames)))
            put_rows(codecs, self._place(np.array(frames_at)), rows_of_frames)
        add_rows(rows, sent[len(at) :], codecs)
        return list(self._cut(rows, drafts))

    def last_row(self, draft: Draft, text_row: Any) -> Any:
        """[H], the last row of a draft whose last token became known later; `text_row` [H] is the row of that token."""
        return text_row + self._frames.control(self._place(np.array(draft.codec[-1:], np.int64)))[0]

    def _cut(self, rows: Any, drafts: Sequence[Draft]) -> Iterator[Prompt]:
        begin, pad, nothing = 0, rows[-1], rows[:0]
        for draft in drafts:
            middle = begin + len(draft.text)
            end = middle + len(draft.feed)
            if draft.turns is not None and draft.turns.rows is not None:
                where = self._place(np.array(draft.turns.places, np.int64) + begin)
                put_rows(rows, where, draft.turns.rows)
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
