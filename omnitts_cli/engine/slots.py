"""Slots: how many and how long (Plan), what the device holds of each (SlotTable), what the host knows of each request.

Plan is fixed when the engine is built. StepContext is what a step works on. A step has fixed shapes and never reads a
value on the host, so it can be captured as one graph: a frame per batch bucket (engine.py), a prefill per number of
rows (admission.py), a codec chunk per frames and rows (codec_jobs.py). Batches are padded to the next size with the
spare slot. The stream does the capturing, over fixed buffers.

SlotTable is the device's side of all running requests, one row per slot; Record is the host's side of one, from
submission to its last chunk, with an explicit state. Speech and text share Stop, BatchSteps, one step for each batch
size, and Reports, what the host reads of earlier steps.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from enum import Enum, IntEnum
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

from omnitts_cli.audio.spectrum import Equaliser
from omnitts_cli.devices.device import Device, Fetch, Stream
from omnitts_cli.kernels import ops
from omnitts_cli.kernels.arrays import zeros
from omnitts_cli.models.prompts import Draft, LiveRows, Prompt, Turns
from omnitts_cli.models.roles import Controls, KeyValues, SpeechModel
from omnitts_cli.models.shapes import LEAST_FRAMES, Facts
from omnitts_cli.request import BULK, Request

if TYPE_CHECKING:
    from torch import Tensor

CUDA_BUCKETS = (1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 24, 32, 48, 64, 96, 128, 160, 192, 224)
SOUND_ROWS = (1, 2, 4, 6, 8, 12, 16, 24, 32, 48, 64)
Replay = Callable[[], None]
AUDIBLE = 10 ** (-60 / 20)
"""Samples below -60 dBFS count as silence."""


PROMPT_ROWS = 1024
"""Prompt rows in one step, if few slots do not need more: large steps take memory while they run."""


def share_of(slots: int) -> int:
    """The number of requests admitted in one turn, and the most slots per codec call. Larger steps cost less per
    request."""
    return max(32, slots // 2)


@dataclass(frozen=True)
class Plan:
    """`buckets`: batch sizes a frame is captured for; `chunks`: frames decoded together, ascending."""

    slots: int
    positions: int  # prompt rows + frames of one request
    frames: int  # frames of one request, reference included
    buckets: tuple[int, ...]
    chunks: tuple[int, ...] = (1, 2, 4, 8, 16)
    sound_rows: tuple[int, ...] = SOUND_ROWS[:-2]  # slots decoded together
    sound_frames: int | None = None  # frames decoded together, over all slots; None: any number
    # prompt rows of all new requests in one step
    prefill_rows: tuple[int, ...] = (16, 32, 48, 64, 96, 128, 192, 256, 384, 512, 640, 768, 1024, 1280, 1536, 2048)
    prompt_run: int = 256  # rows of one prompt between two frames
    first_chunk: int = 1
    bulk_chunk: int = 1  # the fewest frames of a chunk of work in bulk, if the codec runs between the frames
    admissions: int = 32  # prompts that advance between two frames
    burst: int = 1  # the same while no request is running, if larger
    ahead: int = 2  # frames launched before the oldest one's report is awaited
    text_rows: int = 256  # in the ring of a slot; longer feeds are sent in parts
    prefixes: int = 64  # prompt prefixes whose keys and values are kept
    stall_frames: int = 50  # stop after the same group-0 code for this long: 4 s
    silence_frames: int = 125  # stop after silence (below -60 dBFS) for this long: 10 s
    capture: bool = True
    first_alone: bool = False  # for a listener, a text's second piece is begun when the first has sound
    fixed_chunks: bool = False  # chunks of `first_chunk` and of the largest size, whatever the time

    def __post_init__(self) -> None:
        assert 1 <= self.slots <= max(self.buckets), "all slots must fit into the largest bucket"
        ascending = all(sooner < later for sooner, later in pairwise(self.chunks))
        assert self.chunks[0] == 1 and ascending, "any number of frames must be a sum of chunks"
        assert self.sound_frames is None or self.sound_frames >= 1
        assert self.text_rows >= 1 and self.first_chunk >= 1 and self.admissions >= 1 and self.burst >= 1
        assert self.stall_frames >= LEAST_FRAMES, (
            "frames before the first possible end are decoded before they are reported"
        )

    @staticmethod
    def of(
        slots: int,
        seconds: float,
        frame_rate: float,
        *,
        prompt_rows: int = 512,
        pads: bool = True,
        buckets: Iterable[int] | None = None,
        **more: Any,
    ) -> Plan:
        """A plan for `slots` requests of up to `seconds` each."""
        frames = int(seconds * frame_rate) + 1
        sizes = buckets or (CUDA_BUCKETS if pads else range(1, slots + 1))
        if pads and "admissions" not in more:
            share = share_of(slots)
            more.update(admissions=share)
            more.setdefault("sound_rows", tuple(rows for rows in SOUND_ROWS if rows <= share))
            more.setdefault("burst", max(64, share))
        whole = Plan(slots=slots, positions=frames + prompt_rows, frames=frames, buckets=(*sizes, slots), **more)
        return whole.with_slots(slots)

    def with_slots(self, slots: int) -> Plan:
        """The same plan for `slots` slots. With fewer, buckets, admissions and codec calls are those of `of`."""
        buckets = (*sorted({size for size in self.buckets if size < slots}), slots)
        admissions, burst, sound_rows = min(self.admissions, slots), min(self.burst, slots), self.sound_rows
        if slots < self.slots:
            share = share_of(slots)
            admissions, burst = min(admissions, share), min(burst, max(64, share))
            sound_rows = tuple(rows for rows in sound_rows if rows <= share) or sound_rows[:1]
        prefill = tuple(rows for rows in self.prefill_rows if rows <= max(PROMPT_ROWS, slots * self.prompt_run))
        fewer = replace(self, slots=slots, buckets=buckets, prefill_rows=prefill)
        return replace(fewer, admissions=admissions, burst=burst, sound_rows=sound_rows)

    def with_few_graphs(self) -> Plan:
        """The same with fewer captured sizes, for devices where graphs are scarce: 24 instead of 73 at 32 slots."""
        doubles = {size for size in self.buckets if size & (size - 1) == 0}
        return replace(
            self,
            buckets=(*sorted(doubles - {self.slots}), self.slots),
            sound_rows=(1, 8, 32),
            prefill_rows=(32, 128, 512),
            admissions=min(self.admissions, 4),
            burst=1,
        )


class Stop(IntEnum):
    """Why a request stopped, as the device reports it."""

    RUNNING = ops.RUNNING
    END = ops.END
    LIMIT = ops.LIMIT
    STALL = ops.STALL
    BROKEN = ops.BROKEN


WHOLE: tuple[str, ...] = ("position", "made", "stop", "limit", "reference", "last", "repeats", "written")
WHOLE += ("seed", "top_k", "predictor_top_k")
FLAGS = ("live", "closed", "ignore_end")
REAL = ("temperature", "top_p", "penalty", "predictor_temperature", "predictor_top_p")
"""Scalar columns grouped by dtype, so admitting a batch takes three writes."""


@dataclass(frozen=True)
class SlotTable:
    """One row per slot and one spare row for padding. Only frames and admissions write it."""

    wholes: Tensor  # [WHOLE, slots] int64; the columns below and the controls are views of these three
    flags: Tensor  # [FLAGS, slots] bool
    reals: Tensor  # [REAL, slots] float32
    row: Tensor  # [slots, H] the next input of the talker, without its text row
    position: Tensor  # [slots] int64, of that row
    report: Tensor  # [2, slots] int64: `made` and `stop`, which the host reads after a frame
    live: Tensor  # [slots] bool
    limit: Tensor  # [slots] int64 frames at most
    codes: Tensor  # [slots, frames, G] int64; reference frames come first
    reference: Tensor  # [slots] int64 reference frames in `codes`
    seen: Tensor  # [slots, codes] bool: group-0 codes made by this request
    last: Tensor  # [slots] int64 latest group-0 code
    repeats: Tensor  # [slots] int64 how long it has been the same
    text: Tensor  # [slots, text rows, H], a ring: row k is added after frame k
    written: Tensor  # [slots] int64 text rows written so far
    closed: Tensor  # [slots] bool: no more text will come
    pad: Tensor  # [slots, H] added once a closed feed has run out
    controls: Controls

    @property
    def made(self) -> Tensor:
        """[slots] frames made, a view."""
        return self.report[0]

    @property
    def stop(self) -> Tensor:
        """[slots] a Stop each, a view."""
        return self.report[1]

    @staticmethod
    def empty(plan: Plan, facts: Facts, device: Any, dtype: Any) -> SlotTable:
        """A table in which no slot is live. Without a `device`, its arrays are those of NumPy."""
        rows = plan.slots + 1

        def of(*shape: int, kind: Any = dtype) -> Tensor:
            return zeros(shape, kind, device)

        wholes, flags = of(len(WHOLE), rows, kind="int64"), of(len(FLAGS), rows, kind="bool")
        reals = of(len(REAL), rows, kind="float32")
        columns = dict(zip((*WHOLE, *FLAGS, *REAL), (*wholes, *flags, *reals), strict=True))
        columns["penalty"][:] = 1.0
        controls = Controls(**{f.name: columns.pop(f.name) for f in fields(Controls)})
        del columns["made"], columns["stop"]  # `report` has both
        columns |= {"wholes": wholes, "flags": flags, "reals": reals, "report": wholes[WHOLE.index("made") :][:2]}
        columns |= {"row": of(rows, facts.hidden), "pad": of(rows, facts.hidden)}
        columns |= {"text": of(rows, plan.text_rows, facts.hidden), "seen": of(rows, facts.codes, kind="bool")}
        return SlotTable(**columns, codes=of(rows, plan.frames, facts.groups, kind="int64"), controls=controls)

    def write(self, slots: Tensor, wholes: Tensor, flags: Tensor, reals: Tensor) -> None:
        """Set all scalar columns of `slots` [N]: [WHOLE, N], [FLAGS, N], [REAL, N]."""
        self.wholes[:, slots], self.flags[:, slots], self.reals[:, slots] = wholes, flags, reals


def fitting(sizes: Sequence[int], wanted: int) -> int:
    """The smallest of `sizes` that holds `wanted`."""
    return min(size for size in sizes if size >= wanted)


def round_up(number: int, step: int) -> int:
    """The next multiple of `step`."""
    return -(-number // step) * step


Row = TypeVar("Row", bound=Any)
"""A request with a `slot`."""


class BatchSteps:
    """A step for each batch size and each of `kinds`. With `stream`, they are captured, and `launch` runs in it."""

    def __init__(
        self,
        device: Device,
        sizes: Iterable[int],
        spare: int,
        capacity: int,
        kinds: Mapping[bool, Callable[[Any, int], None]],
        stream: Stream | None,
    ) -> None:
        self._device, self._sizes, self._spare, self._kinds = device, sorted({*sizes}), spare, kinds
        self._slots = {size: device.to_device(np.full(size, spare, np.int64)) for size in self._sizes}
        self._loaded: dict[int, tuple[int, ...]] = {}
        self._replays: dict[tuple[int, bool], Replay] = {}
        if stream is not None:
            for size in reversed(self._sizes):  # the largest first: the others fit into its memory
                for kind, run in kinds.items():
                    self._replays[size, kind] = stream.capture(partial(run, self._slots[size], capacity))

    def launch(self, slots: Sequence[int], width: int, kind: bool = False) -> None:
        """One step for `slots`. `width`: a bound on their positions, for steps that are not captured."""
        size = fitting(self._sizes, len(slots))
        batch = (*slots, *[self._spare] * (size - len(slots)))
        if self._loaded.get(size) != batch:
            self._slots[size][:] = self._device.to_device(np.array(batch, np.int64))
            self._loaded[size] = batch
        if self._replays:
            self._replays[size, kind]()
        else:
            self._kinds[kind](self._slots[size], width)


@dataclass
class Reports(Generic[Row]):
    """What the device reports of the latest steps. The host reads a report when `ahead` steps are in flight, or when it
    is there.
    """

    ahead: int
    waiting: deque[tuple[Fetch, list[Row]]] = field(default_factory=deque)  # with the requests of each step

    def arrived(
        self, everything: bool, awaited: Callable[[list[Row]], bool] = lambda rows: False
    ) -> Iterator[tuple[list[Row], list[list[int]]]]:
        """Yields requests and the columns of their report, in order. Waits for `everything`, or for those `awaited`."""
        while self.waiting:
            fetch, rows = self.waiting[0]
            if not (everything or awaited(rows) or len(self.waiting) >= self.ahead or fetch.done()):
                return
            self.waiting.popleft()
            yield rows, fetch.result()[0][:, [row.slot for row in rows]].tolist()


@dataclass
class StepContext:
    """What every captured step works on: the model, its state on the device, and the plan."""

    model: SpeechModel
    device: Device
    plan: Plan
    table: SlotTable
    cache: KeyValues
    spare: int = field(init=False)  # the slot that pads batches
    captures: bool = field(init=False)  # whether steps are captured as graphs

    def __post_init__(self) -> None:
        self.spare, self.captures = self.plan.slots, self.plan.capture and self.device.captures

    def indices(self, *numbers: int | Sequence[int]) -> Any:
        """The numbers as an int64 array on the device."""
        return self.device.to_device(np.asarray(numbers, np.int64))

    def width(self, last: int) -> int:
        """A bound on the positions of a step: fixed in graphs, else tight, as the cost of attention depends on it."""
        return self.cache.capacity if self.captures else min(round_up(last + 1, 32), self.cache.capacity)


class State(Enum):
    """Where a request is. It moves downwards only, and from each state it may jump to DONE."""

    WAITING = "waiting"  # for a slot, or for enough text to begin
    OPENING = "opening"  # has a slot; its prompt is being prefilled
    RUNNING = "running"  # gains frames
    FINISHING = "finishing"  # has all its frames; the codec is still decoding them
    DONE = "done"  # its last chunk was handed out and its slot is free


@dataclass(eq=False)
class Record:
    """What the host knows of one request."""

    id: str
    request: Request
    state: State = State.WAITING
    paused: bool = False

    # the queue
    priority: int = BULK
    client: str = ""
    queued: bool = False  # waits for a slot

    # text
    live: bool = False  # it arrives in pieces
    open_text: bool = False  # more of it may still arrive
    turns: Turns | None = None  # its text are tokens of an answer that another model writes
    early: Any = ""  # what arrived before the prompt was made: text, or a list of tokens
    too_early: bool = False  # `early` is not enough to begin with
    feed: LiveRows | None = None
    tokens: int = 0  # so far
    unsent: deque[Tensor] = field(default_factory=deque)  # rows waiting for room in the slot's ring
    closing: bool = True  # nothing follows `unsent`
    written: int = 0  # rows sent
    closed: bool = False  # the device knows that no more will come

    # the slot, from OPENING on
    slot: int = -1
    draft: Draft | None = None  # while OPENING, like the prompt
    prompt: Prompt | None = None  # made for several requests at once
    prompt_rows: int = 0
    prefilled: int = 0  # prompt rows in the cache
    awaits_text: bool = False  # of the prompt's last row; the others do not depend on the answer

    # frames
    limit: int = 0
    reference: int = 0  # frames of the reference clip; they come first and their sound is dropped
    launched: int = 0  # frames asked for; exact until the request stops
    made: int = 0  # frames reported
    stop: Stop = Stop.RUNNING

    # sound; frames are counted with the reference
    decoding: int = 0  # frames given to the codec
    delivered: int = 0  # frames whose sound has come back
    jobs: int = 0  # codec jobs in flight
    chunks: int = 0  # handed out
    quiet: int = 0  # frames of silence at the end so far
    silent: bool = False  # stopped by the host because of that
    equaliser: Equaliser | None = None  # of a clone that sounds like its clip
    first_sound: float | None = None  # when it came back, in seconds
    ended: float | None = None  # when its stop was reported

    @property
    def speakable(self) -> bool:
        """Whether a prompt can be made: an open request needs its first words, unless they are an answer."""
        return not self.open_text or self.turns is not None or (bool(self.early.strip()) and not self.too_early)

    @property
    def opening(self) -> bool:
        """Whether there is more to do for its prompt."""
        return self.state is State.OPENING and not (self.awaits_text and self.prefilled == self.prompt_rows - 1)

    @property
    def known(self) -> Request:
        """The request with all text that has arrived. Live text is always streamed."""
        if self.turns is not None or not self.live:
            return self.request
        return replace(self.request, text=self.early, text_mode="streamed")

    @property
    def has_columns(self) -> bool:
        """Whether the slot's columns are this request's."""
        return self.state in (State.RUNNING, State.FINISHING)

    @property
    def final(self) -> int | None:
        """Frames of the finished request, reference included; None before it has stopped."""
        return None if self.stop is Stop.RUNNING else self.reference + self.made

    @property
    def starved(self) -> bool:
        """The next frame needs a text row that has not been sent."""
        return self.launched > 0 and not self.closed and self.launched > self.written

    @property
    def runnable(self) -> bool:
        """Whether the next frame may be launched."""
        return self.state is State.RUNNING and self.launched < self.limit and not self.paused and not self.starved

    @property
    def wanted(self) -> bool:
        """Whether the caller waits for sound that needs nothing but more turns: also for the last of it."""
        return self.opening or (self.has_columns and not self.paused and not self.starved)

    @property
    def undecoded(self) -> bool:
        """Whether some frames that were reported have not been given to the codec, or not all sound is back."""
        return self.reference + self.made > self.decoding or (self.final is not None and self.final > self.delivered)

    def unreported(self, frames: int) -> bool:
        """Whether the host has not yet seen all of the first `frames` frames finished."""
        return self.made == 0 or frames > self.reference + self.made
