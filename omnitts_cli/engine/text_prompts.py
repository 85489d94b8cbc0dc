"""TextPrompts: rows of prompts into the cache of a thinker, with recordings, and what a talker reads of them.

A long prompt is prefilled alone. Short ones lie end to end, in pieces of one slot each. Launched one by one, their
operations would take the host longer than the device, so runs are padded to a few sizes and captured: those of short
prompts, and the first of a long one. Later runs attend to a context of any length, which no graph has.
"""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import torch
from torch import Tensor

from omnitts_cli.devices.device import Device, Stream
from omnitts_cli.engine.slots import fitting, round_up
from omnitts_cli.engine.text_slots import TextPlan, TextRecord
from omnitts_cli.models.layers import KVCache, Tap
from omnitts_cli.models.prompts import Turns
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
        self._whole: dict[int, Callable[[], None]] = {}  # runs from the beginning of one prompt, by rows
        if device.pads and not device.few_graphs:
            self._prepare()

    def _prepare(self) -> None:
        model, sizes = self._model, sorted({round_up(rows, PIECE) // PIECE for rows in self._plan.prompt_rows})
        whole = sorted(rows for rows in self._plan.whole_rows if rows <= self._plan.positions)
        most = max([*whole, sizes[-1] * PIECE])
        self._rows = torch.zeros((most, model.facts.hidden), device=model.device, dtype=model.dtype)
        self._states = torch.zeros_like(self._rows) if self._tapped is not None else None
        spare = np.array([[0], [self._plan.slots]], np.int64).repeat(sizes[-1], 1)
        self._places = self._device.to_device(spare)  # starts and slots [2, pieces]
        captured = self._plan.capture and self._device.captures
        for size in reversed(whole):  # the largest first: the others fit into its memory
            run = partial(self._run_padded, 1, size, size)
            self._whole[size] = self._stream.capture(run) if captured else run
        for size in reversed(sizes):
            run = partial(self._run_padded, size, PIECE, self._cache.capacity)
            self._padded[size] = self._stream.capture(run) if captured else run

    def _run_padded(self, count: int, rows: int, width: int) -> None:
        shape = (count, rows, -1)
        states = None if self._states is None else self._states[: count * rows].view(shape)
        self._run(self._rows[: count * rows].view(shape), self._places[:, :count], width, states)

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
        start, tapped = record.prefilled, self._tapped if record.places else None
        size = next((size for size in sorted(self._whole) if size >= end), end) if start == 0 else end
        with self._stream:
            numbers = [start, record.slot, *record.request.prompt[start:end], *[0] * (size - end)]
            uploaded = self._device.to_device(np.array(numbers, np.int64))
            rows, places = self._model.thinker.rows(uploaded[2:]), uploaded[:2, None]
            self._put_sounds(record, rows, start, end)
            if start == 0 and size in self._whole:
                states = self._replay(self._whole[size], rows, places)
                if tapped is not None and states is not None:
                    tapped[record.slot, :end].copy_(states[:end])
                return
            states = None if tapped is None else tapped[record.slot : record.slot + 1, start:end]
            self._run(rows[None], places, end, states)

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
            states = self._run_pieces(rows, places, last, padded)
            for record, first in zip(records, firsts, strict=False):
                if states is not None and record.places:
                    made = states[first : first + record.wanted - record.prefilled]
                    self._tapped[record.slot, record.prefilled : record.wanted].copy_(made)
        return progress

    def _run_pieces(self, rows: Tensor, places: Tensor, width: int, padded: bool) -> Tensor | None:
        """Rows [B P, H]; returns the states, the same."""
        if padded:
            return self._replay(self._padded[places.shape[1]], rows, places)
        states = None if self._tapped is None else torch.empty_like(rows)
        pieces = rows.view(-1, PIECE, rows.shape[1])
        self._run(pieces, places, width, None if states is None else states.view(pieces.shape))
        return states

    def _replay(self, run: Callable[[], None], rows: Tensor, places: Tensor) -> Tensor | None:
        """A padded run; returns the states of its rows."""
        self._places[:, : places.shape[1]].copy_(places, non_blocking=True)
        self._rows[: len(rows)].copy_(rows)
        run()
        return None if self._states is None else self._states[: len(rows)]

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

    def is_worth(self, rows: int, wanted: int) -> bool:
        """Whether cached rows at the front of a prompt save more than a captured run from its beginning."""
        return wanted - rows <= self._plan.together or rows * 8 >= wanted or not self._whole

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
    """A buffer for the talker's input rows of recordings, by slot and position [slots, positions, H]. They are kept
    like keys and values, because the states of a recording depend on everything before it.
    """
    if model.projection is None or model.tower is None:
        return None
    shape = (plan.slots + 1, plan.positions, model.facts.hidden)
    return torch.zeros(shape, device=model.device, dtype=model.dtype)
