"""Engine: submit, feed, cancel, step, speak. The one loop.

Whole files, streams, batches and live text all drive `step`: take the calls of other threads, admit requests, launch a
frame, launch the codec, collect what has arrived. The host never waits for a frame it has just launched; it reads the
reports of earlier ones.
"""

import copy
import itertools
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from queue import SimpleQueue
from typing import Any

import numpy as np

from omnitts_cli.audio.chunk import Chunk, Clip, Stopped
from omnitts_cli.devices.device import Device, Stream
from omnitts_cli.engine.admission import Admission, PrefillSteps, runaway_limit, top_up
from omnitts_cli.engine.codec_jobs import CodecJobs, Decoded
from omnitts_cli.engine.slots import AUDIBLE, BatchSteps, Plan, Record, Reports, SlotTable, State, StepContext, Stop
from omnitts_cli.engine.snapshot import Snapshot
from omnitts_cli.errors import InputError, ModelError, OmniError, UsageError
from omnitts_cli.kernels.arrays import read, set_number, without_gradients
from omnitts_cli.models.prompts import Turns
from omnitts_cli.models.roles import SpeechModel
from omnitts_cli.request import BULK, Failed, Request

News = Chunk | Failed

STOPPED: dict[Stop, Stopped] = {Stop.END: "end", Stop.LIMIT: "limit", Stop.STALL: "stall"}


def frame_steps(context: StepContext, stream: Stream) -> BatchSteps:
    """One frame for each batch size."""
    table: Any = context.table  # its columns are written, its fields are not
    kinds = {False: context.model.frames(table, context.cache, context.plan.stall_frames)}
    captures, capacity = stream if context.captures else None, context.cache.capacity
    return BatchSteps(context.device, context.plan.buckets, context.spare, capacity, kinds, captures)


class Engine:
    """Many requests on one device. `step` belongs to one thread; the other methods may be called from any."""

    def __init__(self, model: SpeechModel, device: Device, plan: Plan) -> None:
        self.model, self.device, self.plan = model, device, plan
        with without_gradients(model.device):
            table = SlotTable.empty(plan, model.facts, model.device, model.dtype)
            cache = model.cache(plan.slots + 1, plan.positions)
            self._context = context = StepContext(model, device, plan, table, cache)
            self._frame_stream = stream = device.stream(urgent=True)
            self._frames = frame_steps(context, stream)
            self._codec = CodecJobs(context, stream)
            self._admission = Admission(context, stream, PrefillSteps(context, stream), self._fail)
        self._inbox: SimpleQueue[Callable[[], None]] = SimpleQueue()  # calls of other threads
        self._ids = itertools.count(1)
        self._records: dict[str, Record] = {}  # all that are not done, by id
        self._admitted = self._admission.records  # those with a slot
        self.admitted = self._admission.since  # their names -> since when
        self._reports: Reports[Record] = Reports(plan.ahead)
        self._news: list[News] = []
        self._launched_at: float | None = None  # the latest frame; None after a turn without one
        self._turn_s = 1 / model.facts.frame_rate  # from one frame to the next, on average
        self.sleeping = False  # `step` waits for a call because every request waits for its caller
        device.synchronize()

    # ---- calls from any thread

    def submit(
        self,
        request: Request,
        *,
        live: bool = False,
        turns: Turns | None = None,
        priority: int = BULK,
        client: str = "",
    ) -> str:
        """Queue a request and return its id. With `live`, more text may follow through `feed`, until `finish`.

        `turns` (only with `live`): the user turns that this text answers; `feed` then takes token ids.
        """
        name = request.id or next(name for n in self._ids if (name := f"r{n}") not in self._records)
        early: str | list[int] = request.text if turns is None else []
        record = Record(
            name, request, priority=priority, client=client, live=live, open_text=live, turns=turns, early=early
        )
        if self._records.setdefault(name, record) is not record:
            raise UsageError(f"a request with the id '{name}' is already being spoken")
        self._call(name, self._admission.wait)
        return name

    def feed(self, name: str, text: str | Sequence[int]) -> None:
        """More text for a live request, or more tokens of its answer."""
        self._call(name, lambda record: self._add_text(record, text))

    def finish(self, name: str) -> None:
        """No more text will come for a live request; it speaks to its end."""
        self._call(name, self._close_text)

    def cancel(self, name: str) -> None:
        """Stop a request in whatever state; the next step frees its slot and its last chunk says "cancelled"."""
        self._call(name, self._cancel)

    def pause(self, name: str) -> None:
        """Stop making frames for this request until `resume`, for a slow listener. The others go on."""
        self._call(name, lambda record: setattr(record, "paused", True))

    def resume(self, name: str) -> None:
        """Let a paused request go on."""
        self._call(name, lambda record: setattr(record, "paused", False))

    def unread(self, name: str) -> int:
        """Tokens of a request with `turns` that no frame has read yet; 0 for a request that has ended."""
        record = self._records.get(name)
        if record is None:
            return 0
        tokens = record.tokens if record.slot >= 0 else len(record.early)
        return max(0, tokens - record.launched)

    @property
    def queued(self) -> int:
        """How many requests wait for a slot."""
        return self._admission.queued

    @property
    def frames_launched(self) -> int:
        """The number of frame steps launched so far; each advances several requests."""
        return self._admission.frames

    @property
    def sleeps(self) -> bool:
        """Whether the next step would wait for a call, because every request waits for its caller."""
        return self._idle and self._inbox.empty()

    @property
    def busy(self) -> bool:
        """Whether a request, a call or a chunk is left for `step`."""
        return bool(self._records) or not self._inbox.empty() or bool(self._news)

    # ---- the loop, on one thread

    def step(self) -> list[News]:
        """One turn: every request that can gains a frame; returns the chunks and failures that have arrived.

        Sleeps only when nothing is in flight and every request waits for its caller.
        """
        with without_gradients(self.model.device), self._frame_stream:
            return self._turn()

    def _turn(self) -> list[News]:
        if self._idle:
            self.sleeping = self._inbox.empty()
            call = self._inbox.get()
            self.sleeping = False
            call()
        while not self._inbox.empty():
            self._inbox.get()()
        new = self._admission.admit()
        launched = self._launch_frame()
        self._time_turn(launched)
        if new:  # after the frame, so that it starts without delay
            self._codec.clear([record.slot for record in new])
        decoded = self._decode()
        self._collect_reports(everything=not launched)
        decoded |= self._decode()
        self._collect_sound(wait=not launched and not decoded and not self._admission.opening)
        # first sounds first: those of the end of a request make its caller send the next one
        news, self._news = sorted(self._news, key=lambda one: not isinstance(one, Chunk) or one.index > 0), []
        return news

    def speak(self, requests: Iterable[Request]) -> Iterator[News]:
        """Submit requests and step until all are spoken. Chunks of one request come in order; requests interleave."""
        for request in requests:
            self.submit(request)
        while self.busy:
            yield from self.step()

    def clip(self, request: Request) -> Clip:
        """One request, whole: the join of its chunks. Chunks of other requests are returned by the next step.

        Raises InputError for a text that is longer than the model says in one go, which it would cut off.
        """
        longest = self.model.longest_piece
        if longest is not None and len(request.text) > longest:
            raise InputError(
                f"the text has {len(request.text)} characters; {self.model.name} speaks at most {longest} in one piece",
                hint="omnitts say   or speak() of the Python API split it into sentences",
            )
        name, mine, others = self.submit(request), list[Any](), list[News]()
        while not any(isinstance(news, Failed) or news.last for news in mine[-1:]):
            for news in self.step():
                (mine if news.request == name else others).append(news)
        self._news = others + self._news
        if isinstance(mine[-1], Failed):
            raise mine[-1].error
        return Clip.join(mine)

    def snapshot(self) -> Snapshot:
        """The state of the engine now. Call it from the thread that calls `step`, between two steps."""
        return Snapshot(
            requests={name: copy.copy(record) for name, record in list(self._records.items())},
            free=tuple(sorted(self._admission.free)),
            calls=not self._inbox.empty(),
            sleeps=self.sleeps,
            chunks=len(self._news),
            reports=len(self._reports.waiting),
            codec_jobs=len(self._codec.in_flight),
            prefixes=self._admission.prefixes,
        )

    def columns(self, slot: int) -> dict[str, np.ndarray]:
        """The slot's row of every column of the table, read from the device, for which it waits."""
        self.device.synchronize()
        table = self._context.table
        columns = vars(table) | vars(table.controls) | {"made": table.made, "stop": table.stop}
        for several in ("wholes", "flags", "reals", "report", "controls"):
            del columns[several]
        return {name: read(column[slot]) for name, column in columns.items()}

    @property
    def _idle(self) -> bool:
        if self._reports.waiting or self._codec.in_flight or self._news or not self._records or self._admission.moves:
            return False
        return not (self._runnable() or any(record.undecoded for record in self._admitted))

    def _runnable(self) -> list[Record]:
        return [record for record in self._admitted if record.runnable]

    # ---- what other threads have called, on the engine's thread

    def _call(self, name: str, what: Callable[[Record], None]) -> None:
        record = self._records.get(name)
        if record is not None:  # else it has just ended
            self._inbox.put(lambda: self._run(record, what))

    def _run(self, record: Record, what: Callable[[Record], None]) -> None:
        if record.state is State.DONE:  # it has ended since the call
            return
        try:
            what(record)
        except OmniError as error:
            self._fail(record, error)

    def _add_text(self, record: Record, text: str | Sequence[int]) -> None:
        if not record.open_text:
            return
        if record.feed is None:
            record.early, record.too_early = record.early + text, False
            self._admission.wait(record)
            return
        self._send_text(record, self._admission.rows(partial(record.feed.write, text)))

    def _close_text(self, record: Record) -> None:
        if not record.open_text:
            return
        record.open_text = False
        if record.feed is None:
            self._admission.wait(record)
            return
        rows = self._admission.rows(record.feed.close)
        record.closing = True
        self._send_text(record, rows)
        if record.request.max_frames is None:  # now the length of the text is known
            spoken = record.tokens - 1  # the last row is the end
            record.limit = min(record.limit, max(runaway_limit(spoken), record.launched + 1))
            set_number(self._context.table.limit, record.slot, record.limit)

    def _send_text(self, record: Record, rows: Any) -> None:
        record.tokens += rows.shape[0]
        if record.awaits_text and rows.shape[0]:
            self._admission.complete_prompt(record, rows[0])
            rows = rows[1:]
        if rows.shape[0]:
            record.unsent.append(rows)
        if record.has_columns:
            top_up(self._context, record)

    def _cancel(self, record: Record) -> None:
        self._end(record, "cancelled")

    # ---- frames

    def _launch_frame(self) -> bool:
        rows = self._runnable()
        if not rows:
            return False
        last = max(record.prompt_rows - 1 + record.launched for record in rows)
        self._frames.launch([record.slot for record in rows], self._context.width(last))
        self.model.check()
        for record in rows:
            record.launched += 1
            if record.unsent:
                top_up(self._context, record)
        self._reports.waiting.append((self._frame_stream.fetch(self._context.table.report), rows))
        self._admission.launched(len(rows))
        return True

    def _time_turn(self, launched: bool) -> None:
        """Updates the running mean of the time between two frames; a turn without a frame interrupts it."""
        now = time.perf_counter()
        if launched and self._launched_at is not None:
            self._turn_s += (now - self._launched_at - self._turn_s) / 8
        self._launched_at = now if launched else None

    def _collect_reports(self, everything: bool) -> None:
        for rows, (made, stop) in self._reports.arrived(everything):
            for record, frames, code in zip(rows, made, stop, strict=True):
                if record.state is State.RUNNING:  # else it has ended since this frame was launched
                    record.made = frames
                    if code != Stop.RUNNING:
                        self._stop(record, Stop(code))

    def _stop(self, record: Record, stop: Stop) -> None:
        record.stop = stop
        if stop is Stop.BROKEN:
            what = f"the model produced NaN or infinite values at frame {record.made + 1}"
            self._fail(record, ModelError(what, hint="--dtype fp32"))
            return
        record.state, record.ended = State.FINISHING, time.perf_counter()
        if record.reference + record.made == record.delivered:
            self._end(record, STOPPED[stop])

    # ---- sound

    def _decode(self) -> bool:
        speaking = [record for record in self._admitted if record.state is not State.OPENING]
        return self._codec.launch(speaking, self._turn_s)

    def _collect_sound(self, wait: bool) -> None:
        for decoded in self._codec.collect(wait, len(self._admitted), len(self._runnable())):
            if decoded.record.state is not State.DONE:
                self._deliver(decoded)

    def _deliver(self, decoded: Decoded) -> None:
        record, start, sound, codes = decoded.record, decoded.start, decoded.sound, decoded.codes
        frames = codes.shape[0]
        record.delivered = start + frames
        if start < record.reference:
            return
        record.first_sound = record.first_sound or time.perf_counter()
        kept = self._until_silence(record, sound, frames)
        per_frame = sound.shape[0] // frames
        last = record.silent or record.delivered == record.final
        stopped = None if not last else "silence" if record.silent else STOPPED[record.stop]
        missing = self.model.facts.missing_samples if start == 0 else 0
        sound = record.equaliser.feed(sound) if record.equaliser else sound.copy()
        self._hand_out(record, sound[missing : kept * per_frame], codes[:kept].copy(), stopped)

    def _until_silence(self, record: Record, sound: np.ndarray, frames: int) -> int:
        """The number of frames to keep: all, unless the request has been silent for too long."""
        if record.request.ignore_end:
            return frames
        for index, peak in enumerate(np.abs(sound).reshape(frames, -1).max(1)):
            record.quiet = record.quiet + 1 if peak < AUDIBLE else 0
            if record.quiet >= self.plan.silence_frames:
                record.silent = True
                return index + 1
        return frames

    # ---- handing out

    def _hand_out(self, record: Record, pcm: np.ndarray, codes: np.ndarray, stopped: Stopped | None) -> None:
        """A chunk for the caller; with `stopped` it is the last and the request is done."""
        self._news.append(Chunk(record.id, record.chunks, pcm, codes, stopped is not None, stopped, record.tokens))
        record.chunks += 1
        if stopped is not None:
            self._retire(record, stopped)

    def _end(self, record: Record, stopped: Stopped) -> None:
        """An empty last chunk says why there is no more."""
        codes = np.zeros((0, self.model.facts.groups), np.int64)
        self._hand_out(record, np.zeros(0, np.float32), codes, stopped)

    def _fail(self, record: Record, error: OmniError) -> None:
        self._news.append(Failed(record.id, error))
        self._retire(record, "failed")

    def _retire(self, record: Record, stopped: str) -> None:
        """The request is done; its slot is free."""
        record.state = State.DONE
        del self._records[record.id]
        if self._admission.leave(record) and record.stop in (Stop.RUNNING, Stop.BROKEN):
            # else its last frame has cleared `live`
            set_number(self._context.table.live, record.slot, False)
            self._context.cache.clear(record.slot)  # its latest frames may hold NaN
