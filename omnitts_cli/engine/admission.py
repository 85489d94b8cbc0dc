"""Admission: who gets the next free slot, and how. A request becomes a prompt, the prompt is prefilled into the cache,
the columns of the slot are written.

Prompts are prefilled in runs of rows in the frame stream, so that a long prompt delays the others by at most one run.
Rows that depend on voice and language only are prefilled once and copied afterwards.
"""

import itertools
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from omnitts_cli.audio.spectrum import Equaliser
from omnitts_cli.devices.device import Stream
from omnitts_cli.engine.slots import FLAGS, REAL, WHOLE, Record, Replay, State, StepContext, Stop, fitting, round_up
from omnitts_cli.errors import InputError, OmniError
from omnitts_cli.kernels.arrays import fill_rows, join, put_rows, set_number, zeros
from omnitts_cli.models.prompts import Draft, TooEarly
from omnitts_cli.models.roles import Prefix
from omnitts_cli.request import BULK, COLDEST, FIRST_SOUND, STREAMING, Request, Sampling

GUARD_FRAMES = 100
GUARD_FRAMES_PER_TOKEN = 12
"""The runaway limit: more than twice the slowest normal speech. Lower ones cut off slow speech."""


def runaway_limit(tokens: int) -> int:
    """Frames after which the speech of a text of `tokens` tokens counts as a runaway."""
    return GUARD_FRAMES + GUARD_FRAMES_PER_TOKEN * tokens


TOGETHER, BESIDE = 16, 64
"""The most prompts that are drafted and prefilled together: few while no request is running, so that the device starts
soon; more beside running requests, when it is busy anyway.
"""

FULL, GATHER_TURNS, FOLLOWED_TURNS = 24, 3, 4
"""With so many requests running, newcomers wait up to `GATHER_TURNS` turns for each other while fewer of them have
come than slots became free within `FOLLOWED_TURNS`: users whose requests end together soon send the next ones, which a
server reads one after the other. A prefill of a few prompts takes a device as long as one of many.
"""

AT_FIRST = {"made": 0, "stop": Stop.RUNNING, "last": -1, "repeats": 0, "live": True}
"""Columns that begin the same for every request."""


class FairQueue:
    """Requests that wait for a slot: the highest priority first; within it one client after the other; within a client
    in order of arrival. Who streams therefore waits for one free slot at most, however much was queued in bulk before.

    While someone listens to another text, the next piece of a text waits until as many frames were made as the prompt
    of its piece before had rows, unless it is a first sound. Speech has fewer rows than frames, so this holds back only
    texts of very short pieces: their prompts would take most of the time that the listener's frames need.
    """

    def __init__(self) -> None:
        self._levels: dict[int, OrderedDict[str, deque[Record]]] = {
            level: OrderedDict() for level in (FIRST_SOUND, STREAMING, BULK)
        }
        self._count = 0
        self._owed: dict[int, int] = {}  # by text: prompt rows for which no frames were made yet

    def __len__(self) -> int:
        return self._count

    def push(self, record: Record) -> None:
        """Adds a request of a client."""
        self._levels[record.priority].setdefault(record.client, deque()).append(record)
        record.queued = True
        self._count += 1

    def pop(self, listened: Collection[int] = (), served: Collection[int] = ()) -> Record | None:
        """Removes and returns the next request; None if all have to wait. `listened`: texts that others listen to;
        `served`: texts of which no further piece begins now.
        """
        for clients in self._levels.values():
            for records in clients.values():
                for record in records:
                    script = record.request.script
                    if script in served or (script in self._owed and yields(record, listened)):
                        continue
                    self.remove(record)
                    if record.client in clients:
                        clients.move_to_end(record.client)  # the other clients come first
                    return record
        return None

    def remove(self, record: Record) -> None:
        """Removes a request, if it is still here."""
        if not record.queued:
            return
        clients = self._levels[record.priority]
        clients[record.client].remove(record)
        if not clients[record.client]:
            del clients[record.client]
        record.queued = False
        self._count -= 1

    def owe(self, script: int, rows: int) -> None:
        """Counts the rows of a prompt of this text that was made while someone listened to another."""
        self._owed[script] = self._owed.get(script, 0) + rows

    def pay(self, frames: int) -> None:
        """Counts frames."""
        if self._owed:
            self._owed = {script: rows - frames for script, rows in self._owed.items() if rows > frames}


def yields(record: Record, listened: Collection[int]) -> bool:
    """Whether others go before a request: those who listen to another text, unless it is a first sound."""
    return record.priority != FIRST_SOUND and any(script != record.request.script for script in listened)


class Admission:
    """Turns waiting requests into running ones: owns the queue and the slots, and prefills a limited number of prompt
    rows at a time. What is here runs in the frame stream. `fail` ends a request that cannot be spoken.
    """

    def __init__(
        self, context: StepContext, stream: Stream, prefill: "PrefillSteps", fail: Callable[[Record, OmniError], None]
    ) -> None:
        self._context, self._stream, self._prefill, self._fail = context, stream, prefill, fail
        self._prompt_stream = context.device.stream()  # prompts are made while frames run
        self._prompter = context.model.prompter.fresh()
        self._prefixes: OrderedDict[tuple[object, ...], Prefix] = OrderedDict()
        self._unkept: list[tuple[tuple[object, ...], int, int]] = []  # key, rows and slot of each prefix to copy
        self._waiting = FairQueue()
        self.records: list[Record] = []  # those with a slot, in the order in which they got it
        self.since: dict[str, float] = {}  # their names -> since when
        self.free = list(range(context.plan.slots - 1, -1, -1))
        self.frames = 0  # launched so far
        self._left: deque[int] = deque()  # frames at which slots became free; a request that follows drops one
        self._gathered = 0  # turns for which newcomers have waited for each other

    @property
    def prefixes(self) -> int:
        """Prompt prefixes whose keys and values are kept."""
        return len(self._prefixes)

    @property
    def queued(self) -> int:
        """How many requests wait for a slot."""
        return len(self._waiting)

    @property
    def moves(self) -> bool:
        """Whether a request can get a slot, or there is more to do for the prompt of one."""
        return bool((self.free and self._waiting) or self.opening)

    @property
    def opening(self) -> list[Record]:
        """Requests whose prompts are not complete."""
        return [record for record in self.records if record.opening]

    def wait(self, record: Record) -> None:
        """Queue a request for a slot, unless its first words are missing."""
        if record.speakable and not record.queued:
            self._waiting.push(record)

    def launched(self, rows: int) -> None:
        """A frame of so many requests was launched."""
        self.frames += 1
        self._waiting.pay(rows)
        self._keep_prefixes()

    def leave(self, record: Record) -> bool:
        """Takes a request out of the queue, or its slot from it; returns whether it had one."""
        self._waiting.remove(record)
        if record.id not in self.since:
            return False
        self.records.remove(record)
        self._left.append(self.frames)
        self._unkept = [one for one in self._unkept if one[-1] != record.slot]
        del self.since[record.id]
        self.free.append(record.slot)
        return True

    def admit(self) -> list[Record]:
        """Give slots to waiting requests and prefill prompts; returns those that now have a slot."""
        if self._gathers():
            return []
        opening, new, ready = self.opening, list[Record](), list[Record]()
        # a burst of requests is admitted over several turns, so that the others go on speaking
        idle = not any(record.has_columns for record in self.records)
        plan = self._context.plan
        left = (max(plan.admissions, plan.burst) if idle else plan.admissions) - len(opening)
        together, opened = TOGETHER if idle else BESIDE, self._opened()
        while True:  # the device works on the prompts of one group while those of the next are drafted
            group = list(itertools.islice(opened, max(0, min(left, together))))
            ready += self.advance([*opening, *group])
            new, left, opening = new + group, left - len(group), []
            if len(group) < together:
                break
        if ready:
            self.begin(ready)
        return new

    def _gathers(self) -> bool:
        """Whether newcomers wait for more of them."""
        if not self._context.device.captures or len(self.records) < FULL:
            self._gathered = 0
            return False
        while self._left and self.frames - self._left[0] > FOLLOWED_TURNS:
            self._left.popleft()
        if not 0 < len(self._waiting) < len(self._left):
            self._gathered = 0
        elif self.opening or self._gathered == GATHER_TURNS:
            self._gathered = 0
        else:
            self._gathered += 1
        return self._gathered > 0

    def _opened(self) -> Iterator[Record]:
        """Give free slots to waiting requests, in the order of the queue; yields those that got one in this turn."""
        served: set[int] = set()
        while self.free and self._waiting:
            listened = self._listened()
            record = self._waiting.pop(listened=listened, served=served)
            if record is None:
                return
            if self._left:
                self._left.popleft()
            if self._open(record):
                script = record.request.script
                assert record.draft is not None
                if yields(record, listened):
                    self._waiting.owe(script, record.prompt_rows - record.draft.shared)
                if script and record.priority == STREAMING and not self._context.device.captures:
                    served.add(script)  # a newcomer's first sound waits for one prompt of a text, not for all
                yield record

    def _listened(self) -> set[int]:
        """The texts that someone listens to, where prompts delay frames: a device with graphs makes them fast."""
        if self._context.device.captures:
            return set()
        return {record.request.script for record in self.records if record.priority != BULK and record.wanted}

    def _open(self, record: Record) -> bool:
        """Give a request a slot; returns whether it could be given one."""
        try:
            self.open(record, self.free[-1])
        except TooEarly:  # it waits for more text first
            record.too_early = True
            return False
        except OmniError as error:
            self._fail(record, error)
            return False
        self.free.pop()
        self.records.append(record)
        self.since[record.id] = time.perf_counter()
        return True

    def open(self, record: Record, slot: int) -> None:
        """Draft the prompt and give the request its slot; raises OmniError if it cannot be spoken."""
        request, feed = record.known, None
        refuse_impossible(request)
        if record.turns is not None:
            draft, feed = self._prompter.answer(request, record.turns, record.early, record.open_text)
            record.awaits_text = feed is not None and not record.early
        elif record.open_text:
            draft, feed = self._prompter.live(request, request.text)
        else:
            draft = self._prompter.draft(request)
        reference = 0 if draft.reference is None else len(draft.reference)
        record.limit = self._limit(request, draft, reference, open_feed=feed is not None)
        record.request, record.draft, record.feed = request, draft, feed
        record.prompt_rows, record.reference, record.tokens = len(draft.text), reference, draft.spoken
        if draft.gains is not None:
            facts = self._context.model.facts
            record.equaliser = Equaliser(draft.gains, facts.sample_rate, facts.samples_per_frame)
        record.closing = feed is None and draft.closed
        record.slot, record.state = slot, State.OPENING

    def rows(self, make: Callable[[], Any]) -> Any:
        """Rows of live text, made while frames run."""
        with self._prompt_stream:
            rows = make()
        self._stream.follow(self._prompt_stream, rows)
        return rows

    def complete_prompt(self, record: Record, text_row: Any) -> None:
        """The last row of a prompt, when the first token of an answer is known."""
        row = self.rows(lambda: self._prompter.last_row(record.draft, text_row))
        record.prompt.rows[-1] = row
        record.awaits_text = False

    def _limit(self, request: Request, draft: Draft, reference: int, open_feed: bool) -> int:
        plan, rows = self._context.plan, len(draft.text)
        room = min(plan.positions - rows, plan.frames - reference)
        wanted = request.max_frames
        if room < max(1, wanted or 1) and (room < 1 or request.ignore_end):
            most = plan.positions >= self._context.model.facts.max_positions
            raise InputError(
                f"{wanted or 1:,} frames of speech do not fit beside this text{' and clip' * bool(reference)}: "
                f"there is room for {max(room, 0):,}{', as many as the model has' * most}",
                hint=f"shorter text or reference, fewer --max-frames{', or an engine with longer slots' * (not most)}",
            )
        if wanted is not None:
            return min(wanted, room)
        return room if open_feed else min(room, runaway_limit(draft.spoken))

    def advance(self, records: Sequence[Record]) -> list[Record]:
        """Prefill a run of rows for each; returns those whose prompt is complete, for `begin`."""
        if new := [record for record in records if record.prompt is None]:
            self._make_prompts(new)
            self._copy_prefixes(new)
        runs, ready = [], []
        for record in records:
            wanted = rows_to_prefill(record)
            left = wanted - record.prefilled
            if left > 0:
                rows = record.prompt.rows[record.prefilled : record.prefilled + min(left, self._prefill.longest)]
                runs.append(PromptRun(rows, record.prefilled, record.slot))
                record.prefilled += rows.shape[0]
            if record.prefilled == wanted and not record.awaits_text:
                ready.append(record)
        if runs:
            self._prefill.launch(runs)
        self._unkept += [
            (record.draft.shared_key, min(record.draft.shared, rows_to_prefill(record)), record.slot)
            for record in ready
        ]
        if self._context.captures:  # the prompts of the next group may share them
            self._keep_prefixes()
        return ready

    def begin(self, records: Sequence[Record]) -> None:
        """Write the slots' columns; frames can follow. The host does this while the device is busy with the prompts."""
        self._write_columns(records, *self._first_text(records))
        for record in records:
            record.state = State.RUNNING
            record.draft = record.prompt = None  # their memory is no longer needed

    def _first_text(self, records: Sequence[Record]) -> tuple[list[Any], list[int]]:
        """The text rows that fit into the slots' rings, and the place of each in the table. `top_up` sends the rest."""
        ring = self._context.plan.text_rows
        parts, places = [], []
        for record in records:
            for rows, start in taken(record, ring):
                first = record.slot * ring + start
                places += range(first, first + rows.shape[0])
                parts.append(rows)
            record.closed = record.closing and not record.unsent
        return parts, places

    def _make_prompts(self, records: Sequence[Record]) -> None:
        self._wait_for_sounds(records)
        with self._prompt_stream:
            prompts = self._prompter.prompts([record.draft for record in records])
        for record, prompt in zip(records, prompts, strict=True):
            record.prompt = prompt
            if prompt.feed.shape[0]:
                record.unsent.append(prompt.feed)
        arrays = {id(one): one for made in prompts for one in (made.rows, made.feed, made.pad)}
        self._stream.follow(self._prompt_stream, *arrays.values())

    def _wait_for_sounds(self, records: Sequence[Record]) -> None:
        """Rows of recordings come from the thinker's stream."""
        for record in records:
            if record.turns is not None and record.turns.rows is not None:
                self._prompt_stream.keep_alive(record.turns.rows)
                self._prompt_stream.wait_event(record.turns.ready)

    def _copy_prefixes(self, records: Sequence[Record]) -> None:
        """Copy the rows that are in a kept prefix, for all requests that share one at once."""
        sharing: dict[tuple[tuple[object, ...], int], list[Record]] = {}
        for record in records:
            key = record.draft.shared_key
            if (known := self._prefixes.get(key)) is not None:
                self._prefixes.move_to_end(key)
                record.prefilled = min(record.draft.shared, rows_to_prefill(record), known[0].shape[3])
                sharing.setdefault((key, record.prefilled), []).append(record)
        for (key, rows), alike in sharing.items():
            slots = self._context.indices(*[record.slot for record in alike])
            self._context.cache.copy_prefix(self._prefixes[key], rows, slots)

    def _keep_prefixes(self) -> None:
        """Copies the shared beginnings of new prompts for later requests. On a CPU this comes after the frame: the rows
        of a prompt are computed with the first frame, and to copy them earlier would compute them apart.
        """
        for key, rows, slot in self._unkept:
            if rows > 0 and key not in self._prefixes:
                self._prefixes[key] = self._context.cache.prefix(rows, slot)
                if len(self._prefixes) > self._context.plan.prefixes:
                    self._prefixes.popitem(last=False)
        self._unkept.clear()

    def _write_columns(self, records: Sequence[Record], texts: Sequence[Any], places: Sequence[int]) -> None:
        """For all of them together, because each write is a kernel."""
        table, to_device = self._context.table, self._context.device.to_device
        facts = [self._columns(record) for record in records]
        slots = [record.slot for record in records]
        numbers = np.array([slots, *([fact[name] for fact in facts] for name in (*WHOLE, *FLAGS))], np.int64)
        values = np.array([[fact[name] for fact in facts] for name in REAL], np.float32)
        whole = np.concatenate([numbers.ravel(), np.array(places, np.int64)])
        sent, reals = map(to_device, (whole, values))
        columns, at = sent[: numbers.size].reshape(numbers.shape), sent[: len(slots)]
        wholes, flags = columns[1 : 1 + len(WHOLE)], columns[1 + len(WHOLE) :]
        table.write(at, wholes, flags != 0, reals)
        fill_rows(table.seen, at, False)
        table.row[at] = join([record.prompt.rows[-1:] for record in records])
        table.pad[at] = join([record.prompt.pad[None] for record in records])
        if texts:
            put_rows(table.text.reshape(-1, table.text.shape[-1]), sent[numbers.size :], join(texts))
        for record in records:
            reference = record.draft.reference
            if reference is not None:
                table.codes[record.slot, : record.reference] = to_device(reference.astype(np.int64))

    def _columns(self, record: Record) -> dict[str, float]:
        """The scalar columns that a slot starts with."""
        settings = settled(record.request.sampling, self._context.model.sampling)
        return {
            **AT_FIRST,
            **vars(settings),  # columns of the same names
            "penalty": settings.repetition_penalty,
            **{name: getattr(record, name) for name in ("limit", "reference", "written", "closed")},
            "position": rows_to_prefill(record),
            "seed": record.request.seed,
            "ignore_end": record.request.ignore_end,
        }


@lru_cache(maxsize=64)  # most requests have the same
def settled(asked: Sampling, defaults: Sampling) -> Sampling:
    """What was asked for, with every None replaced from `defaults`. A temperature below the lowest with which every
    device can sample is 0."""
    found = vars(defaults) | {name: value for name, value in vars(asked).items() if value is not None}
    heats = {name: found[name] for name in ("temperature", "predictor_temperature")}
    return Sampling(**found | {name: 0.0 for name, heat in heats.items() if heat is not None and heat < COLDEST})


@dataclass(eq=False)
class PromptRun:
    """Prompt rows [P, H] for `slot` from position `start` on."""

    rows: Any
    start: int
    slot: int


PIECE = 8
"""Rows of one prompt that lie together in a captured step: as many as a tile of attention holds."""


class PrefillSteps:
    """Writes prompt rows into the cache. A captured step takes the rows of many prompts end to end, in pieces of
    `PIECE` rows. Each piece has its own slot and position, so only the last piece of a prompt is padded. There is one
    captured step per total number of rows.
    """

    def __init__(self, context: StepContext, stream: Stream) -> None:
        self._context = context
        self.longest = min(context.plan.prompt_run, max(context.plan.prefill_rows), context.cache.capacity)
        self._sizes = sorted({round_up(size, PIECE) // PIECE for size in context.plan.prefill_rows})  # in pieces
        self._replays: dict[int, Replay] = {}
        if context.captures:
            most, model = self._sizes[-1], context.model
            self._rows = zeros((most, PIECE, model.facts.hidden), model.dtype, model.device)
            self._zeros = zeros((PIECE, model.facts.hidden), model.dtype, model.device)
            self._padding = [self._zeros[:rows] for rows in range(PIECE)]
            self._places = context.indices([0] * most, [context.spare] * most)  # starts and slots [2, pieces]
            for size in reversed(self._sizes):
                self._replays[size] = stream.capture(lambda size=size: self._prefill(size))

    def _prefill(self, size: int) -> None:
        context, (starts, slots) = self._context, self._places[:, :size]
        context.model.prefill(self._rows[:size], starts, slots, context.cache, context.cache.capacity)

    def launch(self, runs: Sequence[PromptRun]) -> None:
        """Prefill any number of runs, none longer than `longest`."""
        # padding must stay inside the cache; near its end the exact length is run uncaptured
        padded = [run for run in runs if self._replays and self._end(run) <= self._context.cache.capacity]
        for run in runs if len(padded) < len(runs) else ():
            if run not in padded:
                self._eager_run(run)
        if padded:
            self._captured_runs(padded)

    def _end(self, run: PromptRun) -> int:
        return run.start + round_up(run.rows.shape[0], PIECE)

    def _captured_runs(self, runs: Sequence[PromptRun]) -> None:
        context, most = self._context, self._sizes[-1]
        starts = [start for run in runs for start in range(run.start, self._end(run), PIECE)]
        slots = [run.slot for run in runs for _ in range(run.start, self._end(run), PIECE)]
        steps = [fitting(self._sizes, min(most, len(slots) - first)) for first in range(0, len(slots), most)]
        spare = sum(steps) - len(slots)
        places = context.indices(starts + [0] * spare, slots + [context.spare] * spare)
        # zeros, because an earlier prompt's rows may not have been finite
        parts = [part for run in runs for part in (run.rows, self._padding[-run.rows.shape[0] % PIECE])]
        rows = join([*parts, *[self._zeros] * spare]).reshape(-1, PIECE, parts[0].shape[1])
        first = 0
        for size in steps:
            self._places[:, :size] = places[:, first : first + size]
            self._rows[:size] = rows[first : first + size]
            self._replays[size]()
            first += size

    def _eager_run(self, run: PromptRun) -> None:
        context = self._context
        width = context.width(run.start + run.rows.shape[0] - 1)
        start, slot = context.indices(run.start), context.indices(run.slot)
        context.model.prefill(run.rows[None], start, slot, context.cache, width)


def rows_to_prefill(record: Record) -> int:
    """All prompt rows but the last, which is the input of the first frame."""
    return record.prompt_rows - 1


def refuse_impossible(request: Request) -> None:
    """Raise InputError for numbers that no slot can hold."""
    if request.max_frames is not None and request.max_frames < 1:
        raise InputError(f"max_frames is {request.max_frames}; the minimum is 1", hint="--max-frames 1")
    if not -(2**63) <= request.seed < 2**63:
        raise InputError(f"seed {request.seed} does not fit into 64 bits", hint=f"--seed {request.seed % 2**32}")


def taken(record: Record, ring: int) -> Iterator[tuple[Any, int]]:
    """Take text rows that are not sent yet while a slot's ring has room; yields them with the number of the first."""
    while record.unsent:
        start = record.written
        room = ring + max(record.launched - 1, 0) - start
        if room <= 0:
            return
        rows = record.unsent.popleft()
        if rows.shape[0] > room:
            record.unsent.appendleft(rows[room:])
            rows = rows[:room]
        record.written += rows.shape[0]
        yield rows, start


def top_up(context: StepContext, record: Record) -> None:
    """Send the text rows for which the slot's ring has room; close the feed after the last one."""
    if not record.unsent and record.closed == record.closing:
        return
    ring = context.plan.text_rows
    table = context.table
    for rows, start in taken(record, ring):
        at, count = start % ring, rows.shape[0]
        table.text[record.slot, at : at + count] = rows[: ring - at]
        if count > ring - at:
            table.text[record.slot, : count - ring + at] = rows[ring - at :]
        set_number(table.written, record.slot, record.written)
    if record.closing and not record.closed and not record.unsent:
        set_number(table.closed, record.slot, True)
        record.closed = True
