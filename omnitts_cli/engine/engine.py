"""Engine: submit, feed, cancel, step, speak. The one loop.

Whole files, streams, batches and live text all drive `step`: take what was asked, admit, launch a
frame, launch the codec, collect what has arrived. The host never waits for a frame it has just
launched; it reads the reports of earlier ones.
"""

from __future__ import annotations

import itertools
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator

import numpy as np
import torch
from torch import Tensor

from omnitts_cli.audio.chunk import Chunk, Clip, Stopped
from omnitts_cli.devices.device import Device, Fetch
from omnitts_cli.engine.admission import Admission, Opening, ceiling, top_up
from omnitts_cli.engine.capture import Bench, FrameSteps, PrefillSteps
from omnitts_cli.engine.codec_jobs import CodecJobs, Decoded
from omnitts_cli.engine.inbox import Inbox
from omnitts_cli.engine.meter import AUDIBLE, RequestMeter
from omnitts_cli.engine.plan import Plan
from omnitts_cli.engine.slots import Slot, SlotTable, Stop
from omnitts_cli.engine.ticket import Ticket
from omnitts_cli.errors import ModelError, OmniError, UsageError
from omnitts_cli.models.roles import SpeechModel, TooEarly
from omnitts_cli.request import Failed, Request

News = Chunk | Failed

STOPPED: dict[Stop, Stopped] = {Stop.END: "end", Stop.LIMIT: "limit", Stop.STALL: "stall"}


class Engine:
    """Many requests on one device. `step` belongs to one thread; the other methods may be called from any."""

    @torch.no_grad()
    def __init__(self, model: SpeechModel, device: Device, plan: Plan) -> None:
        self.model, self.device, self.plan = model, device, plan
        table = SlotTable.empty(plan, model.facts, model.device, model.dtype)
        cache = model.talker.cache(plan.slots + 1, plan.positions)
        self._bench = Bench(model, device, plan, table, cache)
        self._frame_stream = device.stream(urgent=True)
        self._frames = FrameSteps(self._bench, self._frame_stream)
        prefill = PrefillSteps(self._bench, self._frame_stream)
        self._codec = CodecJobs(self._bench, self._frame_stream)
        self._admission = Admission(self._bench, self._frame_stream, prefill)
        self._inbox = Inbox()
        self._ids = itertools.count(1)
        self._tickets: dict[str, Ticket] = {}
        self._waiting: deque[Ticket] = deque()
        self._opening: list[tuple[Ticket, Opening]] = []
        self._running: dict[int, Ticket] = {}  # by slot index, in order of admission
        self._free = list(range(plan.slots - 1, -1, -1))
        self._reports: deque[tuple[Fetch, list[tuple[int, Ticket]]]] = deque()
        self._news: list[News] = []
        self.frames_launched = 0
        device.synchronize()

    # ---- asking, from any thread

    def submit(self, request: Request, *, live: bool = False) -> str:
        """Ask for speech. With `live`, more text may follow through `feed`, until `finish`."""
        name = request.id or next(name for n in self._ids if (name := f"r{n}") not in self._tickets)
        meter = RequestMeter(self.model.facts.sample_rate, time.perf_counter())
        ticket = Ticket(name, request, meter, live=live, open_text=live, early=request.text)
        if self._tickets.setdefault(name, ticket) is not ticket:
            raise UsageError(f"a request with the id '{name}' is already being spoken")
        self._ask(name, self._waiting.append)
        return name

    def feed(self, name: str, text: str) -> None:
        """More text for a live request."""
        self._ask(name, lambda ticket: self._hear_text(ticket, text))

    def finish(self, name: str) -> None:
        """No more text will come for a live request; it speaks to its end."""
        self._ask(name, self._close_text)

    def cancel(self, name: str) -> None:
        """Stop a request; its slot is free by the next frame and its last chunk says "cancelled"."""
        self._ask(name, self._cancel)

    def pause(self, name: str) -> None:
        """A slow listener: this request makes no more frames until `resume`. The others go on."""
        self._ask(name, lambda ticket: self._set_paused(ticket, True))

    def resume(self, name: str) -> None:
        self._ask(name, lambda ticket: self._set_paused(ticket, False))

    def meter(self, name: str) -> RequestMeter:
        """The meter of a request that is still known, that is until its last chunk was handed out."""
        return self._tickets[name].meter

    @property
    def busy(self) -> bool:
        return bool(self._tickets) or bool(self._inbox) or bool(self._news)

    # ---- turning

    @torch.no_grad()
    def step(self) -> list[News]:
        """One turn: every slot that can gains a frame, and what has arrived is handed out.

        Sleeps only when nothing is under way and every request waits for its caller.
        """
        for ask in self._inbox.take(wait=self._idle):
            ask()
        self._admit()
        launched = self._launch_frame()
        decoded = self._codec.launch(slot for _, slot in self._slots())
        self._collect_reports(everything=not launched)
        decoded |= self._codec.launch(slot for _, slot in self._slots())
        self._collect_sound(wait=not launched and not decoded and not self._opening)
        news, self._news = self._news, []
        return news

    def speak(self, requests: Iterable[Request]) -> Iterator[News]:
        """Submit and drive until all is spoken. Order is kept within a request, not between them."""
        for request in requests:
            self.submit(request)
        while self.busy:
            yield from self.step()

    def clip(self, request: Request) -> Clip:
        """One request, whole: the join of its chunks. What happens to others meanwhile is told by the next step."""
        name, mine, others = self.submit(request), [], []
        while not any(isinstance(news, Failed) or news.last for news in mine[-1:]):
            for news in self.step():
                (mine if news.request == name else others).append(news)
        self._news = others + self._news
        if isinstance(mine[-1], Failed):
            raise mine[-1].error
        return Clip.join(mine)

    @property
    def _idle(self) -> bool:
        if self._reports or self._codec.under_way or self._opening or self._news or not self._tickets:
            return False
        if any(ticket.speakable for ticket in self._waiting) and self._free:
            return False
        return not any(slot.runnable or slot.undecoded for _, slot in self._slots())

    def _slots(self) -> list[tuple[Ticket, Slot]]:
        return [(ticket, ticket.slot) for ticket in self._running.values() if ticket.slot is not None]

    # ---- asks, on the engine's thread

    def _ask(self, name: str, what: Callable[[Ticket], None]) -> None:
        ticket = self._tickets.get(name)
        if ticket is not None:  # a request that has just ended needs nothing any more
            self._inbox.put(lambda: self._answer(ticket, what))

    def _answer(self, ticket: Ticket, what: Callable[[Ticket], None]) -> None:
        if self._tickets.get(ticket.id) is not ticket:  # it has ended since, and another may have its id
            return
        try:
            what(ticket)
        except OmniError as error:
            self._fail(ticket, error)

    def _hear_text(self, ticket: Ticket, text: str) -> None:
        if not ticket.open_text:
            return
        if ticket.feed is None or ticket.slot is None:
            ticket.early, ticket.too_early = ticket.early + text, False
            return
        self._send_text(ticket, ticket.slot, self._admission.rows(lambda: ticket.feed.write(text)))

    def _close_text(self, ticket: Ticket) -> None:
        if not ticket.open_text:
            return
        ticket.open_text = False
        slot = ticket.slot
        if ticket.feed is None or slot is None:
            return
        rows = self._admission.rows(ticket.feed.close)
        slot.closing = True
        self._send_text(ticket, slot, rows)
        if slot.request.max_frames is None:  # now the length of the text is known
            slot.limit = min(slot.limit, max(ceiling(slot.tokens), slot.launched + 1))
            with self._frame_stream:
                self._bench.table.limit[slot.index].fill_(slot.limit)

    def _send_text(self, ticket: Ticket, slot: Slot, rows: Tensor) -> None:
        slot.tokens += rows.shape[0]
        if rows.shape[0]:
            slot.unsent.append(rows)
        if self._running.get(slot.index) is ticket:  # a slot that is not yet open has its columns still to come
            top_up(self._bench, self._frame_stream, slot)

    def _set_paused(self, ticket: Ticket, paused: bool) -> None:
        ticket.paused = paused
        if ticket.slot is not None:
            ticket.slot.paused = paused

    def _cancel(self, ticket: Ticket) -> None:
        if ticket in self._waiting:
            self._waiting.remove(ticket)
        self._end(ticket, "cancelled")

    # ---- admission

    def _admit(self) -> None:
        self._opening = [one for one in self._opening if one[0].slot is one[1].slot]  # the others were cancelled
        began = len(self._opening)
        # a burst of newcomers enters over several turns, so that the first of them speaks at once
        while self._free and len(self._opening) < self.plan.admissions:
            ticket = next((t for t in self._waiting if t.speakable), None)
            if ticket is None:
                break
            self._open(ticket)
        if new := [opening.slot.index for _, opening in self._opening[began:]]:
            self._codec.clear(new)
        ready = self._admission.advance([opening for _, opening in self._opening])
        for ticket, opening in self._opening:
            if opening in ready:
                top_up(self._bench, self._frame_stream, opening.slot)
                self._running[opening.slot.index] = ticket
        self._opening = [one for one in self._opening if one[1] not in ready]

    def _open(self, ticket: Ticket) -> None:
        index = self._free[-1]
        try:
            opening, ticket.feed = self._admission.open(ticket.known, ticket.open_text, index)
        except TooEarly:  # it keeps its place in the queue until there is more text
            ticket.too_early = True
            return
        except OmniError as error:
            self._waiting.remove(ticket)
            self._fail(ticket, error)
            return
        self._waiting.remove(ticket)
        self._free.pop()
        ticket.slot, opening.slot.paused = opening.slot, ticket.paused
        self._opening.append((ticket, opening))

    # ---- frames

    def _launch_frame(self) -> bool:
        rows = [(ticket, slot) for ticket, slot in self._slots() if slot.runnable]
        if not rows:
            return False
        self._frames.launch(
            [slot.index for _, slot in rows], max(slot.prompt_rows - 1 + slot.launched for _, slot in rows)
        )
        for _, slot in rows:
            slot.launched += 1
            if slot.unsent:
                top_up(self._bench, self._frame_stream, slot)
        report = self._frame_stream.fetch(self._bench.table.report)
        self._reports.append((report, [(slot.index, ticket) for ticket, slot in rows]))
        self.frames_launched += 1
        return True

    def _collect_reports(self, everything: bool) -> None:
        while self._reports:
            fetch, rows = self._reports[0]
            if not (everything or len(self._reports) >= self.plan.ahead or fetch.done()):
                return
            self._reports.popleft()
            made, stop = fetch.wait()[0]
            for index, ticket in rows:
                slot = ticket.slot
                if self._running.get(index) is not ticket or slot is None or slot.stop is not Stop.RUNNING:
                    continue  # it has ended since this frame was launched
                slot.made, slot.stop = int(made[index]), Stop(int(stop[index]))
                if slot.stop is Stop.BROKEN:
                    what = f"the model gave numbers that are not finite at frame {slot.made + 1}"
                    self._fail(ticket, ModelError(what, hint="--dtype fp32"))
                elif slot.stop is not Stop.RUNNING and slot.final == slot.delivered:
                    self._end(ticket, STOPPED[slot.stop])

    # ---- sound

    def _collect_sound(self, wait: bool) -> None:
        for decoded in self._codec.collect(wait):
            ticket = self._running.get(decoded.slot.index)
            if ticket is not None and ticket.slot is decoded.slot:  # it has not ended since
                self._deliver(ticket, decoded)

    def _deliver(self, ticket: Ticket, decoded: Decoded) -> None:
        slot, start, sound, codes = decoded.slot, decoded.start, decoded.sound, decoded.codes
        frames = codes.shape[0]
        slot.delivered = start + frames
        if start < slot.reference:
            return
        now = time.perf_counter()
        slot.first_sound = slot.first_sound or now
        kept = self._until_silence(slot, sound, frames)
        per_frame = sound.shape[0] // frames
        last = slot.silent or slot.delivered == slot.final
        stopped = None if not last else "silence" if slot.silent else STOPPED[slot.stop]
        missing = self.model.facts.missing_samples if start == 0 else 0
        self._hand_out(ticket, slot, sound[missing : kept * per_frame].copy(), codes[:kept].copy(), stopped)
        if last:
            self._forget(ticket, stopped)

    def _until_silence(self, slot: Slot, sound: np.ndarray, frames: int) -> int:
        """How many frames to keep: all, unless the request has now been silent for too long."""
        if slot.request.ignore_end:
            return frames
        for index, peak in enumerate(np.abs(sound).reshape(frames, -1).max(1)):
            slot.quiet = slot.quiet + 1 if peak < AUDIBLE else 0
            if slot.quiet >= self.plan.silence_frames:
                slot.silent = True
                return index + 1
        return frames

    # ---- handing out

    def _hand_out(
        self, ticket: Ticket, slot: Slot | None, pcm: np.ndarray, codes: np.ndarray, stopped: Stopped | None
    ) -> None:
        """A chunk for the caller; with `stopped` it is the last."""
        ticket.meter.hear(pcm, time.perf_counter())
        index = 0
        if slot is not None:
            index, slot.chunks = slot.chunks, slot.chunks + 1
        self._news.append(Chunk(ticket.id, index, pcm, codes, stopped is not None, stopped))

    def _end(self, ticket: Ticket, stopped: Stopped) -> None:
        """An empty last chunk says why there is no more."""
        codes = np.zeros((0, self.model.facts.groups), np.int64)
        self._hand_out(ticket, ticket.slot, np.zeros(0, np.float32), codes, stopped)
        self._forget(ticket, stopped)

    def _fail(self, ticket: Ticket, error: OmniError) -> None:
        self._news.append(Failed(ticket.id, error))
        self._forget(ticket, "failed")

    def _forget(self, ticket: Ticket, stopped: str) -> None:
        """The request is over and its slot is free."""
        slot, ticket.slot = ticket.slot, None
        ticket.meter.end(time.perf_counter(), stopped)
        self._tickets.pop(ticket.id, None)
        if slot is None:
            return
        with self._frame_stream:
            self._bench.table.live[slot.index].fill_(False)
            if slot.stop in (Stop.RUNNING, Stop.BROKEN):  # nobody knows that its latest frames were finite
                self._bench.cache.clear(slot.index)
        self._running.pop(slot.index, None)
        self._free.append(slot.index)
