"""Admission: a request becomes a prompt, the prompt fills the cache, the slot's columns are written.

Prefill is given to the frame stream in runs, so that a long prompt never holds back the others for more
than one run. What depends only on voice and language is prefilled once and copied afterwards.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from omnitts_cli.devices.device import Stream
from omnitts_cli.engine.capture import Bench, PrefillSteps, PromptRun
from omnitts_cli.engine.slots import FLAGS, REAL, WHOLE, Slot, Stop
from omnitts_cli.errors import InputError
from omnitts_cli.models.cache import KVCache
from omnitts_cli.models.roles import Draft, LiveText, Prompt
from omnitts_cli.request import Request

GUARD_FRAMES = 100
GUARD_FRAMES_PER_TOKEN = 12
"""The runaway ceiling: more than twice the slowest normal speech. Tighter ones cut slow speech off."""


def ceiling(tokens: int) -> int:
    """Frames after which a text of `tokens` tokens is taken for a runaway."""
    return GUARD_FRAMES + GUARD_FRAMES_PER_TOKEN * tokens


@dataclass(eq=False)
class Opening:
    """A request on its way into a slot: which rows are in the cache already."""

    slot: Slot
    draft: Draft
    prompt: Prompt | None = None  # its numbers, made together with those of other newcomers
    done: int = 0  # rows in the cache

    @property
    def wanted(self) -> int:
        """All rows but the last, which is the first frame's input."""
        return len(self.draft.text) - 1


class Admission:
    """Turns requests into running slots, a run of prompt rows at a time."""

    def __init__(self, bench: Bench, stream: Stream, prefill: PrefillSteps) -> None:
        self._bench, self._stream, self._prefill = bench, stream, prefill
        self._asking = bench.device.stream()  # prompts are built beside the running frames
        self._prompter = bench.model.prompter.fresh()
        self._prefixes: OrderedDict[tuple[object, ...], KVCache] = OrderedDict()

    def open(self, request: Request, more: bool, index: int) -> tuple[Opening, LiveText | None]:
        """Draft the prompt and find a slot's limits; raises OmniError when the request cannot be spoken.

        With `more`, its text is only the beginning.
        """
        feed = None
        refuse_impossible(request)
        if more:
            draft, feed = self._prompter.live(request, request.text)
        else:
            draft = self._prompter.draft(request)
        reference = 0 if draft.reference is None else len(draft.reference)
        slot = Slot(
            index=index,
            request=request,
            seed=request.seed,
            limit=self._limit(request, draft, reference, open_feed=feed is not None),
            prompt_rows=len(draft.text),
            reference=reference,
            tokens=draft.spoken,
            closing=feed is None and draft.closed,
        )
        return Opening(slot, draft), feed

    def rows(self, make: Callable[[], Tensor]) -> Tensor:
        """Rows of live text, made beside the running frames."""
        with self._asking:
            rows = make()
        self._stream.keep_alive(rows)
        self._stream.wait_event(self._asking.record_event())
        return rows

    def _limit(self, request: Request, draft: Draft, reference: int, open_feed: bool) -> int:
        plan, rows = self._bench.plan, len(draft.text)
        room = min(plan.positions - rows, plan.frames - reference)
        wanted = request.max_frames
        if room < max(1, wanted or 1):
            most = plan.positions >= self._bench.model.facts.max_positions
            raise InputError(
                f"the request needs {rows} prompt rows, {reference} reference frames and {wanted or 1} frames; "
                f"a slot holds {plan.positions} rows and {plan.frames} frames{', as many as the model has' * most}",
                hint=f"shorter text or reference, fewer --max-frames{', or an engine with longer slots' * (not most)}",
            )
        if wanted is not None:
            return wanted
        return room if open_feed else min(room, ceiling(draft.spoken))

    def advance(self, openings: Sequence[Opening]) -> list[Opening]:
        """A run of prompt rows for each; gives back those that are ready for their first frame."""
        if new := [opening for opening in openings if opening.prompt is None]:
            self._make_prompts(new)
            self._copy_prefixes(new)
        runs = []
        for opening in openings:
            left = opening.wanted - opening.done
            if left > 0:
                rows = opening.prompt.rows[opening.done : opening.done + min(left, self._prefill.longest)]
                runs.append(PromptRun(rows, opening.done, opening.slot.index))
                opening.done += rows.shape[0]
        if runs:
            self._prefill.launch(runs)
        ready = [opening for opening in openings if opening.done == opening.wanted]
        for opening in ready:
            self._keep_prefix(opening)
        if ready:
            self._write_columns(ready)
        return ready

    def _make_prompts(self, openings: Sequence[Opening]) -> None:
        with self._asking:
            prompts = self._prompter.prompts([opening.draft for opening in openings])
        for opening, prompt in zip(openings, prompts, strict=True):
            opening.prompt = prompt
            if prompt.feed.shape[0]:
                opening.slot.unsent.append(prompt.feed)
            self._stream.keep_alive(prompt.rows, prompt.feed, prompt.pad)
        self._stream.wait_event(self._asking.record_event())

    def _copy_prefixes(self, openings: Sequence[Opening]) -> None:
        """Rows that can be copied instead of computed, for all who share them at once."""
        sharing: dict[tuple[tuple[object, ...], int], list[Opening]] = {}
        for opening in openings:
            key = opening.draft.shared_key
            if (known := self._prefixes.get(key)) is not None:
                self._prefixes.move_to_end(key)
                opening.done = min(opening.draft.shared, opening.wanted, known.capacity)
                sharing.setdefault((key, opening.done), []).append(opening)
        with self._stream:
            for (key, rows), alike in sharing.items():
                slots = self._bench.indices(*[opening.slot.index for opening in alike])
                self._bench.cache.copy_prefix(self._prefixes[key], rows, slots)

    def _keep_prefix(self, opening: Opening) -> None:
        key, rows = opening.draft.shared_key, min(opening.draft.shared, opening.wanted)
        if rows == 0 or key in self._prefixes:
            return
        with self._stream:
            kept = self._bench.model.talker.cache(1, rows)
            kept.take_prefix(self._bench.cache, rows, opening.slot.index)
        self._prefixes[key] = kept
        if len(self._prefixes) > self._bench.plan.prefixes:
            self._prefixes.popitem(last=False)

    def _write_columns(self, openings: Sequence[Opening]) -> None:
        """For all of them together, as every write is a kernel of its own."""
        table, facts, to_device = self._bench.table, [], self._bench.device.to_device
        for opening in openings:
            opening.slot.closed = opening.slot.closing and not opening.slot.unsent
            facts.append(self._facts(opening))
        numbers = [[fact[name] for fact in facts] for name in (*WHOLE, *FLAGS)]
        numbers.insert(0, [opening.slot.index for opening in openings])
        reals = [[fact[name] for fact in facts] for name in REAL]
        with self._stream:
            uploaded = to_device(np.array(numbers, np.int64))
            at, wholes, flags = uploaded[0], uploaded[1 : 1 + len(WHOLE)], uploaded[1 + len(WHOLE) :]
            table.write(at, wholes, flags.bool(), to_device(np.array(reals, np.float32)))
            table.seen.index_fill_(0, at, False)
            table.row.index_copy_(0, at, torch.stack([opening.prompt.rows[-1] for opening in openings]))
            table.pad.index_copy_(0, at, torch.stack([opening.prompt.pad for opening in openings]))
            for opening in openings:
                slot, reference = opening.slot, opening.draft.reference
                if reference is not None:
                    table.codes[slot.index, : slot.reference].copy_(to_device(reference.astype(np.int64)))

    def _facts(self, opening: Opening) -> dict[str, float]:
        """What a slot begins with, by column."""
        slot = opening.slot
        settings = slot.request.sampling.over(self._bench.model.sampling)
        return {
            "position": opening.wanted,
            "made": 0,
            "stop": Stop.RUNNING,
            "limit": slot.limit,
            "reference": slot.reference,
            "last": -1,
            "repeats": 0,
            "written": 0,
            "closed": slot.closed,
            "live": True,
            "seed": slot.seed,
            "top_k": settings.top_k,
            "predictor_top_k": settings.predictor_top_k,
            "ignore_end": slot.request.ignore_end,
            "temperature": settings.temperature,
            "top_p": settings.top_p,
            "penalty": settings.repetition_penalty,
            "predictor_temperature": settings.predictor_temperature,
            "predictor_top_p": settings.predictor_top_p,
        }


def refuse_impossible(request: Request) -> None:
    """Numbers that no slot can hold."""
    if request.max_frames is not None and request.max_frames < 1:
        raise InputError(f"max_frames is {request.max_frames}; speech has at least 1 frame", hint="--max-frames 1")
    if not -(2**63) <= request.seed < 2**63:
        raise InputError(f"the seed {request.seed} does not fit into 64 bits", hint=f"--seed {request.seed % 2**32}")


def top_up(bench: Bench, stream: Stream, slot: Slot) -> None:
    """Send the text rows for which the slot's ring has room; close the feed behind the last one."""
    if not slot.unsent and slot.closed == slot.closing:
        return
    ring = bench.plan.text_rows
    table = bench.table
    with stream:
        while slot.unsent:
            room = ring + max(slot.launched - 1, 0) - slot.written
            if room <= 0:
                return
            rows = slot.unsent.popleft()
            if rows.shape[0] > room:
                slot.unsent.appendleft(rows[room:])
                rows = rows[:room]
            where = (torch.arange(rows.shape[0], device=rows.device) + slot.written) % ring
            table.text[slot.index].index_copy_(0, where, rows)
            slot.written += rows.shape[0]
            table.written[slot.index].fill_(slot.written)
        if slot.closing and not slot.closed:
            table.closed[slot.index].fill_(True)
            slot.closed = True
