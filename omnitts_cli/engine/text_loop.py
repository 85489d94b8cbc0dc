"""TextLoop: submit, cancel, step. Many answers at once from a model that writes text, each token by token.

A step launches one token for every request that has its prompt in the cache, then a run of prompt rows for new ones.
The host never waits for the step it has just launched; it reads the tokens of earlier ones. A slot keeps the keys and
values of its last conversation, so a request that begins with the same tokens prefills only what is new.
"""

from __future__ import annotations

import itertools
import time
from collections import deque
from collections.abc import Sequence
from functools import partial

import numpy as np
import torch

from omnitts_cli.devices.device import Device, Fetch
from omnitts_cli.engine.text_prompts import TextPrompts
from omnitts_cli.engine.text_slots import (
    WHOLE,
    TextPlan,
    TextRecord,
    TextRequest,
    TextStop,
    TextTable,
    Token,
    text_step,
)  # fmt: skip
from omnitts_cli.errors import InputError, ModelError, OmniError, UsageError
from omnitts_cli.models.thinker import TextModel


class TextLoop:
    """Many conversations on one device. All methods belong to one thread."""

    @torch.no_grad()
    def __init__(self, model: TextModel, device: Device, plan: TextPlan) -> None:
        self.model, self.device, self.plan = model, device, plan
        self._stream = device.stream(urgent=True)
        self._table = TextTable.empty(plan.slots, model.facts, model.device)
        self._cache = model.thinker.cache(plan.slots + 1, plan.positions)
        self._prompts = TextPrompts(model, device, plan, self._cache, self._stream)
        self._ids = itertools.count(1)
        self._waiting: deque[TextRecord] = deque()
        self._admitted: list[TextRecord] = []  # in the order in which they got their slots
        self._free = list(range(plan.slots))  # the one that has been free for longest comes first
        self._held: list[list[int]] = [[] for _ in range(plan.slots)]  # tokens whose keys and values are in the slot
        self._reports: deque[tuple[Fetch, list[TextRecord]]] = deque()
        self._news: list[Token] = []
        self._begun = False  # first tokens of spoken answers are in flight; they are awaited before any launch
        self.steps_launched = 0
        self.rows_prefilled = 0
        self._capture()
        device.synchronize()

    def submit(self, request: TextRequest) -> int:
        """Queue a request and return its number; raises InputError if it cannot fit."""
        refuse_impossible(request, self.plan, self.model)
        record = TextRecord(next(self._ids), request, submitted=time.perf_counter())
        record.places = sound_places(request, self.model)
        record.keys = prompt_keys(request, record.places)
        self._waiting.append(record)
        return record.id

    def cancel(self, number: int) -> None:
        """Stop a request in whatever state."""
        for record in [*self._waiting, *self._admitted]:
            if record.id == number:
                self._end(record, "cancelled")

    @property
    def busy(self) -> bool:
        """Whether anything is left for `step`."""
        return bool(self._waiting or self._admitted or self._news)

    @property
    def ready(self) -> list[int]:
        """The requests that the next step would give a token."""
        return [record.id for record in self._admitted if record.runnable]

    @torch.no_grad()
    def step(self, *, hold: bool = False) -> list[Token]:
        """One turn: every running request gains a token; returns the tokens and ends that have arrived.

        With `hold`, prompts are prefilled, but no request gains a token. Before its first token, a spoken answer gives
        a turn to its talker, which reads the question meanwhile.
        """
        if self._begun:
            self._collect(everything=False)
            self._begun = False
        else:
            self._admit()
            launched = not hold and self._launch()
            prefilled = self._prefill(alone=not launched and not hold)
            self._begun = any(one.turns for one in self._news)
            if not self._begun:
                self._collect(everything=not launched and not prefilled and not hold)
        news, self._news = self._news, []
        return news

    # ---- admission

    def _admit(self) -> None:
        new = []
        while self._free and self._waiting:
            record = self._waiting.popleft()
            self._place(record)
            self._admitted.append(record)
            new.append(record)
        if new:
            self._write_columns(new)

    def _place(self, record: TextRecord) -> None:
        """Give the request the free slot that holds most of its prompt, or copy rows from one that is in use."""
        prompt, wanted = record.keys, record.wanted
        common = [min(common_length(held, prompt), wanted) for held in self._held]
        common = [rows if self._prompts.is_worth(rows, wanted) else 0 for rows in common]
        slot = max(self._free, key=lambda one: common[one])  # of equal ones, the first: free for longest
        source = max(range(self.plan.slots), key=lambda one: common[one])
        if common[source] > common[slot]:
            slot = self._free[0]
            rows = common[source]
            with self._stream:
                for kept in (self._cache.keys, self._cache.values):
                    kept[:, slot, :, :rows].copy_(kept[:, source, :, :rows])
                self._prompts.copy_states(source, slot, rows)
            common[slot] = rows
        self._free.remove(slot)
        record.slot, record.prefilled = slot, common[slot]
        record.reused = record.prefilled
        self._held[slot] = list(prompt[: record.prefilled])

    def _write_columns(self, records: Sequence[TextRecord]) -> None:
        wholes, reals = [], []
        for record in records:
            at = record.request
            wholes.append([at.prompt[-1], 0, TextStop.RUNNING, record.wanted, at.most, at.seed, at.top_k, 1])
            wholes[-1].append(int(at.ignore_end))
            reals.append([at.temperature, at.top_p])
        with self._stream:
            to_device = self.device.to_device
            slots = to_device(np.array([record.slot for record in records], np.int64))
            columns = to_device(np.ascontiguousarray(np.array(wholes, np.int64).T))
            self._table.write(slots, columns, to_device(np.ascontiguousarray(np.array(reals, np.float32).T)))

    # ---- prompts

    def _prefill(self, alone: bool) -> bool:
        """Prefill a run of prompt rows, of one long prompt or of several short ones; whether there was one.

        With `alone`, no answer is being written, so the run may be long.
        """
        records = [record for record in self._admitted if record.prefilled < record.wanted]
        if not records:
            return False
        room = self.plan.idle_run if alone else self.plan.run
        for record, end in self._prompts.launch(records, room):
            self.rows_prefilled += end - record.prefilled
            self._held[record.slot] += record.keys[record.prefilled : end]
            record.prefilled = end
        return True

    # ---- steps

    def _capture(self) -> None:
        sizes = self.plan.buckets
        spare = np.full(max(sizes), self.plan.slots, np.int64)
        self._slots = {size: self.device.to_device(spare[:size]) for size in sizes}
        self._loaded: dict[int, tuple[int, ...]] = {}
        self._captures = self.plan.capture and self.device.captures
        self._replays = {}
        if self._captures:
            for size in sorted(sizes, reverse=True):  # the largest first: the others fit into its memory
                for greedy in (False, True):
                    run = partial(self._run, size, greedy, self.plan.positions)
                    self._replays[size, greedy] = self._stream.capture(run)

    def _run(self, size: int, greedy: bool, width: int) -> None:
        text_step(self.model, self._table, self._cache, self._slots[size], width, greedy)

    def _launch(self) -> bool:
        """One token for every request whose prompt is in the cache."""
        records = [record for record in self._admitted if record.runnable]
        if not records:
            return False
        new = [record for record in records if record.request.spoken and not record.launched]
        for record in new:
            self._news.append(Token(record.id, turns=self._prompts.turns(record)))
        records = new or records  # fewer rows make a shorter step, so first tokens come sooner
        size = min(size for size in self.plan.buckets if size >= len(records)) if self.device.pads else len(records)
        batch = (*[record.slot for record in records], *[self.plan.slots] * (size - len(records)))
        greedy = all(record.request.temperature == 0 for record in records)
        last = max(record.wanted + record.launched for record in records)
        with self._stream:
            if self._loaded.get(size) != batch:
                slots = self.device.to_device(np.array(batch, np.int64))
                if size in self._slots:
                    self._slots[size].copy_(slots, non_blocking=True)
                else:
                    self._slots[size] = slots
                self._loaded[size] = batch
            if self._captures:
                self._replays[size, greedy]()
            else:
                self._run(size, greedy, min(-(-(last + 1) // 32) * 32, self.plan.positions))
        for record in records:
            record.launched += 1
        self._reports.append((self._stream.fetch(self._table.report), records))
        self.steps_launched += 1
        return True

    def _collect(self, everything: bool) -> None:
        while self._reports:
            fetch, records = self._reports[0]
            first = any(record.request.spoken and not record.tokens for record in records)
            if not (everything or first or len(self._reports) >= self.plan.ahead or fetch.done()):
                return
            self._reports.popleft()
            tokens, made, stop = fetch.result()[0]
            for record in records:
                if record in self._admitted:  # else it has ended since this step was launched
                    self._report(record, int(tokens[record.slot]), int(made[record.slot]), int(stop[record.slot]))

    def _report(self, record: TextRecord, token: int, made: int, stop: int) -> None:
        assert made == len(record.tokens) + 1
        if stop == TextStop.BROKEN:
            what = f"the model produced NaN or infinite values at token {made}"
            self._end(record, "failed", ModelError(what, hint="--dtype fp32"))
            return
        # the token that was the input of this step is in the cache now
        self._held[record.slot].append(record.tokens[-1] if record.tokens else record.request.prompt[-1])
        record.tokens.append(token)
        if stop != TextStop.END:
            self._news.append(Token(record.id, token))
        if stop != TextStop.RUNNING:
            self._end(record, "end" if stop == TextStop.END else "limit")

    def _end(self, record: TextRecord, stopped: str, error: OmniError | None = None) -> None:
        """The request is done; its slot is free and keeps its rows for the next one."""
        self._news.append(Token(record.id, None, stopped, error, record.reused))
        if record in self._waiting:
            self._waiting.remove(record)
            return
        self._admitted.remove(record)
        self._free.append(record.slot)
        with self._stream:
            self._table.wholes[WHOLE.index("live"), record.slot].fill_(0)
            if stopped == "failed":  # its rows may hold NaN
                self._cache.clear(record.slot)
                self._held[record.slot] = []


def sound_places(request: TextRequest, model: TextModel) -> list[int]:
    """Where each sound's pad tokens begin in the prompt."""
    if not request.sounds:
        return []
    if model.tower is None:
        raise UsageError("the model was opened without its audio tower", hint="omnitts ask --audio FILE")
    pad, places, at = model.facts.sound_pad, [], 0
    for sound in request.sounds:
        at = next(index for index in range(at, len(request.prompt)) if request.prompt[index] == pad)
        places.append(at)
        at += sound.tokens
    return places


def prompt_keys(request: TextRequest, places: Sequence[int]) -> list[int]:
    """The prompt as numbers that are equal only for equal rows: pad tokens get numbers of their sound's content."""
    keys = list(request.prompt)
    for at, sound in zip(places, request.sounds, strict=True):
        content = int.from_bytes(sound.key, "big") << 32
        keys[at : at + sound.tokens] = [-1 - content - index for index in range(sound.tokens)]
    return keys


def common_length(held: Sequence[int], prompt: Sequence[int]) -> int:
    """The length of the common prefix."""
    count = min(len(held), len(prompt))
    if held[:count] == list(prompt[:count]):
        return count
    return next(at for at in range(count) if held[at] != prompt[at])


def refuse_impossible(request: TextRequest, plan: TextPlan, model: TextModel) -> None:
    """Raise an error for what no slot can hold."""
    most, prompt = plan.positions, len(request.prompt)
    if prompt == 0:
        raise UsageError("the prompt has no tokens", hint='omnitts ask "a question"')
    if request.most < 1:
        raise UsageError(f"the answer may have {request.most} tokens; the minimum is 1", hint="--max-tokens 1")
    if prompt + request.most > most:
        room = max(most - prompt, 0)
        fewer = "fewer words or a shorter recording" if request.sounds else "fewer words"
        hint = f"--max-tokens {room}" if room else f"ask with {fewer}, or start a new conversation"
        if prompt + request.most <= model.facts.max_positions:
            hint += f"   or   --context {prompt + request.most}"
        what = "question" if request.questions <= 1 else "conversation"
        raise InputError(
            f"the {what} has {prompt} tokens and the answer may have {request.most}; together they must not have "
            f"more than {most}",
            hint=hint,
        )


def slot_bytes(model: TextModel, plan: TextPlan) -> int:
    """Device memory of one slot: keys and values, and states that the talker reads."""
    shape = model.thinker.shape.stack
    each = 2 * shape.layers * shape.kv_heads * shape.head_dim
    if model.projection is not None and model.tower is not None:
        each += model.facts.hidden
    return each * plan.positions * model.dtype.itemsize
