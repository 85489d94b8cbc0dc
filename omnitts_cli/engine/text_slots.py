"""TextPlan, TextRequest, TextRecord, TextTable, text_step: sizes of a text loop, its requests as the host and as the
device know them, and the step of them all.

`text_step` is a function of fixed shapes that never reads a value on the host, so it can be captured as one graph.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from omnitts_cli.engine.slots import Stop
from omnitts_cli.models.audio_tower import Sound
from omnitts_cli.models.layers import KVCache
from omnitts_cli.models.sampling import choose_token
from omnitts_cli.models.thinker import TextFacts, TextModel
from omnitts_cli.request import Request

BUCKETS = (1, 2, 4, 8, 16, 32, 64)


@dataclass(frozen=True)
class TextPlan:
    """`buckets`: batch sizes a step is captured for. `positions`: prompt and answer of one request, in tokens."""

    slots: int
    positions: int
    buckets: tuple[int, ...] = BUCKETS
    run: int = 1024  # rows prefilled between two steps; shorter runs read every expert for fewer rows
    idle_run: int = 4096  # the same while no answer is being written
    together: int = 256  # longest prompt that is prefilled together with others
    prompt_rows: tuple[int, ...] = (16, 64, 128, 256)  # of all short prompts in a captured run, padding included
    whole_rows: tuple[int, ...] = (512, 1024, 1536, 2048, 2560, 3072, 4096)  # the same of the first run of a long one
    ahead: int = 2  # steps launched before the oldest one's report is awaited
    capture: bool = True

    def with_slots(self, slots: int) -> "TextPlan":
        """The same with at most as many slots and buckets."""
        return replace(self, slots=slots, buckets=(*(size for size in self.buckets if size < slots), slots))


@dataclass(frozen=True)
class TextRequest:
    """A conversation as token ids, and how to answer it. Temperature 0 is greedy; top_k 0 keeps all candidates."""

    prompt: Sequence[int]
    most: int = 1024  # tokens of the answer
    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 0
    ignore_end: bool = False  # fixed work for measurements: no stop token is ever chosen
    sounds: tuple[Sound, ...] = ()  # for the runs of pad tokens in the prompt, in order
    questions: int = 1  # in the prompt; a conversation has several


@dataclass(frozen=True)
class Token:
    """News of one request: a token, or with `stopped` the end of its text."""

    request: str
    id: int | None = None
    stopped: str | None = None  # end, limit, cancelled
    cached: int = 0  # at the end: prompt tokens that were in the cache already

    @property
    def last(self) -> bool:
        """Whether no more tokens follow."""
        return self.stopped is not None


@dataclass(eq=False)
class TextRecord:
    """What the host knows of one request."""

    id: str
    request: TextRequest
    voice: Request | None = None  # how a talker speaks the answer
    slot: int = -1
    prefilled: int = 0  # prompt rows in the cache
    reused: int = 0  # of these, rows of an earlier request
    launched: int = 0  # steps; exact until the request stops
    tokens: list[int] = field(default_factory=list)
    submitted: float = 0.0
    keys: list[int] = field(default_factory=list)  # the prompt, with what a sound holds instead of its pads
    places: list[int] = field(default_factory=list)  # of the first row of each sound
    sound_rows: list[Tensor] = field(default_factory=list)  # of each sound [tokens, H]
    fed: int = 0  # tokens that the talker was given
    closed: bool = False  # it gets no more of them

    @property
    def wanted(self) -> int:
        """Prompt rows to prefill: all but the last, which is the input of the first step."""
        return len(self.request.prompt) - 1

    @property
    def runnable(self) -> bool:
        """Whether the next token may be launched."""
        return self.slot >= 0 and self.prefilled == self.wanted and self.launched < self.request.most


WHOLE = ("token", "made", "stop", "position", "limit", "seed", "top_k", "live", "ignore_end")
REAL = ("temperature", "top_p")
"""Columns grouped by dtype, so admitting a batch takes two writes."""


@dataclass(frozen=True)
class TextTable:
    """One row per slot and one spare row for padding. Only steps and admissions write it."""

    wholes: Tensor  # [WHOLE, slots] int64
    reals: Tensor  # [REAL, slots] float32
    stops: Tensor  # [S] int64: the tokens that end an answer

    @property
    def report(self) -> Tensor:
        """[3, slots] int64: the latest token, tokens made, and the stop reason; the host reads it after a step."""
        return self.wholes[:3]

    @staticmethod
    def empty(slots: int, facts: TextFacts, device: torch.device) -> "TextTable":
        """A table in which no slot is live."""
        return TextTable(
            torch.zeros((len(WHOLE), slots + 1), dtype=torch.int64, device=device),
            torch.zeros((len(REAL), slots + 1), device=device),
            torch.tensor(facts.stops, device=device),
        )

    def write(self, slots: Tensor, wholes: Tensor, reals: Tensor) -> None:
        """Set all columns of `slots` [N]: [WHOLE, N], [REAL, N]."""
        self.wholes.index_copy_(1, slots, wholes)
        self.reals.index_copy_(1, slots, reals)


def text_step(model: TextModel, table: TextTable, cache: KVCache, slots: Tensor, width: int, greedy: bool) -> None:
    """Advance `slots` [B] by one token, in place. `width` bounds every position of this call.

    `greedy`: no row is sampled, so the likeliest tokens need not be sorted out.
    """
    thinker, facts = model.thinker, model.facts
    columns = table.wholes.index_select(1, slots)
    token, made, stop, position, limit, seed, top_k, live, ignore_end = columns
    hidden = thinker.step(token, position, slots, cache, width)
    logits = thinker.scores(hidden)[:, : facts.tokens]
    without_end = logits.index_select(1, table.stops).masked_fill(ignore_end.bool()[:, None], float("-inf"))
    logits.index_copy_(1, table.stops, without_end)
    if greedy:
        chosen = logits.argmax(-1)
    else:
        temperature, top_p = table.reals.index_select(1, slots)
        chosen = choose_token(logits, seed, made, temperature, top_k, top_p, thinker.stack.ops)
    broken = ~hidden.float().sum(-1).isfinite()
    ended = (chosen[:, None] == table.stops).any(-1)
    now = (made + 1 >= limit) * int(Stop.LIMIT)
    now = now.masked_fill(ended, int(Stop.END)).masked_fill(broken, int(Stop.BROKEN))
    going, runs = live.bool(), (now == int(Stop.RUNNING)).long()
    token, stop = torch.where(going, chosen, token), torch.where(going, now, stop)
    after = [token, made + live, stop, position + live, limit, seed, top_k, live * runs, ignore_end]
    table.wholes.index_copy_(1, slots, torch.stack(after))
