"""Teaches a model the voice of prepared clips, until the loss on held-out clips stops falling.

A step is a function of its number: its clips, their layouts and what dropout hides are drawn from the seed and the
number. So a run that was killed continues with the losses of one that was not.
"""

import json
import math
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from safetensors import SafetensorError
from torch import Tensor, nn

from omnitts_cli.devices.device import Device
from omnitts_cli.errors import InputError, Notice, OutputError
from omnitts_cli.families.common.parts import Language
from omnitts_cli.models.prompts import Draft, Prompter
from omnitts_cli.models.sources import Names
from omnitts_cli.request import Request, TextMode
from omnitts_cli.tuning import checkpoints, loss
from omnitts_cli.tuning.folder import CURVES
from omnitts_cli.tuning.journal import Journal, falling_rate
from omnitts_cli.tuning.learned import LearnedAdapter, fresh, places_in, with_gradients
from omnitts_cli.tuning.learning import half, half_type
from omnitts_cli.tuning.loss import REST_WEIGHT, BatchShape, PaddedBatch, SpokenText, losses
from omnitts_cli.tuning.prepared import PreparedClip
from omnitts_cli.tuning.room import TEXT_TABLE, Shapes, Way, WayPlan, room_for
from omnitts_cli.tuning.steps import Steps
from omnitts_cli.voices import Adapter, Cloned

STEM = "state"
POSITIONS = 1600  # of one part of a step, with padding
LENGTHS, KNOWN, CHOSEN = 32, 512, 64  # sizes of captured batches are multiples of these
POSITIONS_PER_S = 18.5  # of speech and its text
WARM_UP, LAST_RATE = 0.05, 0.1  # shares of the steps, and of the highest rate
WORSE = 3.0  # a loss this much above the first one means that the run diverged
SAVE_EVERY_S = 60.0
LEAST_POSITIONS = 100  # of one part of a step
HEAVY = 1 << 30  # bytes of weights that are saved after each epoch only
VECTOR = "vector"


@dataclass(frozen=True)
class LearningPlan:
    """How it learns."""

    full: bool = False  # all weights, instead of an adapter
    rank: int = 16
    alpha: float = 32.0
    dropout: float = 0.05
    rate: float = 1e-3
    vector_rate: float = 1e-3
    epochs: int = 6
    step_s: float = 20.0  # of speech
    predicted: int = 256  # frames of a step whose other groups are learned
    stacks: tuple[str, ...] = ("talker", "predictor")
    streamed: float = 0.6  # share of the examples whose text stands beside the frames
    named_language: float = 0.4  # and of those that name their language
    patience: int = 3  # epochs without a gain
    gain: float = 0.002
    minutes: float | None = None  # of learning
    seed: int = 0
    way: Way | None = None  # in which all weights learn; None: what fits into the memory has not been looked for

    @property
    def words(self) -> str:
        """What learns, for people."""
        return "all weights" if self.full else f"adapter of rank {self.rank} on {' and '.join(self.stacks)}"

    def room(self, shapes: Shapes, device: Device) -> WayPlan:
        """How all weights of these shapes can learn in the free memory of a device."""
        positions = min(POSITIONS, round(1.1 * self.step_s * POSITIONS_PER_S))
        return room_for(shapes, device.free_bytes(), positions, self.predicted, half_type(device) is not None)


@dataclass(frozen=True)
class Ids:
    """Ids that an example needs, and the name that the model has for the language."""

    pad: int
    end: int
    language: str | None  # of the recordings; None: unknown


@dataclass
class Course:
    """How far a run has come."""

    step: int = 0
    epoch: int = 0
    first: float = math.nan  # held-out losses: before the first step, the best, the last
    best: float = math.inf
    last: float = math.nan
    best_epoch: int = 0
    idle: int = 0  # epochs since the best
    ended: str = ""
    curve: list[dict[str, float]] = field(default_factory=list)


@dataclass(frozen=True, eq=False)
class Held:
    """Losses on the held-out clips."""

    first: float
    rest: float
    right: float

    @property
    def loss(self) -> float:
        return self.first + REST_WEIGHT * self.rest


class Trainer:
    """A model, the clips, and what has been learned."""

    def __init__(
        self,
        language: Language,
        names: Names,
        prompter: Prompter,
        ids: Ids,
        clips: Sequence[PreparedClip],
        held: Sequence[PreparedClip],
        device: Device,
        plan: LearningPlan,
        vectors: Mapping[str, np.ndarray] | None = None,
    ) -> None:
        """`vectors`: of speakers for whom it is not the mean of their clips."""
        self.language, self.ids, self.plan, self.device = language.requires_grad_(False), ids, plan, device
        self.clips, self.held = list(clips), list(held)
        self._prompter, self._drafts = prompter, dict[tuple[str, str, str | None, str], Draft]()
        self.speakers = sorted({clip.speaker for clip in clips})
        means = {who: np.mean([clip.vector for clip in clips if clip.speaker == who], axis=0, dtype=np.float32)
                 for who in self.speakers}  # fmt: skip
        self.given = np.stack([{**means, **(vectors or {})}[who] for who in self.speakers])
        table = language.text.table
        table.data = (narrowed(table.data) if half_type(device) is not None else table.data).to(device.torch_device)
        for stack in (language.talker.stack, language.predictor.stack):
            stack.ops = with_gradients(replace(stack.ops, learn=device.ops().learn), stack.ops.linear)
        self.adapter: LearnedAdapter | None = None
        way = plan.way or Way()
        if plan.full:
            learned = {name: one for name, one in language.named_parameters() if name != TEXT_TABLE}
            for one in learned.values():
                one.requires_grad_(True)
            language.talker.stack.recomputes = language.predictor.stack.recomputes = way.recomputes
        else:
            places = places_in(language, names, plan.stacks)
            self.adapter = LearnedAdapter(language, places, fresh(language, places, plan.rank, plan.alpha, plan.seed))
            learned = self.adapter.parameters
        self._known = torch.from_numpy(self.given).to(device.torch_device)
        # in units of the rate of the others, so that one rate serves both
        self.shift = nn.Parameter(torch.zeros_like(self._known))
        self.learned: dict[str, nn.Parameter] = {**learned, VECTOR: self.shift}
        weight_decay, halves = (0.01, way.half_moments) if plan.full else (0.0, False)
        self.steps = Steps(device, [*self.learned.values()], weight_decay, self._gradients, halves)
        self.course = Course()
        self.most = POSITIONS  # of one part of a step, with padding
        self._ready: tuple[int, list[tuple[PaddedBatch, Tensor]]] | None = None
        self.best: dict[str, Tensor] = self.copy()

    @property
    def vectors(self) -> Tensor:
        """Of the speakers [K, H]."""
        return self._known + self.plan.vector_rate / self.plan.rate * self.shift

    def copy(self) -> dict[str, Tensor]:
        """What has been learned, in the memory of the host."""
        return {name: one.detach().to("cpu", copy=True) for name, one in self.learned.items()}

    def result(self) -> tuple[Adapter | None, dict[str, np.ndarray]]:
        """The best adapter, and the vectors by speaker. With all weights, the model is then the best one."""
        with torch.no_grad():
            for name, one in self.learned.items():
                one.copy_(self.best[name])
        return self.now()

    def now(self) -> tuple[Adapter | None, dict[str, np.ndarray]]:
        """What has been learned so far."""
        vectors = self.vectors.detach().cpu().numpy().copy()
        made = None if self.adapter is None else self.adapter.adapter()
        return made, dict(zip(self.speakers, vectors, strict=True))

    # ---- steps

    def _steps_of(self, epoch: int) -> list[list[int]]:
        """The clips of each step, in a new order. Where steps are captured, those of a step are about as long as each
        other, so that there are few shapes."""
        order = list(range(len(self.clips)))
        chance = random.Random(f"{self.plan.seed} {epoch}")
        chance.shuffle(order)
        if self.device.captures:
            return self._alike(order, chance)
        steps: list[list[int]] = [[]]
        for number in order:
            if sum(self.clips[one].seconds for one in steps[-1]) >= self.plan.step_s:
                steps.append([])
            steps[-1].append(number)
        return steps

    def _alike(self, order: list[int], chance: random.Random) -> list[list[int]]:
        """Steps of clips that share a length."""
        steps = []
        for length in sorted(set(self._lengths)):
            alike, most = [one for one in order if self._lengths[one] == length], self._together(length)
            steps += [alike[at : at + most] for at in range(0, len(alike), most)]
        chance.shuffle(steps)
        return steps

    @cached_property
    def _total(self) -> int:
        """Steps of all epochs."""
        return steps_total(len(self._steps_of(0)), self.plan.epochs)

    @cached_property
    def _lengths(self) -> list[int]:
        """The positions of each clip in its longest layout, as a multiple of LENGTHS."""
        found = []
        for clip in self.clips:
            made = self.example(clip, 0, "whole", self.ids.language)
            length = made.start + max(map(len, clip.copies))
            found.append(-(-length // LENGTHS) * LENGTHS)
        return found

    def _together(self, length: int) -> int:
        """Clips of this length in a captured step."""
        return max(1, round(self.plan.step_s * POSITIONS_PER_S / length))

    def example(self, clip: PreparedClip, copy: int, mode: TextMode | None, language: str | None) -> SpokenText:
        key, speaker = (clip.text, mode or "", language, clip.speaker), self.speakers.index(clip.speaker)
        if key not in self._drafts:
            request = Request(clip.text, Cloned(self.given[speaker]), language=language, text_mode=mode)
            self._drafts[key] = self._prompter.draft(request)
        return SpokenText(self._drafts[key], clip.copies[copy], speaker)

    def _drawn(self, clip: PreparedClip, chance: random.Random) -> SpokenText:
        """A clip in one of its layouts, and one of its copies."""
        mode: TextMode = "streamed" if chance.random() < self.plan.streamed else "whole"
        language = self.ids.language if chance.random() < self.plan.named_language else None
        return self.example(clip, chance.randrange(len(clip.copies)), mode, language)

    def learn(
        self, numbers: Sequence[int], step: int, following: Sequence[int] = (),
        tell: Callable[[Notice], None] = lambda notice: None,
    ) -> tuple[float, float]:  # fmt: skip
        """One step; the losses of group 0 and of the others. The batches of the following one are made meanwhile.

        If memory runs out, the step is made again from smaller parts, as are all that follow."""
        while True:
            try:
                return self._learned(numbers, step, following)
            except Exception as error:
                if not self.device.is_out_of_memory(error) or self.most <= LEAST_POSITIONS:
                    raise
            self.most, self._ready = self.most // 2, None
            self.steps.forget()
            tell(Notice("memory ran out, so a step is made of smaller parts from now on",
                        cause=f"at most {self.most} positions at a time", hint="--rank 8   uses less"))  # fmt: skip

    def _learned(self, numbers: Sequence[int], step: int, following: Sequence[int]) -> tuple[float, float]:
        ready = self._ready
        if ready is not None and ready[0] == step:
            parts = ready[1]
        else:
            parts = self.steps.placed(self._parts(numbers, step))
        rate = falling_rate(step / self._total, self.plan.rate, LAST_RATE * self.plan.rate, step,
                            max(1, round(WARM_UP * self._total)))  # fmt: skip
        torch.manual_seed(random.Random(f"{self.plan.seed} dropout {step}").getrandbits(31))
        self._hide(self.plan.dropout)
        fetch = self.steps.step(parts, rate)
        self._hide(0.0)
        self.last_rate = rate
        if following and self.device.captures:
            try:
                self._ready = step + 1, self.steps.placed(self._parts(following, step + 1))
            except Exception as error:  # this step is done, and must not be made again
                if not self.device.is_out_of_memory(error):
                    raise
        first, rest = (float(one) for one in fetch.result()[0])
        return first, rest

    def _hide(self, share: float) -> None:
        if self.adapter is not None:
            self.adapter.dropout = share

    def _parts(self, numbers: Sequence[int], step: int) -> list[tuple[PaddedBatch, Tensor]]:
        """The batches of a step, and what divides their sums."""
        chance = random.Random(f"{self.plan.seed} step {step}")
        examples = [self._drawn(self.clips[number], chance) for number in numbers]
        frames = sum(len(one.codes) for one in examples)
        predicted = min(frames, self.plan.predicted)
        chosen = np.sort(np.random.default_rng(chance.getrandbits(31)).permutation(frames)[:predicted])
        length = max(self._lengths[number] for number in numbers) if self.device.captures else None
        parts, at = [], 0
        shares = torch.tensor([1 / (frames + len(examples)), 1 / predicted])
        for part in parts_of(examples, self.most, length):
            count = sum(len(one.codes) for one in part)
            mine = chosen[(chosen >= at) & (chosen < at + count)] - at
            at += count
            shape = None
            if length is not None:
                rows = min(self._together(length), max(1, self.most // length))
                # one size for all steps of this length, unless that wastes much; another size would be captured anew
                whole = len(part) == len(examples) and 2 * self.plan.predicted <= rows * length
                wanted = self.plan.predicted if whole else max(1, len(mine))
                shape = BatchShape(rows, length, KNOWN, -(-wanted // CHOSEN) * CHOSEN)
            parts.append((self._batch(part, mine, shape), shares))
        return parts

    def _gradients(self, batch: PaddedBatch, shares: Tensor, lost: Tensor) -> None:
        with half(self.device):
            made = losses(self.language, batch, self.vectors)
            first, rest = made.first * shares[0], made.rest.mean() * shares[1]
            (first + REST_WEIGHT * rest).backward()
        lost += torch.stack([first, rest]).detach()

    def _batch(
        self, examples: Sequence[SpokenText], chosen: np.ndarray | None = None, shape: BatchShape | None = None
    ) -> PaddedBatch:
        return PaddedBatch.of(examples, self.ids.pad, self.ids.end, chosen, shape)

    @torch.no_grad()
    def measure(self) -> Held:
        """The losses on held-out clips, in the layout of speech."""
        first = rest = right = labels = frames = 0.0
        for part in parts_of([self.example(clip, 0, None, None) for clip in self.held], self.most):
            batch = self._batch(part).on(self.steps.place)
            with half(self.device):
                made = losses(self.language, batch, self.vectors)
            first, rest, right = first + float(made.first), rest + float(made.rest.mean()), right + float(made.right)
            labels, frames = labels + batch.count, frames + made.predicted
        return Held(first / labels, rest / frames, right / labels)

    def plain_losses(self, texts: Sequence[str], codes: np.ndarray, speaker: str) -> list[float]:
        """How unlikely the plain clone finds code 0 of an utterance with each of several texts. If all weights are
        learned, the model is asked as it is now."""
        clip, found = PreparedClip("", (codes,), self.given[0], 0.0, speaker), list[float]()
        if self.adapter is not None:
            self.adapter.silent = True
        with self.steps.working(), half(self.device):
            for part in parts_of([self.example(replace(clip, text=one), 0, None, None) for one in texts], self.most):
                batch = self._batch(part, np.zeros(0, np.int64)).on(self.steps.place)
                found += loss.first_of_each(self.language, batch, self._known).tolist()
        if self.adapter is not None:
            self.adapter.silent = False
        return found

    def refuse_misfits(self) -> None:
        """Raises InputError if the codes do not fit the model."""
        batch = self._batch([self.example(clip, 0, None, None) for clip in self.held[:4]])
        with self.steps.working(), half(self.device):
            loss.refuse_misfits(self.language, batch.on(self.steps.place))

    # ---- a run

    def run(
        self, folder: Path, tell: Callable[[Notice], None], look: Callable[[Course, float, float], None],
        listen: Callable[[int], dict[str, float]] = lambda epoch: {},
    ) -> Course:  # fmt: skip
        """Learns until there is a reason to end, which `course.ended` names. `look` is called after each step, `listen`
        after each epoch; the journal has the figures that it returns."""
        with self.steps.working():
            return self._run(folder, tell, look, listen)

    def _run(
        self, folder: Path, tell: Callable[[Notice], None], look: Callable[[Course, float, float], None],
        listen: Callable[[int], dict[str, float]],
    ) -> Course:  # fmt: skip
        course = self.resume(folder)
        journal = Journal(folder / CURVES, "tune", echo=False)
        began, saved = time.monotonic(), time.monotonic()
        if course.step == 0 and math.isnan(course.first):
            course.first = course.last = course.best = self.measure().loss
            journal.write(epoch=0, held=course.first)
        while not course.ended:
            steps = self._steps_of(course.epoch)[course.step - self._before(course.epoch) :]
            for numbers, following in zip(steps, [*steps[1:], []], strict=False):  # no steps: it stopped after the last
                first, rest = self.learn(numbers, course.step, following, tell)
                course.step += 1
                if not math.isfinite(first + rest) or first + REST_WEIGHT * rest > course.first + WORSE:
                    course.ended = "diverged"
                    tell(Notice("the loss grows instead of falling; the best state is kept", hint="--rate 1e-4"))
                    break
                look(course, first, rest)
                journal.write(step=course.step, first=first, rest=rest, rate=self.last_rate)
                if time.monotonic() - saved > SAVE_EVERY_S and not self.heavy:
                    self.save(folder)
                    saved = time.monotonic()
            if not course.ended:
                self._end_epoch(journal)
                if figures := listen(course.epoch):
                    journal.write(epoch=course.epoch, **figures)
            if self.plan.minutes is not None and time.monotonic() - began > 60 * self.plan.minutes:
                course.ended = course.ended or "minutes"
            self.save(folder)
        return course

    @property
    def heavy(self) -> bool:
        """Whether the state is too large to be written every minute."""
        return sum(one.nbytes for one in self.learned.values()) > HEAVY

    def _before(self, epoch: int) -> int:
        """Steps of the epochs before this one."""
        return sum(len(self._steps_of(one)) for one in range(epoch))

    def _end_epoch(self, journal: Journal) -> None:
        course, held = self.course, self.measure()
        course.epoch, course.last = course.epoch + 1, held.loss
        course.curve.append({"epoch": course.epoch, "held": held.loss, "first": held.first, "rest": held.rest})
        journal.write(epoch=course.epoch, held=held.loss, held_first=held.first, held_rest=held.rest, right=held.right)
        if held.loss < course.best - self.plan.gain:
            course.best, course.best_epoch, course.idle, self.best = held.loss, course.epoch, 0, self.copy()
        else:
            course.idle += 1
        if course.idle >= self.plan.patience:
            course.ended = "no gain"
        elif course.epoch >= self.plan.epochs:
            course.ended = "epochs"

    def save(self, folder: Path) -> None:
        """Writes the whole state to one file, which replaces the earlier one."""
        tensors = {f"now.{name}": one.detach() for name, one in self.learned.items()}
        tensors |= {f"best.{name}": one for name, one in self.best.items()} | self.steps.state([*self.learned])
        about = {"course": json.dumps(asdict(self.course)), "plan": self.settings()}
        try:
            checkpoints.save(folder, STEM, tensors, about)
        except (OSError, SafetensorError) as error:
            why = (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
            raise OutputError(
                f"cannot save the state of the run in {folder}", cause=why[:200],
                hint="free some space; the same command continues from the state before",
            ) from None  # fmt: skip

    def resume(self, folder: Path) -> Course:
        """Continues from the state in a folder, if that has the same plan and data."""
        tensors, about = checkpoints.load(folder, STEM), checkpoints.about(folder, STEM)
        if not tensors or about.get("plan") != self.settings():
            return self.course
        with torch.no_grad():
            for name, one in self.learned.items():
                one.copy_(tensors[f"now.{name}"])
        self.steps.resume([*self.learned], tensors)
        self.best = {name: tensors[f"best.{name}"] for name in self.learned}
        self.course = Course(**json.loads(about["course"]))
        if self.course.ended == "minutes":
            self.course.ended = ""  # this run has minutes of its own
        return self.course

    def settings(self) -> str:
        """What a run must have in common with the one that it continues."""
        data = [
            (clip.text, clip.speaker, round(clip.seconds, 3), int(clip.copies[0].sum()))
            for clip in (*self.clips, *self.held)
        ]
        plan = {key: value for key, value in asdict(self.plan).items() if key not in ("minutes", "way")}
        return json.dumps([plan, self.ids.language, data], sort_keys=True)


def steps_total(steps: int, epochs: int) -> int:
    return max(1, steps * epochs)


def parts_of(examples: Sequence[SpokenText], most: int, length: int | None = None) -> Iterator[list[SpokenText]]:
    """The examples in parts of at most so many positions. Their order is kept, as frames are counted through all of
    them. `length`: to which all are padded."""
    part: list[SpokenText] = []
    for one in examples:
        longest = length or max(one.length, *(other.length for other in part), 0)
        if part and longest * (len(part) + 1) > most:
            yield part
            part = []
        part.append(one)
    if part:
        yield part


def narrowed(table: Tensor) -> Tensor:
    """In bfloat16 if that changes nothing, as with the released weights."""
    half = table.bfloat16()
    return half if torch.equal(half.to(table.dtype), table) else table


def refuse_few(held: Sequence[PreparedClip]) -> None:
    """Raises InputError if too few clips are held out to tell whether the model learns."""
    if len(held) < 2:
        raise InputError("too few clips of different texts", hint="record at least twenty different sentences")
