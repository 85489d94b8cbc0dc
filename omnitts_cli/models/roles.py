"""The words in which families and the engine meet: Facts, Draft, Prompt, the roles, SpeechModel.

A family fills the roles; the engine uses them without knowing which family did. Nothing here imports
a family, the engine or a device.

Letters in shape comments: B rows, G code groups, T frames, P prompt rows, N text rows, H hidden
width of the talker, V codes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Protocol

import numpy as np
import torch
from torch import Tensor, nn

from omnitts_cli.errors import InputError
from omnitts_cli.kernels import plain
from omnitts_cli.kernels.ops import Normed, Ops
from omnitts_cli.models.cache import KVCache
from omnitts_cli.request import Request, Sampling

LEAST_FRAMES = 2
"""The official generator of Qwen3-TTS cannot end before this many frames."""

Choose = Callable[[int, Tensor, Normed | None], tuple[Tensor, Normed | None]]
"""(group, logits [B, V], table with rows [V, W]) -> codes [B] and their rows of the table [B, W], if there is one.

How the engine draws a code; the models know no settings.
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
    missing_samples: int = 0  # at the start of every stream that the codec's steps give but nobody may hear
    least_frames: int = LEAST_FRAMES  # the end code cannot be chosen before this many

    @property
    def frame_rate(self) -> float:
        return self.sample_rate / self.samples_per_frame


@dataclass(frozen=True, eq=False)
class Draft:
    """A prompt written down as ids, which can be read and compared. Every mode (named, cloned, designed) ends here.

    A row is the sum of a text row and, except in the first rows, a row of the codec's side: `codec` belongs
    to the last rows of `text`, one to one. At `speaker_at` (an index of `codec`) stands the speaker's row and
    from `frames_at` on the frames of the reference; the id written there is not used.
    """

    text: list[int]
    codec: list[int]
    feed: list[int] = field(default_factory=list)  # text heard later, one id per frame
    closed: bool = True  # no more text will come behind `feed`; open and empty means that the request waits
    spoken: int = 0  # ids of the text to be spoken, without what the template adds: for the guard's ceiling
    speaker_at: int | None = None
    frames_at: int | None = None
    shared: int = 0  # rows at the front that depend on `shared_key` alone, so that their KV can be kept and copied
    embedding: np.ndarray | None = None  # [H] float32, the speaker's row
    reference: np.ndarray | None = None  # [R, G] int64; goes through the codec first, and its sound is dropped

    @property
    def bare(self) -> int:
        """Rows at the front without a codec side."""
        return len(self.text) - len(self.codec)

    @property
    def shared_key(self) -> tuple[object, ...]:
        """Equal keys, equal shared rows: everything that those rows are made of."""
        with_codec = self.shared - self.bare
        content = blake2b(digest_size=16)
        if self.embedding is not None:
            content.update(self.embedding.tobytes())
        if self.frames_at is not None and with_codec > self.frames_at:
            content.update(self.reference[: with_codec - self.frames_at].tobytes())
        return (tuple(self.text[: self.shared]), tuple(self.codec[:with_codec]), content.digest())


@dataclass
class Prompt:
    """The rows of a draft, as numbers. The last one is not prefilled: it is the input of the first frame."""

    draft: Draft
    rows: Tensor  # [P, H]
    feed: Tensor  # [N, H], heard one per frame
    pad: Tensor  # [H]; heard when the closed feed has run out


class LiveText(Protocol):
    """Turns text that arrives in pieces into rows; the sum of its rows is that of the whole text."""

    def write(self, text: str) -> Tensor: ...  # [n, H], n may be 0

    def close(self) -> Tensor: ...  # [n, H]


class TooEarly(InputError):
    """The text known so far does not settle enough tokens to begin with; more of it, or its end, will."""


class Prompter(Protocol):
    """Turns requests into rows: a draft for each, which may be refused, and the rows of many drafts together."""

    def fresh(self) -> Prompter:
        """One for another engine: nothing that it keeps on the device is shared."""
        ...

    def draft(self, request: Request) -> Draft: ...

    def live(self, request: Request, first: str) -> tuple[Draft, LiveText]:
        """An open prompt: `first` is the text known so far. Raises TooEarly while that settles too few tokens."""
        ...

    def prompts(self, drafts: Sequence[Draft]) -> list[Prompt]: ...


class Cloner(Protocol):
    """Hears a clip: its frames and its voice. `sound` is mono float32 at the model's sample rate."""

    def codes(self, sound: np.ndarray) -> np.ndarray: ...  # [T, G]

    def embedding(self, sound: np.ndarray) -> np.ndarray: ...  # [H]


class Talker(Protocol):
    """Hears rows, keeps time; gives the hidden state and the logits of group 0."""

    def cache(self, slots: int, capacity: int) -> KVCache: ...

    def prefill(self, rows: Tensor, start: Tensor, slots: Tensor, cache: KVCache, width: int) -> Tensor: ...

    def step(self, row: Tensor, positions: Tensor, slots: Tensor, cache: KVCache, width: int) -> Tensor: ...

    def logits(self, hidden: Tensor) -> Tensor: ...


class Predictor(Protocol):
    """Fills groups 1..G-1 of one frame."""

    def inputs(
        self, embedder: FrameEmbedder
    ) -> list[Normed]: ...  # by group, rows [codes, W] that it reads after a code

    def frame(self, hidden: Tensor, first: Tensor, row: Normed, embedder: FrameEmbedder, choose: Choose) -> Tensor: ...


class FrameEmbedder(Protocol):
    """Codes of a frame -> the one row that the talker hears."""

    def frame(self, codes: Tensor) -> Tensor: ...  # [B, G] -> [B, H]


CodecState = dict[str, Tensor]
"""Everything a stream carries from chunk to chunk; each tensor has the stream as its first axis."""


class SlotDecoder(Protocol):
    """A codec with the state of many streams in slots."""

    in_c: bool  # decoding is one call that releases Python's lock; calls for different slots may run at once

    def prepare(self, sizes: Sequence[tuple[int, int]]) -> None: ...  # (frames, rows) of later calls

    def clear(self, slots: Tensor) -> None: ...  # [N]

    def decode(self, codes: Tensor, slots: Tensor) -> Tensor: ...  # [B, T, G], [B] -> [B, samples]


class Codec(Protocol):
    """Codes -> sound: whole, chunk by chunk with the state as an argument, or in slots."""

    def forward(self, codes: Tensor) -> Tensor: ...  # [B, T, G] -> [B, samples]

    def initial_state(self, rows: int, device: torch.device | str, dtype: torch.dtype) -> CodecState: ...

    def step(self, codes: Tensor, state: CodecState) -> tuple[Tensor, CodecState]: ...


@dataclass
class SpeechModel:
    """A loaded bundle of roles. `speakers` maps each named voice to one line about it."""

    name: str
    facts: Facts
    talker: nn.Module
    predictor: nn.Module
    embedder: nn.Module
    codec: nn.Module
    prompter: Prompter
    cloner: Cloner | None
    sampling: Sampling  # the model's own values, none of them None
    kinds: frozenset[str]  # of "named", "cloned", "designed"
    speakers: dict[str, str]
    languages: tuple[str, ...]
    device: torch.device
    dtype: torch.dtype
    ops: Ops = plain.OPS
    sha256: str | None = None
    longest_piece: int | None = None  # letters of a text that it says well in one go
    plain_letters: bool = False  # it reads English letters and ,.!?'- only
    vector_of: Callable[[str], np.ndarray] | None = None  # a named voice as a vector, where clones are spoken too
