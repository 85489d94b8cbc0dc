"""The thinker: token ids -> logits of the next token. A decoder stack with its own embedding table and head."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from omnitts_cli.kernels import plain
from omnitts_cli.kernels.ops import Ops
from omnitts_cli.models.audio_tower import AudioTower, Sound
from omnitts_cli.models.layers import KVCache, Stack, Tap
from omnitts_cli.models.parameters import random
from omnitts_cli.models.shapes import TalkerShape


class Thinker(nn.Module):
    """`prefill` for prompts, `step` for one token of each request; the cache is always the caller's."""

    def __init__(self, shape: TalkerShape, ops: Ops = plain.OPS) -> None:
        super().__init__()
        self.shape = shape
        self.stack = Stack(shape.stack, ops)
        self.table = random(shape.vocabulary, shape.stack.hidden)
        self.head = random(shape.vocabulary, shape.stack.hidden)

    def cache(self, slots: int, capacity: int) -> KVCache:
        """Empty keys and values for `slots` requests of up to `capacity` positions."""
        return self.stack.cache(slots, capacity, self.head.device, self.head.dtype)

    def rows(self, ids: Tensor) -> Tensor:
        """Embeddings of token ids: [...] -> [..., H]."""
        return F.embedding(ids, self.table)

    def prefill(
        self, rows: Tensor, start: Tensor, slots: Tensor, cache: KVCache, width: int, tap: Tap | None = None
    ) -> Tensor:
        """Rows [B, P, H] at positions start [B] + 0..P-1 of `slots` [B]: hidden states [B, P, H].

        `width` must be the end of the longest prompt so far: start + P.
        """
        positions = start[:, None] + torch.arange(rows.shape[1], device=rows.device)
        return self.stack.cached(rows, positions, slots, cache, width, tap)

    def step(self, ids: Tensor, positions: Tensor, slots: Tensor, cache: KVCache, width: int) -> Tensor:
        """One token each: ids [B] at `positions` [B] of `slots` [B] -> hidden states [B, H]."""
        return self.stack.cached(self.rows(ids)[:, None], positions[:, None], slots, cache, width)[:, 0]

    def scores(self, hidden: Tensor) -> Tensor:
        """Logits [B, H] -> [B, V] in float32: around 20, bfloat16 has steps of 0.125, so greedy decoding would see
        ties."""
        return self.stack.ops.scores(hidden, self.head)


class StateProjection(nn.Module):
    """Hidden states of the thinker [..., H] -> input rows of the talker [..., W]."""

    def __init__(self, hidden: int, inner: int, width: int) -> None:
        super().__init__()
        self.inner = nn.Linear(hidden, inner)
        self.out = nn.Linear(inner, width)

    def forward(self, states: Tensor) -> Tensor:
        """[..., H] -> [..., W]."""
        return self.out(F.silu(self.inner(states)))


@dataclass(frozen=True)
class TextFacts:
    """What the engine must know of a model that writes text."""

    hidden: int
    tokens: int  # ids below it may be chosen; the table has rows for more
    stops: tuple[int, ...]  # ids that end an answer
    max_positions: int
    sound_pad: int | None = None  # the id of pad tokens, whose rows come from the audio tower
    tap: int | None = None  # the layer whose input the talker reads at sounds; None: the model does not speak


@dataclass(frozen=True)
class Message:
    """One turn of a conversation. `ids`: the tokens of an answer, which cannot always be recovered from its text.

    The sounds of a turn come before its words.
    """

    role: str  # system, user or assistant
    text: str = ""
    ids: tuple[int, ...] | None = None
    sounds: tuple[Sound, ...] = ()


class Chat(Protocol):
    """Conversations as token ids, and token ids as text."""

    def prompt(self, messages: Sequence[Message]) -> list[int]:
        """The ids of a conversation, up to the place where the model answers."""
        ...

    def bytes_of(self, token: int) -> bytes:
        """The UTF-8 bytes of a token; empty for control tokens. Characters may be split between tokens."""
        ...

    def is_control(self, token: int) -> bool:
        """Whether a token is not part of a text; speech ends before it."""
        ...

    def user_positions(self, prompt: Sequence[int]) -> list[int]:
        """Positions of the tokens of all user turns, control tokens included: what a talker reads of a prompt."""
        ...


@dataclass
class TextModel:
    """A loaded model that answers in text."""

    name: str
    facts: TextFacts
    thinker: Thinker
    chat: Chat
    device: torch.device
    dtype: torch.dtype
    spoken_style: str  # the system prompt for answers that will be spoken
    tower: AudioTower | None = None  # None: it takes no sound, or that part was not loaded
    projection: StateProjection | None = None  # None: its answers are not spoken, or its questions have no sound
