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
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from omnitts_cli.devices.device import Device, Fetch
from omnitts_cli.engine.text_slots import WHOLE, TextPlan, TextStop, TextTable, text_step
from omnitts_cli.errors import InputError, ModelError, OmniError, UsageError
from omnitts_cli.models.audio_tower import Sound
from omnitts_cli.models.layers import Tap
from omnitts_cli.models.roles import Turns
from omnitts_cli.models.thinker import TextModel

PIECE = 8
"""Rows of one prompt that lie together when several prompts are prefilled at once."""


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
    spoken: bool = False  # a talker reads the user turns, and is waiting for the first token


@dataclass(frozen=True)
class Token:
    """News of one request: a token, or with `stopped` the end. `error` is set if the request failed."""

    request: int
    id: int | None = None
    stopped: str | None = None  # end, limit, cancelled, failed
    error: OmniError | None = None
    cached: int = 0  # at the end: prompt tokens that were in the cache already
    turns: Turns | None = None  # before the first token of a spoken answer: what its talker reads of the prompt

    @property
    def last(self) -> bool:
        """Whether no more tokens follow."""
        return self.stopped is not None


@dataclass(eq=False)
class TextRecord:
    """What the host knows of one request."""

    id: int
    request: TextRequest
    slot: int = -1
    prefilled: int = 0  # prompt rows in the cache
    reused: int = 0  # of these, rows of an earlier request
    launched: int = 0  # steps; exact until the request stops
    tokens: list[int] = field(default_factory=list)
    submitted: float = 0.0
    keys: list[int] = field(default_factory=list)  # the prompt, with what a sound holds instead of its pads
    places: list[int] = field(default_factory=list)  # of the first row of each sound
    sound_rows: list[Tensor] = field(default_factory=list)  # of each sound [tokens, H]

    @property
    def wanted(self) -> int:
        """Prompt rows to prefill: all but the last, which is the input of the first step."""
        return len(self.request.prompt) - 1

    @property
    def runnable(self) -> bool:
        """Whether the next token may be launched."""
        return self.slot >= 0 and self.prefilled == self.wanted and self.launched < self.request.most


class TextLoop:
    """Many conversations on one device. All methods belong to one thread."""

    @torch.no_grad()
    def __init__(self, model: TextModel, device: Device, plan: TextPlan) -> None:
        self.model, self.device, self.plan = model, device, plan
        self._stream = device.stream(urgent=True)
        self._table = TextTable.empty(plan.slots, model.facts, model.device)
        self._cache = model.thinker.cache(plan.slots + 1, plan.positions)
        self._tapped = tapped_states(model, plan)
        self._ids = itertools.count(1)
        self._waiting: deque[TextRecord] = deque()
        self._admitted: list[TextRecord] = []  # in the order in which they got their slots
        self._free = list(range(plan.slots))  # the one that has been free for longest comes first
        self._held: list[list[int]] = [[] for _ in range(plan.slots)]  # tokens whose keys and values a slot holds
        self._reports: deque[tuple[Fetch, list[TextRecord]]] = deque()
        self._news: list[Token] = []
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

        With `hold`, prompts are prefilled, but no request gains a token.
        """
        self._admit()
        launched = not hold and self._launch()
        prefilled = self._prefill(alone=not launched and not hold)
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
        slot = max(self._free, key=lambda one: common[one])  # of equal ones, the first: free for longest
        source = max(range(self.plan.slots), key=lambda one: common[one])
        if common[source] > common[slot]:
            slot = self._free[0]
            rows = common[source]
            with self._stream:
                for kept in (self._cache.keys, self._cache.values):
                    kept[:, slot, :, :rows].copy_(kept[:, source, :, :rows])
                if self._tapped is not None:
                    self._tapped[slot, :rows].copy_(self._tapped[source, :rows])
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
        first = records[0]
        together = [record for record in records if self._fits_together(record)] if self.device.pads else []
        if first in together and len(together) > 1:
            self._prefill_together(together, room)
        else:
            rows = min(first.wanted - first.prefilled, room)
            self._launch_rows(first, rows)
        return True

    def _fits_together(self, record: TextRecord) -> bool:
        rows = -(-(record.wanted - record.prefilled) // PIECE) * PIECE
        return not record.places and rows <= self.plan.together and record.prefilled + rows <= self.plan.positions

    def _launch_rows(self, record: TextRecord, rows: int) -> None:
        """Prefill `rows` rows of one prompt, not captured: a long run keeps the device busier than the host."""
        start, end = record.prefilled, record.prefilled + rows
        with self._stream:
            numbers = [start, record.slot, *record.request.prompt[start:end]]
            uploaded = self.device.to_device(np.array(numbers, np.int64))
            embedded = self.model.thinker.rows(uploaded[2:])[None]
            self._put_sounds(record, embedded[0], start, end)
            tap = None
            if self._tapped is not None:
                tap = Tap(self.model.facts.tap, self._tapped[record.slot : record.slot + 1, start:end])
            self.model.thinker.prefill(embedded, uploaded[:1], uploaded[1:2], self._cache, end, tap)
        self._note(record, end)

    def _put_sounds(self, record: TextRecord, rows: Tensor, start: int, end: int) -> None:
        """Replace the rows of pad tokens at positions `start` to `end` by what the tower makes of the sounds."""
        if not record.sound_rows and any(at < end for at in record.places):
            for sound in record.request.sounds:
                record.sound_rows.append(self.model.tower(self.device.to_device(sound.mel)).to(rows.dtype))
        for at, made in zip(record.places, record.sound_rows, strict=False):
            first, last = max(at, start), min(at + len(made), end)
            if first < last:
                rows[first - start : last - start] = made[first - at : last - at]
        if end == record.wanted:
            record.sound_rows = []

    def _prefill_together(self, records: Sequence[TextRecord], room: int) -> None:
        """Rows of several short prompts end to end, in pieces of one slot each. Padding writes rows that are not read
        before they are overwritten.
        """
        starts, slots, ids = [], [], []
        for record in records:
            rows = record.wanted - record.prefilled
            pieces = -(-rows // PIECE)
            if ids and len(ids) + pieces * PIECE > room:
                break
            starts += range(record.prefilled, record.prefilled + rows, PIECE)
            slots += [record.slot] * pieces
            ids += [*record.request.prompt[record.prefilled : record.wanted], *[0] * (pieces * PIECE - rows)]
            self._note(record, record.wanted)
        with self._stream:
            uploaded = self.device.to_device(np.array([*starts, *slots, *ids], np.int64))
            at, where, rows = uploaded.split([len(starts), len(slots), len(ids)])
            embedded = self.model.thinker.rows(rows.view(-1, PIECE))
            self.model.thinker.prefill(embedded, at, where, self._cache, max(starts) + PIECE)

    def _note(self, record: TextRecord, end: int) -> None:
        self.rows_prefilled += end - record.prefilled
        self._held[record.slot] += record.keys[record.prefilled : end]
        record.prefilled = end

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
                    self._replays[size, greedy] = self._stream.capture(
                        lambda size=size, greedy=greedy: self._run(size, greedy, self.plan.positions)
                    )

    def _run(self, size: int, greedy: bool, width: int) -> None:
        text_step(self.model, self._table, self._cache, self._slots[size], width, greedy)

    def _launch(self) -> bool:
        """One token for every request whose prompt is in the cache."""
        records = [record for record in self._admitted if record.runnable]
        if not records:
            return False
        new = [record for record in records if record.request.spoken and not record.launched]
        for record in new:
            self._news.append(Token(record.id, turns=self._turns(record)))
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

    def _turns(self, record: TextRecord) -> Turns:
        """What a talker reads of a prompt that is in the cache."""
        prompt, sounds = record.request.prompt, record.request.sounds
        positions = self.model.chat.user_positions(prompt)
        ids, index = [prompt[at] for at in positions], {at: number for number, at in enumerate(positions)}
        places, rows = [], []
        with self._stream:
            for at, sound in zip(record.places, sounds, strict=True):
                if at in index:  # sounds of other turns are not read
                    places += range(index[at], index[at] + sound.tokens)
                    rows.append(self.model.projection(self._tapped[record.slot, at : at + sound.tokens]))
            if not rows:
                return Turns(ids)
            return Turns(ids, places, torch.cat(rows), self._stream.record_event())

    def _collect(self, everything: bool) -> None:
        while self._reports:
            fetch, records = self._reports[0]
            first = any(record.request.spoken and not record.tokens for record in records)
            if not (everything or first or len(self._reports) >= self.plan.ahead or fetch.done()):
                return
            self._reports.popleft()
            tokens, made, stop = fetch.wait()[0]
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
    """Tokens at the front that both have."""
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
        raise InputError(
            f"the question has {prompt} tokens and the answer may have {request.most}; together they must not have "
            f"more than {most}",
            hint=hint,
        )


def tapped_states(model: TextModel, plan: TextPlan) -> Tensor | None:
    """Room for what the talker reads of recordings, by slot and position [slots, positions, H].

    It is kept like keys and values, because the states of a recording depend on all that stands before it.
    """
    if model.projection is None or model.tower is None:
        return None
    shape = (plan.slots + 1, plan.positions, model.facts.hidden)
    return torch.zeros(shape, device=model.device, dtype=model.dtype)


def slot_bytes(model: TextModel, plan: TextPlan) -> int:
    """Device memory of one slot: keys and values, and states that the talker reads."""
    shape = model.thinker.shape.stack
    each = 2 * shape.layers * shape.kv_heads * shape.head_dim
    if model.projection is not None and model.tower is not None:
        each += model.facts.hidden
    return each * plan.positions * model.dtype.itemsize
