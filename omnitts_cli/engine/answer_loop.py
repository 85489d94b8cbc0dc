"""AnswerLoop: submit, cancel, step. A thinker writes many answers at once, token by token, and a talker speaks them
while they are written.

One turn of both: admission, one token for every request that has its prompt in the cache, a run of prompt rows for new
ones; then a step of the engine of the talker. The host never waits for the step it has just launched; it reads the
tokens of earlier ones. They go to the talker as soon as the host knows them. Frames do not depend on when they arrive:
without the next token a voice misses a frame, and goes on afterwards. A slot keeps the keys and values of its last
conversation, so a request that begins with the same tokens prefills only what is new.
"""

import itertools
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import torch

from omnitts_cli.audio.chunk import Chunk
from omnitts_cli.devices.device import Device
from omnitts_cli.engine.engine import Engine, News
from omnitts_cli.engine.slots import BatchSteps, Reports, Stop, round_up
from omnitts_cli.engine.text_prompts import TextPrompts
from omnitts_cli.engine.text_slots import WHOLE, TextPlan, TextRecord, TextRequest, TextTable, Token, text_step
from omnitts_cli.errors import InputError, ModelError, UsageError
from omnitts_cli.models.thinker import TextModel
from omnitts_cli.request import Failed, Request

LEAD = 8
"""Tokens that the talker has not read yet. If every voice has as many, the thinker's step gives way to frames."""


class AnswerLoop:
    """Answers of one model. All methods belong to one thread. Without an engine, answers are text only."""

    @torch.no_grad()
    def __init__(self, model: TextModel, device: Device, plan: TextPlan, speech: Engine | None = None) -> None:
        self.model, self.device, self.plan, self.speech = model, device, plan, speech
        self._stream = stream = device.stream(urgent=True)
        self._table = TextTable.empty(plan.slots, model.facts, model.device)
        self._cache = model.thinker.cache(plan.slots + 1, plan.positions)
        self._prompts = TextPrompts(model, device, plan, self._cache, stream)
        self._ids = itertools.count(1)
        self._waiting: deque[TextRecord] = deque()
        self._admitted: list[TextRecord] = []  # in the order in which they got their slots
        self._free = list(range(plan.slots))  # the one that has been free for longest comes first
        self._held: list[list[int]] = [[] for _ in range(plan.slots)]  # tokens whose keys and values are in the slot
        self._sounding: dict[str, TextRecord] = {}  # answers whose sound has not ended
        self._reports: Reports[TextRecord] = Reports(plan.ahead)
        self._news: list[Token | News] = []
        self._begun = False  # first tokens of spoken answers are in flight; they are awaited before any launch
        self.steps_launched = 0
        self.rows_prefilled = 0
        self._captures = plan.capture and device.captures
        step = partial(text_step, model, self._table, self._cache)
        self._steps = BatchSteps(
            device, plan.buckets if device.pads else range(1, plan.slots + 1), plan.slots, self._cache.capacity,
            {greedy: partial(step, greedy=greedy) for greedy in (False, True)}, stream if self._captures else None,
        )  # fmt: skip
        device.synchronize()

    def submit(self, request: TextRequest, voice: Request | None = None) -> str:
        """Queue a question and return its name; raises InputError if it cannot fit. `voice`: how to speak the answer;
        its text is not used.
        """
        refuse_impossible(request, self.plan, self.model)
        record = TextRecord(f"a{next(self._ids)}", request, voice, submitted=time.perf_counter())
        record.places = sound_places(request, self.model)
        record.keys = prompt_keys(request, record.places)
        self._waiting.append(record)
        if voice is not None:
            self._sounding[record.id] = record
        return record.id

    def cancel(self, name: str) -> None:
        """Stop text and speech of a request in whatever state."""
        self._silence(name)
        for record in [*self._waiting, *self._admitted]:
            if record.id == name:
                self._end(record, "cancelled")

    @property
    def writes(self) -> bool:
        """Whether a text has not ended."""
        return bool(self._waiting or self._admitted)

    @property
    def busy(self) -> bool:
        """Whether anything is left for `step`."""
        return self.writes or bool(self._news) or (self.speech is not None and self.speech.busy)

    def step(self) -> list[Token | News]:
        """One turn; returns the tokens, the sound and the ends that have arrived."""
        if self.writes:
            self._write(hold=self._ahead())
        if self.speech is not None and self.speech.busy and not self.speech.sleeps:
            for one in self.speech.step():
                self._pass_on(one)
        news, self._news = self._news, []
        return news

    @torch.no_grad()
    def _write(self, hold: bool) -> None:
        """Every running request gains a token.

        With `hold`, prompts are prefilled, but no request gains a token. Before its first token, a spoken answer gives
        a turn to its talker, which reads the question meanwhile.
        """
        if self._begun:
            self._collect(everything=False)
            self._begun = False
            return
        self._admit()
        launched = not hold and self._launch()
        prefilled = self._prefill(alone=not launched and not hold)
        if not self._begun:
            self._collect(everything=not launched and not prefilled and not hold)

    @property
    def _ready(self) -> list[TextRecord]:
        """The requests that may gain a token."""
        return [record for record in self._admitted if record.runnable]

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
            wholes.append([at.prompt[-1], 0, Stop.RUNNING, record.wanted, at.most, at.seed, at.top_k, 1])
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

    def _launch(self) -> bool:
        """One token for every request whose prompt is in the cache."""
        records = self._ready
        new = [record for record in records if record.voice is not None and not record.launched]
        for record in new:
            assert record.voice is not None
            voice = replace(record.voice, id=record.id)
            self._speaking.submit(voice, live=True, turns=self._prompts.turns(record))
        self._begun = bool(new)
        records = new or records  # fewer rows make a shorter step, so first tokens come sooner
        if not records:
            return False
        last = max(record.wanted + record.launched for record in records)
        width = min(round_up(last + 1, 32), self.plan.positions)
        with self._stream:
            greedy = all(record.request.temperature == 0 for record in records)
            self._steps.launch([record.slot for record in records], width, greedy)
        for record in records:
            record.launched += 1
        self._reports.waiting.append((self._stream.fetch(self._table.report), records))
        self.steps_launched += 1
        return True

    def _collect(self, everything: bool) -> None:
        for records, (tokens, made, stops) in self._reports.arrived(everything, awaits_first):
            for record, token, count, stop in zip(records, tokens, made, stops, strict=True):
                if record in self._admitted:  # else it has ended since this step was launched
                    self._report(record, token, count, stop)

    def _report(self, record: TextRecord, token: int, made: int, stop: int) -> None:
        assert made == len(record.tokens) + 1
        if stop == Stop.BROKEN:
            what = f"the model produced NaN or infinite values at token {made}"
            self._news.append(Failed(record.id, ModelError(what, hint="--dtype fp32")))
            self._leave(record)
            self._silence(record.id)
            with self._stream:
                self._cache.clear(record.slot)
            self._held[record.slot] = []
            return
        # the token that was the input of this step is in the cache now
        self._held[record.slot].append(record.tokens[-1] if record.tokens else record.request.prompt[-1])
        record.tokens.append(token)
        if stop != Stop.END:
            self._news.append(Token(record.id, token))
            self._speak(record, token)
        if stop != Stop.RUNNING:
            self._end(record, "end" if stop == Stop.END else "limit")

    def _end(self, record: TextRecord, stopped: str) -> None:
        self._news.append(Token(record.id, None, stopped, record.reused))
        self._leave(record)
        self._speak(record, None)

    def _leave(self, record: TextRecord) -> None:
        """The text has ended; its slot is free and keeps its rows for the next one."""
        if record in self._waiting:
            self._waiting.remove(record)
            return
        self._admitted.remove(record)
        self._free.append(record.slot)
        with self._stream:
            self._table.wholes[WHOLE.index("live"), record.slot].fill_(0)

    # ---- speech

    @property
    def _speaking(self) -> Engine:
        assert self.speech is not None, "an answer has a voice only if there is a talker"
        return self.speech

    def _ahead(self) -> bool:
        """Whether frames are more urgent than tokens: every answer that could gain one is far ahead of its voice."""
        ready = self._ready if self._sounding else []
        return bool(ready) and all(
            record.id in self._sounding and not record.closed and self._speaking.unread(record.id) >= LEAD
            for record in ready
        )

    def _speak(self, record: TextRecord, token: int | None) -> None:
        """Give the talker the next token. Where the text ends, so does the speech; without a word it does not begin."""
        if record.id not in self._sounding or record.closed:
            return
        if token is not None and not self.model.chat.is_control(token):
            record.fed += 1
            self._speaking.feed(record.id, [token])
            return
        record.closed = True
        if record.fed:
            self._speaking.finish(record.id)
            return
        self._silence(record.id)
        codes = np.zeros((0, self._speaking.model.facts.groups), np.int64)
        self._news.append(Chunk(record.id, 0, np.zeros(0, np.float32), codes, True, "end"))

    def _silence(self, name: str) -> None:
        """Stop the speech of an answer."""
        if self._sounding.pop(name, None) is not None:
            self._speaking.cancel(name)

    def _pass_on(self, news: News) -> None:
        """Hand out what the talker has made; without its voice, an answer ends."""
        if news.request not in self._sounding:  # cancelled
            return
        self._news.append(news)
        if isinstance(news, Failed):
            self.cancel(news.request)
        elif news.last:
            del self._sounding[news.request]


def awaits_first(records: Sequence[TextRecord]) -> bool:
    """Whether a talker waits for the first token of one of them."""
    return any(record.voice is not None and not record.tokens for record in records)


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
