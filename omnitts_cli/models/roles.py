"""The interface between families and the engine: Facts, Draft, Prompt, the roles, SpeechModel. A family implements the
roles; the engine does not know which family it was. Nothing here imports a family, the engine, a device or torch.

Letters in shape comments: B rows, G code groups, T frames, P prompt rows, N text rows, H hidden
width of the talker, V codes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from omnitts_cli.errors import InputError
from omnitts_cli.kernels.arrays import zeros
from omnitts_cli.kernels.ops import EIGHT, Columns, Normed, Ops, type_name
from omnitts_cli.request import Request, Sampling

if TYPE_CHECKING:
    import torch
    from torch import Tensor
else:
    Tensor = Any

LEAST_FRAMES = 2
"""The official generator of Qwen3-TTS cannot end before this many frames."""

Choose = Callable[[int, Tensor, Normed | None], tuple[Tensor, Normed | None]]
"""(group, logits [B, V], table with rows [V, W]) -> codes [B] and their rows of the table [B, W], if there is one.

How the engine samples; models do not know sampling settings.
"""


@dataclass(frozen=True)
class Facts:
    """What the engine must know of a model to run it; all of it comes from config.json."""

    groups: int  # G
    codes: int  # audio codes per group: 0..codes-1
    vocabulary: int  # width of the group-0 logits
    end_code: int  # group-0 code that ends the speech
    hidden: int  # H
    sample_rate: int  # 24000
    samples_per_frame: int  # 1920
    max_positions: int  # prompt rows + frames that one request may have
    missing_samples: int = 0  # warm-up samples to drop from the start of each stream
    least_frames: int = LEAST_FRAMES  # the end code cannot be chosen before this many

    @property
    def frame_rate(self) -> float:
        """Frames per second."""
        return self.sample_rate / self.samples_per_frame


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


class LiveText(Protocol):
    """Turns text that arrives in pieces into rows; joined, they are the rows of the whole text."""

    def write(self, text: str) -> Tensor:
        """[n, H], the rows that more text can no longer change; n may be 0."""
        ...

    def close(self) -> Tensor:
        """[n, H], the rest."""
        ...


class LiveIds(Protocol):
    """Turns the tokens of an answer into rows."""

    def write(self, ids: Sequence[int]) -> Tensor:
        """[n, H]; n is len(ids)."""
        ...

    def close(self) -> Tensor:
        """[1, H], the end of the text."""
        ...


class TooEarly(InputError):
    """Too few tokens of the text are certain yet; raised until more text, or its end, has arrived."""


class Prompter(Protocol):
    """Turns requests into rows: a draft for each, or an error, and the rows of many drafts together."""

    def fresh(self) -> Prompter:
        """A prompter for another engine, which shares nothing on the device with this one."""
        ...

    def draft(self, request: Request) -> Draft:
        """The draft of a request; raises OmniError where the model cannot speak it."""
        ...

    def live(self, request: Request, first: str) -> tuple[Draft, LiveText]:
        """An open prompt: `first` is the text known so far. Raises TooEarly while too few of its tokens are certain."""
        ...

    def prompts(self, drafts: Sequence[Draft]) -> list[Prompt]:
        """A prompt for each draft."""
        ...


class AnswerPrompter(Prompter, Protocol):
    """The prompter of a model whose thinker writes the text that is spoken."""

    def answer(self, request: Request, turns: Turns, ids: Sequence[int], more: bool) -> tuple[Draft, LiveIds | None]:
        """The prompt of an answer that begins with the tokens `ids`; without `more`, they are all of it.

        Its last row has the first token. Without `ids` but with `more`, that row is to be replaced by `last_row`.
        """
        ...

    def last_row(self, draft: Draft, text_row: Tensor) -> Tensor:
        """[H], the last row of a prompt whose first token has the row `text_row` [H]."""
        ...


class Cloner(Protocol):
    """Encodes a clip: its frames and its voice. `sound` is mono float32 at the model's sample rate."""

    def codes(self, sound: np.ndarray) -> np.ndarray:
        """[T, G] int64."""
        ...

    def embedding(self, sound: np.ndarray) -> np.ndarray:
        """[H] float32, the speaker's vector."""
        ...


class KeyValues(Protocol):
    """Keys and values of all slots, and the rotation of every position."""

    keys: Tensor  # [layers, slots, kv_heads, capacity, head_dim]
    values: Tensor  # the same
    cos: Tensor  # [capacity, head_dim / 2] float32
    sin: Tensor

    @property
    def capacity(self) -> int:
        """Positions per slot."""
        ...

    def copy_prefix(self, source: KeyValues, rows: int, slots: Tensor) -> None:
        """Copy the first `rows` positions of `source` (one slot) into each of `slots` [N]."""
        ...

    def take_prefix(self, source: KeyValues, rows: int, slot: int) -> None:
        """The reverse: copy the first `rows` positions of a slot of `source` into this cache of one slot."""
        ...

    def clear(self, slot: int) -> None:
        """Zero a slot. Only needed after NaN: a masked NaN still spreads through sums."""
        ...


class Talker(Protocol):
    """Input rows -> a hidden state per frame and the logits of group 0."""

    def cache(self, slots: int, capacity: int) -> KeyValues:
        """An empty cache."""
        ...

    def prefill(self, rows: Tensor, start: Tensor, slots: Tensor, cache: KeyValues, width: int) -> None:
        """Rows [B, P, H] at positions start [B] + 0..P-1 of `slots` [B] into the cache."""
        ...

    def step(self, row: Tensor, positions: Tensor, slots: Tensor, cache: KeyValues, width: int) -> Tensor:
        """One row each [B, H] at `positions` [B] of `slots` [B]: hidden states [B, H]."""
        ...

    def logits(self, hidden: Tensor) -> Tensor:
        """[..., H] -> [..., V]."""
        ...


class FrameEmbedder(Protocol):
    """Codes of a frame -> the next input row of the talker."""

    def frame(self, codes: Tensor) -> Tensor:
        """[B, G] -> [B, H]."""
        ...


class Predictor(Protocol):
    """Fills groups 1..G-1 of one frame."""

    def inputs(self, embedder: FrameEmbedder) -> list[Normed]:
        """By group, the input rows [codes, W] after a code."""
        ...

    def frame(self, hidden: Tensor, first: Tensor, row: Normed, embedder: FrameEmbedder, choose: Choose) -> Tensor:
        """hidden [B, H], codes of group 0 [B] and their rows of `inputs` -> codes [B, G]."""
        ...


CodecState = dict[str, Tensor]
"""Everything a stream carries from chunk to chunk; the first axis of each tensor is the stream."""


class SlotDecoder(Protocol):
    """A codec with the state of many streams in slots."""

    in_c: bool  # decoding is one call that releases Python's lock; calls for different slots may run in parallel
    beside: bool  # such a call has one thread, so it runs beside the frames

    def prepare(self, sizes: Sequence[tuple[int, int]]) -> None:
        """Announce the sizes of later calls, (frames, rows)."""
        ...

    def clear(self, slots: Tensor) -> None:
        """New streams start in `slots` [N]."""
        ...

    def decode(self, codes: Tensor, slots: Tensor) -> Tensor:
        """The next codes [B, T, G] of `slots` [B] -> sound [B, samples] float32."""
        ...


class Codec(Protocol):
    """Codes -> sound: whole, or chunk by chunk with the state as an argument."""

    def forward(self, codes: Tensor) -> Tensor:
        """[B, T, G] -> [B, samples] float32."""
        ...

    def initial_state(self, rows: int, device: torch.device | str, dtype: torch.dtype) -> CodecState:
        """The state of `rows` new streams."""
        ...

    def step(self, codes: Tensor, state: CodecState) -> tuple[Tensor, CodecState]:
        """The next frames of each stream [B, T, G] -> sound [B, samples], next state."""
        ...


@dataclass(frozen=True)
class Controls:
    """Per-row settings, each [B] (in a slot table: [slots])."""

    seed: Tensor  # int64
    temperature: Tensor  # float32; 0: the likeliest
    top_k: Tensor  # int64; 0: all
    top_p: Tensor  # float32
    penalty: Tensor  # float32; of group 0
    predictor_temperature: Tensor
    predictor_top_k: Tensor
    predictor_top_p: Tensor
    ignore_end: Tensor  # bool; the end code is never chosen

    def rows(self, slots: Tensor, ops: Ops) -> Controls:
        """The settings of some slots: every column indexed by `slots` [B]."""
        return Controls(*ops.pick([getattr(self, f.name) for f in fields(self)], slots))

    @staticmethod
    def empty(slots: int, device: torch.device | str | None) -> Controls:
        """Columns for `slots` slots, greedy until they are written."""
        kinds = {"seed": "int64", "top_k": "int64", "predictor_top_k": "int64", "ignore_end": "bool"}
        columns = {f.name: zeros((slots,), kinds.get(f.name, "float32"), device) for f in fields(Controls)}
        columns["penalty"] += 1
        return Controls(**columns)


@dataclass
class SpeechModel(ABC):
    """A loaded model: what the engine asks of it. `speakers` maps each named voice to one line about it."""

    name: str
    facts: Facts
    prompter: Prompter
    cloner: Cloner | None
    sampling: Sampling  # the model's own values, none of them None
    kinds: frozenset[str]  # of "named", "cloned", "designed"
    speakers: dict[str, str]
    languages: tuple[str, ...]
    device: torch.device | None  # of its arrays; None: those of NumPy
    dtype: Any  # of its rows
    sha256: str | None = None
    longest_piece: int | None = None  # letters of a text that it speaks well in one request
    plain_letters: bool = False  # it reads English letters and ,.!?'- only
    obeys_style: bool = False  # whether its named voices follow an instruction
    vector_of: Callable[[str], np.ndarray] | None = None  # a named voice as a vector, where clones are spoken too
    adapter: str | None = None  # the sum of the adapter that was merged into the weights

    @property
    @abstractmethod
    def precision(self) -> str:
        """Of the matrices of talker and predictor: "float32", "q8" ..."""

    @property
    @abstractmethod
    def together(self) -> tuple[int, int] | None:
        """Requests that are best made together on a CPU: while someone listens, and for a file. None: the usual."""

    @property
    @abstractmethod
    def stream_bytes(self) -> int:
        """What the codec keeps of one stream."""

    @abstractmethod
    def cache(self, slots: int, capacity: int) -> KeyValues:
        """Empty keys and values of the talker."""

    @abstractmethod
    def prefill(self, rows: Tensor, start: Tensor, slots: Tensor, cache: KeyValues, width: int) -> None:
        """Rows [B, P, H] at positions start [B] + 0..P-1 of `slots` [B] into the cache."""

    @abstractmethod
    def frames(self, table: Columns, cache: KeyValues, stall: int) -> Callable[[Tensor, int], None]:
        """What advances slots [B] by one frame, in place; its second argument bounds every position of the call."""

    @abstractmethod
    def decoder(self, slots: int, longest: int) -> SlotDecoder:
        """The codec, for so many slots and chunks of up to `longest` frames."""

    @abstractmethod
    def check(self) -> None:
        """Raise an error if an earlier frame went wrong. Does not wait for the device."""

    def call_bytes(self, frames: int, rows: int) -> int:
        """Estimates the device memory of one call of the codec."""
        return 0

    def prompt_bytes(self, rows: int) -> int:
        """Estimates the device memory of a step of so many prompt rows."""
        return 0


def precision_name(dtype: object) -> str:
    """A precision as users read it."""
    name = type_name(dtype)
    return "q8" if name == EIGHT else name
