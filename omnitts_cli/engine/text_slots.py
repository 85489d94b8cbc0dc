"""TextPlan, TextTable, text_step: sizes of a text loop, the device's side of its requests, and the step of them all.

`text_step` is a function of fixed shapes that never reads a value on the host, so it can be captured as one graph.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum

import torch
from torch import Tensor

from omnitts_cli.models.layers import KVCache
from omnitts_cli.models.sampling import choose_token
from omnitts_cli.models.thinker import TextFacts, TextModel

BUCKETS = (1, 2, 4, 8, 16, 32, 64)


@dataclass(frozen=True)
class TextPlan:
    """`buckets`: batch sizes a step is captured for. `positions`: prompt and answer of one request, in tokens."""

    slots: int
    positions: int
    buckets: tuple[int, ...] = BUCKETS
    run: int = 1024  # rows prefilled between two steps; shorter runs read every expert for fewer rows
    idle_run: int = 4096  # the same while no answer is being written
    together: int = 256  # rows of a prompt up to which it is prefilled together with others
    ahead: int = 2  # steps launched before the oldest one's report is awaited
    capture: bool = True

    def with_slots(self, slots: int) -> TextPlan:
        """The same with at most as many slots and buckets."""
        return replace(self, slots=slots, buckets=(*(size for size in self.buckets if size < slots), slots))


class TextStop(IntEnum):
    """Why an answer stopped, as the device reports it."""

    RUNNING = 0
    END = 1  # the model chose a stop token, which is not part of the answer
    LIMIT = 2
    BROKEN = 3  # NaN or infinite values


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
    def empty(slots: int, facts: TextFacts, device: torch.device) -> TextTable:
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
    now = (made + 1 >= limit) * int(TextStop.LIMIT)
    now = now.masked_fill(ended, int(TextStop.END)).masked_fill(broken, int(TextStop.BROKEN))
    going, runs = live.bool(), (now == int(TextStop.RUNNING)).long()
    token, stop = torch.where(going, chosen, token), torch.where(going, now, stop)
    after = [token, made + live, stop, position + live, limit, seed, top_k, live * runs, ignore_end]
    table.wholes.index_copy_(1, slots, torch.stack(after))
