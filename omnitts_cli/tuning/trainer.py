"""Teaches a model the voice of prepared clips, until the loss on held-out clips stops falling.

A step is a function of its number: its clips, their layouts and what dropout hides are drawn from the seed and the
number. So a run that was killed continues with the losses of one that was not.
"""

from __future__ import annotations

import json
import math
import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np
import torch
from safetensors import SafetensorError
from torch import Tensor, nn

from omnitts_cli.devices.device import Device
from omnitts_cli.errors import InputError, Notice, OutputError
from omnitts_cli.families.common.parts import Language
from omnitts_cli.models.roles import Draft, Prompter
from omnitts_cli.models.sources import Names
from omnitts_cli.request import Request, TextMode
from omnitts_cli.tuning import checkpoints, loss
from omnitts_cli.tuning.journal import Journal, falling_rate
from omnitts_cli.tuning.learned import LearnedAdapter, fresh, places_in
from omnitts_cli.tuning.learning import optimiser
from omnitts_cli.tuning.loss import REST_WEIGHT, PaddedBatch, SpokenText, losses
from omnitts_cli.tuning.prepared import PreparedClip
from omnitts_cli.voices import Adapter, Cloned

STEM = "state"
POSITIONS = 1600  # of one part of a step, with padding
WARM_UP, LAST_RATE = 0.05, 0.1  # shares of the steps, and of the highest rate
WORSE = 3.0  # a loss this much above the first one means that the run diverged
SAVE_EVERY_S = 60.0
VECTOR = "vector"


@dataclass(frozen=True)
class LearningPlan:
    """How it learns."""

    rank: int = 16
    alpha: float = 32.0
    dropout: float = 0.05
    rate: float = 1e-3
    vector_rate: float = 1e-3
    epochs: int = 12
    step_s: float = 20.0  # of speech
    predicted: int = 256  # frames of a step whose other groups are learned
    stacks: tuple[str, ...] = ("talker", "predictor")
    streamed: float = 0.6  # share of the examples whose text stands beside the frames
    named_language: float = 0.4  # and of those that name their language
    patience: int = 3  # epochs without a gain
    gain: float = 0.002
    minutes: float | None = None  # of learning
    seed: int = 0


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
    ) -> None:
        self.language, self.ids, self.plan = language, ids, plan
        self.clips, self.held = list(clips), list(held)
        self._prompter, self._drafts = prompter, dict[tuple[str, str, str | None], Draft]()
        self.given = np.mean([clip.vector for clip in clips], axis=0, dtype=np.float32)
        places = places_in(language, names, plan.stacks)
        self.adapter = LearnedAdapter(language, places, fresh(language, places, plan.rank, plan.alpha, plan.seed))
        # in units of the rate of the adapter, so that one rate serves both
        self.shift = nn.Parameter(torch.zeros(len(self.given)))
        self.learned = {**self.adapter.parameters, VECTOR: self.shift}
        self.rate = torch.tensor(plan.rate)
        self.optimiser = optimiser(device, [*self.learned.values()], self.rate, (0.9, 0.95), 0.0)
        self.course = Course()
        self.best: dict[str, Tensor] = self.copy()

    @property
    def vector(self) -> Tensor:
        """The speaker's vector [H]."""
        return torch.from_numpy(self.given) + self.plan.vector_rate / self.plan.rate * self.shift

    @property
    def steps(self) -> int:
        """Of one epoch."""
        return len(self._steps_of(0))

    def copy(self) -> dict[str, Tensor]:
        return {name: one.detach().clone() for name, one in self.learned.items()}

    def result(self) -> tuple[Adapter, np.ndarray]:
        """The best adapter and its vector."""
        with torch.no_grad():
            for name, one in self.learned.items():
                one.copy_(self.best[name])
        return self.adapter.adapter(), self.vector.detach().numpy().copy()

    # ---- steps

    def _steps_of(self, epoch: int) -> list[list[int]]:
        """The clips of each step, in a new order."""
        order = list(range(len(self.clips)))
        random.Random(f"{self.plan.seed} {epoch}").shuffle(order)
        steps: list[list[int]] = [[]]
        for number in order:
            if sum(self.clips[one].seconds for one in steps[-1]) >= self.plan.step_s:
                steps.append([])
            steps[-1].append(number)
        return steps

    def example(self, clip: PreparedClip, copy: int, mode: TextMode | None, language: str | None) -> SpokenText:
        key = (clip.text, mode or "", language)
        if key not in self._drafts:
            request = Request(clip.text, Cloned(self.given), language=language, text_mode=mode)
            self._drafts[key] = self._prompter.draft(request)
        return SpokenText(self._drafts[key], clip.copies[copy])

    def _drawn(self, clip: PreparedClip, chance: random.Random) -> SpokenText:
        """A clip in one of its layouts, and one of its copies."""
        mode: TextMode = "streamed" if chance.random() < self.plan.streamed else "whole"
        language = self.ids.language if chance.random() < self.plan.named_language else None
        return self.example(clip, chance.randrange(len(clip.copies)), mode, language)

    def learn(self, numbers: Sequence[int], step: int) -> tuple[float, float]:
        """One step; the losses of group 0 and of the others."""
        chance = random.Random(f"{self.plan.seed} step {step}")
        torch.manual_seed(chance.getrandbits(31))
        examples = [self._drawn(self.clips[number], chance) for number in numbers]
        frames = sum(len(one.codes) for one in examples)
        predicted = min(frames, self.plan.predicted)
        total = steps_total(self.steps, self.plan.epochs)
        self.rate.fill_(falling_rate(step / total, self.plan.rate, LAST_RATE * self.plan.rate, step,
                                     max(1, round(WARM_UP * total))))  # fmt: skip
        self.optimiser.zero_grad()
        self.adapter.dropout = self.plan.dropout
        chosen = torch.randperm(frames)[:predicted].sort().values
        first = rest = 0.0
        at = 0
        for part in parts_of(examples):
            batch = self._batch(part)
            mine = chosen[(chosen >= at) & (chosen < at + len(batch.codes))] - at
            at += len(batch.codes)
            made = losses(self.language, batch, self.vector, mine)
            own_first = made.first / (frames + len(examples))
            own_rest = made.rest.mean() / predicted
            (own_first + REST_WEIGHT * own_rest).backward()
            first, rest = first + float(own_first.detach()), rest + float(own_rest.detach())
        self.adapter.dropout = 0.0
        nn.utils.clip_grad_norm_([*self.learned.values()], 1.0)
        self.optimiser.step()
        return first, rest

    def _batch(self, examples: Sequence[SpokenText]) -> PaddedBatch:
        return PaddedBatch.of(examples, self.ids.pad, self.ids.end)

    @torch.no_grad()
    def measure(self) -> Held:
        """The losses on held-out clips, in the layout of speech."""
        first = rest = right = labels = frames = 0.0
        for part in parts_of([self.example(clip, 0, None, None) for clip in self.held]):
            batch = self._batch(part)
            made = losses(self.language, batch, self.vector)
            first, rest, right = first + float(made.first), rest + float(made.rest.mean()), right + float(made.right)
            labels, frames = labels + batch.count, frames + made.predicted
        return Held(first / labels, rest / frames, right / labels)

    def refuse_misfits(self) -> None:
        """Raises InputError if the codes do not fit the model."""
        loss.refuse_misfits(self.language, self._batch([self.example(clip, 0, None, None) for clip in self.held[:4]]))

    # ---- a run

    def run(self, folder: Path, tell: Callable[[Notice], None], look: Callable[[Course, float, float], None]) -> Course:
        """Learns until there is a reason to end, which `course.ended` names. `look` is called after each step."""
        course = self.resume(folder)
        journal = Journal(folder / "curves.jsonl", "tune", echo=False)
        began, saved = time.monotonic(), time.monotonic()
        if course.step == 0 and math.isnan(course.first):
            course.first = course.last = course.best = self.measure().loss
            journal.write(epoch=0, held=course.first)
        while not course.ended:
            steps = self._steps_of(course.epoch)
            for numbers in steps[course.step - self._before(course.epoch) :]:
                first, rest = self.learn(numbers, course.step)
                course.step += 1
                if not math.isfinite(first + rest) or first + REST_WEIGHT * rest > course.first + WORSE:
                    course.ended = "diverged"
                    tell(Notice("the loss grows instead of falling; the best state is kept", hint="--rate 1e-4"))
                    break
                look(course, first, rest)
                journal.write(step=course.step, first=first, rest=rest, rate=float(self.rate))
                if time.monotonic() - saved > SAVE_EVERY_S:
                    self.save(folder)
                    saved = time.monotonic()
            if not course.ended:
                self._end_epoch(journal)
            if self.plan.minutes is not None and time.monotonic() - began > 60 * self.plan.minutes:
                course.ended = course.ended or "minutes"
            self.save(folder)
        return course

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
        tensors |= {f"best.{name}": one for name, one in self.best.items()}
        for name, one in self.learned.items():
            tensors |= {f"{key}.{name}": value for key, value in self.optimiser.state.get(one, {}).items()}
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
                keys = [key.removesuffix(f".{name}") for key in tensors if key.endswith(f".{name}")]
                state = {key: tensors[f"{key}.{name}"] for key in keys if key in ("step", "exp_avg", "exp_avg_sq")}
                if state:
                    self.optimiser.state[one] = state
        self.best = {name: tensors[f"best.{name}"] for name in self.learned}
        self.course = Course(**json.loads(about["course"]))
        if self.course.ended == "minutes":
            self.course.ended = ""  # this run has minutes of its own
        return self.course

    def settings(self) -> str:
        """What a run must have in common with the one that it continues."""
        data = [(clip.text, round(clip.seconds, 3), int(clip.copies[0].sum())) for clip in (*self.clips, *self.held)]
        plan = {key: value for key, value in asdict(self.plan).items() if key != "minutes"}
        return json.dumps([plan, self.ids.language, data], sort_keys=True)


def steps_total(steps: int, epochs: int) -> int:
    return max(1, steps * epochs)


def parts_of(examples: Sequence[SpokenText]) -> Iterator[list[SpokenText]]:
    """The examples in parts that fit into memory. Their order is kept, as `chosen` counts frames."""
    part: list[SpokenText] = []
    for one in examples:
        if part and max(one.length, *(other.length for other in part)) * (len(part) + 1) > POSITIONS:
            yield part
            part = []
        part.append(one)
    if part:
        yield part


def refuse_few(held: Sequence[PreparedClip]) -> None:
    """Raises InputError if too few clips are held out to tell whether the model learns."""
    if len(held) < 2:
        raise InputError("too few clips of different texts", hint="record at least twenty different sentences")
