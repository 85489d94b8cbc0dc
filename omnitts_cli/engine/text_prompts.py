"""TextPrompts: rows of prompts into the cache of a thinker, with recordings, and what a talker reads of them.

A long prompt is prefilled alone: it keeps the device busier than the host. Short ones lie end to end, in pieces of one
slot each. Launched one by one, their operations would take the host longer than the device, so their runs are padded to
a few sizes and captured.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import torch
from torch import Tensor

from omnitts_cli.devices.device import Device, Stream
from omnitts_cli.engine.frame import fitting, round_up
from omnitts_cli.engine.text_slots import TextPlan, TextRecord
from omnitts_cli.models.layers import KVCache, Tap
from omnitts_cli.models.roles import Turns
from omnitts_cli.models.thinker import TextModel

PIECE = 8
"""Rows of one prompt that lie together."""

Progress = list[tuple[TextRecord, int]]
"""Requests, and how many rows of their prompts are in the cache now."""


class TextPrompts:
    """Prompt rows of many requests. Nothing here waits for the device."""

    def __init__(self, model: TextModel, device: Device, plan: TextPlan, cache: KVCache, stream: Stream) -> None:
        self._model, self._device, self._plan, self._cache, self._stream = model, device, plan, cache, stream
        self._tapped = tapped_states(model, plan)
        self._padded: dict[int, Callable[[], None]] = {}  # runs by number of pieces, captured where the device does
        if device.pads and not device.few_graphs:
            self._prepare()

    def _prepare(self) -> None:
        model, sizes = self._model, sorted({round_up(rows, PIECE) // PIECE for rows in self._plan.prompt_rows})
        shape = (sizes[-1], PIECE, model.facts.hidden)
        self._rows = torch.zeros(shape, device=model.device, dtype=model.dtype)
        self._states = torch.zeros_like(self._rows) if self._tapped is not None else None
        spare = np.array([[0], [self._plan.slots]], np.int64).repeat(sizes[-1], 1)
        self._places = self._device.to_device(spare)  # starts and slots [2, pieces]
        captured = self._plan.capture and self._device.captures
        for size in reversed(sizes):  # the largest first: the others fit into its memory
            run = partial(self._run_padded, size)
            self._padded[size] = self._stream.capture(run) if captured else run

    def _run_padded(self, size: int) -> None:
        states = None if self._states is None else self._states[:size]
        self._run(self._rows[:size], self._places[:, :size], self._cache.capacity, states)

    def _run(self, rows: Tensor, places: Tensor, width: int, states: Tensor | None) -> None:
        """Rows [B, P, H] at starts and slots `places` [2, B]; `states` [B, P, H] gets what the talker may read."""
        tap = None if states is None else Tap(self._model.facts.tap, states)
        self._model.thinker.prefill(rows, places[0], places[1], self._cache, width, tap)

    def launch(self, records: Sequence[TextRecord], room: int) -> Progress:
        """Prefill up to `room` rows of the first prompt, or of all that are short if it is."""
        first = records[0]
        if self._is_short(first):
            short = [record for record in records if self._is_short(record)]
            if self._padded or len(short) > 1:
                return self._launch_short(short, room)
        end = min(first.wanted, first.prefilled + room)
        self._launch_long(first, end)
        return [(first, end)]

    def _is_short(self, record: TextRecord) -> bool:
        rows = round_up(record.wanted - record.prefilled, PIECE)
        return self._device.pads and rows <= self._plan.together and record.prefilled + rows <= self._plan.positions

    def _launch_long(self, record: TextRecord, end: int) -> None:
        """Not captured: a long run keeps the device busier than the host."""
        start = record.prefilled
        with self._stream:
            numbers = [start, record.slot, *record.request.prompt[start:end]]
            uploaded = self._device.to_device(np.array(numbers, np.int64))
            rows = self._model.thinker.rows(uploaded[2:])
            self._put_sounds(record, rows, start, end)
            states = None
            if self._tapped is not None and record.places:
                states = self._tapped[record.slot : record.slot + 1, start:end]
            self._run(rows[None], uploaded[:2, None], end, states)

    def _launch_short(self, records: Sequence[TextRecord], room: int) -> Progress:
        """Rows of several prompts end to end. Padding writes rows that are not read before they are overwritten."""
        progress: Progress = []
        starts, slots, ids, firsts = [], [], [], []
        for record in records:
            rows = record.wanted - record.prefilled
            if ids and len(ids) + round_up(rows, PIECE) > room:
                break
            firsts.append(len(ids))
            starts += range(record.prefilled, record.wanted, PIECE)
            slots += [record.slot] * (len(starts) - len(slots))
            ids += [*record.request.prompt[record.prefilled : record.wanted], *[0] * (-rows % PIECE)]
            progress.append((record, record.wanted))
        padded = len(slots) <= max(self._padded, default=0)
        size = fitting(list(self._padded), len(slots)) if padded else len(slots)
        spare = size - len(slots)
        last = max(starts) + PIECE
        numbers = [*starts, *[0] * spare, *slots, *[self._plan.slots] * spare, *ids, *[0] * spare * PIECE]
        with self._stream:
            uploaded = self._device.to_device(np.array(numbers, np.int64))
            rows, places = self._model.thinker.rows(uploaded[2 * size :]), uploaded[: 2 * size].view(2, size)
            for record, first in zip(records, firsts, strict=False):
                self._put_sounds(record, rows[first:], record.prefilled, record.wanted)
            states = self._run_pieces(rows.view(size, PIECE, -1), places, last, padded)
            for record, first in zip(records, firsts, strict=False):
                if states is not None and record.places:
                    made = states.flatten(0, 1)[first : first + record.wanted - record.prefilled]
                    self._tapped[record.slot, record.prefilled : record.wanted].copy_(made)
        return progress

    def _run_pieces(self, rows: Tensor, places: Tensor, width: int, padded: bool) -> Tensor | None:
        """As `_run`; returns the states."""
        if not padded:
            states = None if self._tapped is None else torch.empty_like(rows)
            self._run(rows, places, width, states)
            return states
        size = len(rows)
        self._places[:, :size].copy_(places, non_blocking=True)
        self._rows[:size].copy_(rows)
        self._padded[size]()
        return None if self._states is None else self._states[:size]

    def _put_sounds(self, record: TextRecord, rows: Tensor, start: int, end: int) -> None:
        """Replace the rows of pad tokens at positions `start` to `end` by what the tower makes of the sounds."""
        sounds = list(zip(record.places, record.request.sounds, strict=True))
        if not record.sound_rows and any(at < end and start < at + sound.tokens for at, sound in sounds):
            for at, sound in sounds:
                if at + sound.tokens <= start:  # in the cache
                    record.sound_rows.append(rows[:0])
                    continue
                record.sound_rows.append(self._model.tower(self._device.to_device(sound.mel)).to(rows.dtype))
        for at, made in zip(record.places, record.sound_rows, strict=False):
            first, last = max(at, start), min(at + len(made), end)
            if first < last:
                rows[first - start : last - start] = made[first - at : last - at]
        if end == record.wanted:
            record.sound_rows = []

    def copy_states(self, source: int, slot: int, rows: int) -> None:
        """For a prompt that begins as the one in slot `source`."""
        if self._tapped is not None:
            self._tapped[slot, :rows].copy_(self._tapped[source, :rows])

    def turns(self, record: TextRecord) -> Turns:
        """What a talker reads of a prompt that is in the cache."""
        prompt, sounds = record.request.prompt, record.request.sounds
        positions = self._model.chat.user_positions(prompt)
        ids, index = [prompt[at] for at in positions], {at: number for number, at in enumerate(positions)}
        places, rows = [], []
        with self._stream:
            for at, sound in zip(record.places, sounds, strict=True):
                if at in index:  # sounds of other turns are not read
                    places += range(index[at], index[at] + sound.tokens)
                    rows.append(self._model.projection(self._tapped[record.slot, at : at + sound.tokens]))
            if not rows:
                return Turns(ids)
            return Turns(ids, places, torch.cat(rows), self._stream.record_event())


def tapped_states(model: TextModel, plan: TextPlan) -> Tensor | None:
    """Room for what the talker reads of recordings, by slot and position [slots, positions, H].

    It is kept like keys and values, because the states of a recording depend on all that stands before it.
    """
    if model.projection is None or model.tower is None:
        return None
    shape = (plan.slots + 1, plan.positions, model.facts.hidden)
    return torch.zeros(shape, device=model.device, dtype=model.dtype)
