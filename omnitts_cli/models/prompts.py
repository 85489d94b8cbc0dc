"""Drafts and prompts, and what makes them: rows of text (cached by KnownRows) and of whole prompts. A Prompter makes
the rows of many prompts at once: sixteen take a device no longer than one. Arrays are those of NumPy, or tensors.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Protocol, Self

import numpy as np

from omnitts_cli.errors import InputError
from omnitts_cli.kernels.arrays import add_rows, empty, outside_streams, put_rows
from omnitts_cli.request import Request

if TYPE_CHECKING:
    from torch import Tensor

BLOCK = 32
"""Rows that are computed together."""
Place = Callable[[np.ndarray], Any]
"""Copies an array to the device of the model."""


@dataclass(frozen=True, eq=False)
class Turns:
    """The user turns before an answer, as the talker reads them while the thinker still writes the answer."""

    ids: list[int]
    places: list[int] = field(default_factory=list)  # in `ids`, of the rows below
    rows: Tensor | None = None  # [len(places), H] instead of text rows, for recordings
    ready: object | None = None  # event after which `rows` may be read


@dataclass(frozen=True, eq=False)
class Draft:
    """A prompt as ids, which can be read and compared, for every kind of voice (named, cloned, designed).

    A row is the sum of a text row and, except in the first rows, a codec row: `codec` belongs to the last rows of
    `text`, one to one. The speaker's vector is at `speaker_at` (an index of `codec`), the frames of the reference start
    at `frames_at`; the ids written there are not used.
    """

    text: list[int]
    codec: list[int]
    feed: list[int] = field(default_factory=list)  # text that follows, one id per frame
    closed: bool = True  # nothing follows `feed`; a request with an open and empty feed waits
    spoken: int = 0  # ids of the text to be spoken, without the template: for the runaway limit
    speaker_at: int | None = None
    frames_at: int | None = None
    shared: int = 0  # leading rows that depend on `shared_key` alone, so their keys and values can be copied
    embedding: np.ndarray | None = None  # [H] float32, the speaker's row
    reference: np.ndarray | None = None  # [R, G] int64; decoded first, and its sound is dropped
    gains: np.ndarray | None = None  # [bands] float32, dB; of the filter behind the codec
    turns: Turns | None = None  # `text` begins with their ids

    @property
    def bare(self) -> int:
        """Rows at the front without a codec row."""
        return len(self.text) - len(self.codec)

    @cached_property
    def shared_key(self) -> tuple[object, ...]:
        """Everything that determines the shared rows: equal keys mean equal rows."""
        with_codec = self.shared - self.bare
        content = blake2b(digest_size=16)
        if self.embedding is not None:
            content.update(self.embedding.tobytes())
        if self.frames_at is not None and self.reference is not None and with_codec > self.frames_at:
            content.update(self.reference[: with_codec - self.frames_at].tobytes())
        return (tuple(self.text[: self.shared]), tuple(self.codec[:with_codec]), content.digest())


@dataclass
class Prompt:
    """The rows of a draft, as numbers. The last one is not prefilled: it is the input of the first frame."""

    draft: Draft
    rows: Tensor  # [P, H]
    feed: Tensor  # [N, H], added one per frame
    pad: Tensor  # [H]; added once the closed feed has run out


class LiveRows:
    """Rows of text that arrives in pieces; joined, they are the rows of the whole text. `certain` returns the ids that
    later text cannot change, `rest` those that it has held back. Without them, the pieces are ids: tokens of an answer.
    """

    def __init__(
        self,
        rows: Callable[[Sequence[int]], Any],
        end: int,
        certain: Callable[[Any], Sequence[int]] = list,
        rest: Callable[[], Sequence[int]] = list,
    ) -> None:
        self._rows, self._end, self._certain, self._rest = rows, end, certain, rest

    def write(self, piece: str | Sequence[int]) -> Any:
        """[n, H]; n is 0 while nothing new is certain."""
        return self._rows(self._certain(piece))

    def close(self) -> Any:
        """[n, H], the last of them the end of the text."""
        return self._rows([*self._rest(), self._end])


class TooEarly(InputError):
    """Too few tokens of the text are certain yet; raised until more text, or its end, has arrived."""


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


class Prompter(ABC):
    """Turns requests into rows: a draft for each, or an error, and the rows of many drafts together. `pad` is the id
    whose row is added once a closed feed has run out.
    """

    def __init__(self, text: TextRows, frames: CodeRows, pad: int, place: Place) -> None:
        self._text, self._frames, self._pad, self._place = text, frames, pad, place
        self._known = KnownRows(text)

    @abstractmethod
    def draft(self, request: Request) -> Draft:
        """The draft of a request whose text is complete; raises OmniError where the model cannot speak it."""

    @abstractmethod
    def live(self, request: Request, first: str) -> tuple[Draft, LiveRows]:
        """An open prompt: `first` is the text known so far. Raises TooEarly while too few of its tokens are certain."""

    def answer(self, request: Request, turns: Turns, ids: Sequence[int], more: bool) -> tuple[Draft, LiveRows | None]:
        """The prompt of an answer that begins with the tokens `ids`; without `more`, they are all of it. Only for a
        model whose thinker writes the text that is spoken.

        Its last row has the first token. Without `ids` but with `more`, that row is to be replaced by `last_row`.
        """
        raise NotImplementedError

    def fresh(self) -> Self:
        """A copy for another engine, with its own row cache: cached rows belong to the stream that made them."""
        made = copy.copy(self)
        made._known = KnownRows(self._text)
        return made

    def prompt(self, request: Request) -> Prompt:
        """The prompt of one request."""
        return self.prompts([self.draft(request)])[0]

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
