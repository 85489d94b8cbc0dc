"""Answers: speed of a model that answers in text, or in text and speech, with a closed loop of users.

The report has the layout of vLLM's, and of vLLM-Omni's for speech.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from omnitts_cli.audio.chunk import Chunk
from omnitts_cli.bench.stats import Spread, spread
from omnitts_cli.errors import UsageError
from omnitts_cli.request import Failed, Request

if TYPE_CHECKING:
    from omnitts_cli.engine.answer_loop import AnswerLoop
    from omnitts_cli.engine.text_slots import TextRequest
    from omnitts_cli.models.audio_tower import Sound

PARTS = {
    "ttft": "Time to First Token",
    "tpot": "Time per Output Token (excl. 1st token)",
    "itl": "Inter-token Latency",
    "e2el": "End-to-end Latency",
}
SPEECH_PARTS = {
    "audio_ttfp_ms": ("Time to First Packet", "AUDIO_TTFP (ms)"),
    "audio_rtf": ("Real Time Factor", "AUDIO_RTF"),
}
FRAMES_PER_TOKEN = 2.5
"""Of speech: 900 tokens are 180 s. Random weights never end by themselves."""

CONTROL = 64
"""Ids at the end of a vocabulary that questions do not use: control tokens."""
PIECES = 16
"""Positions beside question and answer, so that padded prompts fit."""


@dataclass(frozen=True)
class AnswerWorkload:
    """What one user asks, and how long the answer is."""

    prompt: int  # tokens, those of a recording included
    answer: int
    spoken: bool = False
    recording_s: float = 0.0  # of the question that is a recording

    @property
    def frames(self) -> int:
        """Frames of a spoken answer."""
        return round(FRAMES_PER_TOKEN * self.answer)


@dataclass
class Answered:
    """When the tokens and the sound of one answer arrived, in seconds of one clock."""

    submitted: float
    tokens: list[float] = field(default_factory=list)
    ended: float | None = None
    first_sound: float | None = None
    samples: int = 0
    parts: int = 1  # that have not ended: text and sound


@dataclass
class AnswerLevel:
    """The results of one number of users; times in milliseconds."""

    concurrency: int
    prompt_tokens: int  # of one question
    answer_tokens: int
    requests: int
    duration_s: float
    output_throughput: float  # tokens per second
    total_throughput: float  # with the questions
    request_throughput: float
    ttft_ms: Spread
    tpot_ms: Spread
    itl_ms: Spread
    e2el_ms: Spread
    steps: int
    host_syncs_per_step: float | None
    steady_throughput: float | None  # tokens per second while every user was being answered
    recording_s: float = 0.0  # of one question
    audio_s: float | None = None  # of all answers; None for text only, as what follows
    audio_frames: int | None = None
    audio_throughput: float | None = None
    audio_ttfp_ms: Spread | None = None
    audio_rtf: Spread | None = None

    def record(self) -> dict[str, Any]:
        """For programs."""
        return asdict(self)


@dataclass
class AnswerReport:
    """All levels of one model on one machine."""

    about: dict[str, Any]
    levels: list[AnswerLevel]

    def record(self) -> dict[str, Any]:
        """For a file."""
        return {"schema": 1, "benchmark": "ask", **self.about, "levels": [level.record() for level in self.levels]}


def measured(
    model: str,
    users: Sequence[int],
    requests: int | None,
    work: AnswerWorkload,
    seed: int,
    settings: dict[str, Any],
    report: Callable[[float, str], None] = lambda done, words: None,
) -> AnswerReport:
    """Open the model and measure a level for each number of `users`, by default with two requests per user."""
    from importlib.metadata import version

    from omnitts_cli.speech.load_thinker import open_answer_loop

    settings = {**settings, "slots": settings.get("slots") or max(users)}
    if work.spoken:
        settings["seconds"] = work.frames / 12.5 + 1
    loop = open_answer_loop(
        model,
        positions=work.prompt + work.answer + PIECES,
        sound=work.recording_s > 0,
        speech=work.spoken,
        **settings,
    )
    device = loop.device
    about: dict[str, Any] = {
        "model": loop.model.name,
        "device": device.name,
        "card": device.card,
        "torch": version("torch"),
    }
    about |= {"dtype": str(loop.model.dtype).removeprefix("torch."), "slots": loop.plan.slots}
    levels = []
    for number, count in enumerate(users):
        report(number / len(users), f"{count} user{'s' * (count != 1)}")
        run_level(loop, count, count, replace(work, answer=2), seed=seed + 1)  # kernels compile on first use
        most = requests or max(4, 2 * count)
        levels.append(run_level(loop, count, most, work, seed=seed + 2))
    return AnswerReport(about, levels)


def questions(
    loop: AnswerLoop, count: int, work: AnswerWorkload, seed: int
) -> Iterator[tuple[TextRequest, Request | None]]:
    """Requests of fixed lengths, each with random ids of its own, so that none shares a prefix with another."""
    from omnitts_cli.engine.text_slots import TextRequest
    from omnitts_cli.models.audio_tower import RATE, Sound

    made, words = np.random.default_rng(seed), max(1, loop.model.facts.tokens - CONTROL)
    voice = Request("", max_frames=work.frames, ignore_end=True) if work.spoken else None
    for number in range(count):
        sounds: tuple[Sound, ...] = ()
        if work.recording_s:
            sounds = (Sound.of(made.normal(0, 0.1, round(work.recording_s * RATE)).astype(np.float32)),)
        before, after = template(loop, sounds) if work.spoken or sounds else ([], [])
        lacking = work.prompt - len(before) - len(after)
        if lacking < 1:
            raise UsageError(
                f"{work.prompt} tokens are too few for the chat template and the recording",
                hint=f"--prompt-tokens {work.prompt - lacking + 1}",
            )
        prompt = [*before, *made.integers(0, words, lacking).tolist(), *after]
        yield (
            TextRequest(prompt, most=work.answer, ignore_end=True, sounds=sounds),
            replace(voice, seed=seed + number) if voice else None,
        )


def template(loop: AnswerLoop, sounds: tuple[Sound, ...]) -> tuple[list[int], list[int]]:
    """What stands before and after the words of a question."""
    from omnitts_cli.models.thinker import Message

    whole = loop.model.chat.prompt([Message("user", "", sounds=sounds)])
    end = len(whole) - 1 - whole[::-1].index(loop.model.facts.stops[0])
    return whole[:end], whole[end:]


def run_level(loop: AnswerLoop, users: int, requests: int, work: AnswerWorkload, *, seed: int = 0) -> AnswerLevel:
    """Keep `users` questions in flight until `requests` were answered."""
    waiting = iter(list(questions(loop, requests, work, seed)))  # made before the clock runs
    begun: dict[str, Answered] = {}
    flying: set[str] = set()
    done: list[Answered] = []
    before = loop.steps_launched
    with loop.device.count_syncs() as syncs:
        start = time.perf_counter()
        while True:
            while len(flying) < users and (asked := next(waiting, None)) is not None:
                now = time.perf_counter()
                name = loop.submit(*asked)
                begun[name] = Answered(now, parts=1 + work.spoken)
                flying.add(name)
            if not flying:
                break
            news = loop.step()
            now = time.perf_counter()
            for one in news:
                if isinstance(one, Failed):
                    raise one.error
                if note(one, begun[one.request], now):
                    done.append(begun[one.request])
                    flying.discard(one.request)
        duration = time.perf_counter() - start
        waits = syncs()
    steps = loop.steps_launched - before
    tokens = sum(len(one.tokens) for one in done)
    return AnswerLevel(
        concurrency=users,
        prompt_tokens=work.prompt,
        answer_tokens=work.answer,
        requests=len(done),
        duration_s=duration,
        output_throughput=tokens / duration,
        total_throughput=(tokens + work.prompt * len(done)) / duration,
        request_throughput=len(done) / duration,
        ttft_ms=spread(1000 * (one.tokens[0] - one.submitted) for one in done),
        tpot_ms=spread(
            1000 * (one.tokens[-1] - one.tokens[0]) / (len(one.tokens) - 1) for one in done if len(one.tokens) > 1
        ),
        itl_ms=spread(1000 * (later - sooner) for one in done for sooner, later in pairwise(one.tokens)),
        e2el_ms=spread(1000 * ((one.ended or 0) - one.submitted) for one in done),
        steps=steps,
        host_syncs_per_step=None if waits is None else waits / max(steps, 1),
        steady_throughput=steady(done, users),
        recording_s=work.recording_s,
        **(speech_figures(loop, done, work, duration) if work.spoken else {}),
    )


def note(news: Any, answered: Answered, now: float) -> bool:
    """Write down when news arrived; whether the answer has ended."""
    if isinstance(news, Chunk):
        answered.samples += news.pcm.size
        if news.pcm.size and answered.first_sound is None:
            answered.first_sound = now
    elif news.id is not None:
        answered.tokens.append(now)
    answered.parts -= news.last
    if not answered.parts:
        answered.ended = now
    return not answered.parts


def speech_figures(loop: AnswerLoop, done: Sequence[Answered], work: AnswerWorkload, duration: float) -> dict[str, Any]:
    """The part of a level that only speech has."""
    assert loop.speech is not None
    rate = loop.speech.model.facts.sample_rate
    seconds = sum(one.samples for one in done) / rate
    return {
        "audio_s": seconds,
        "audio_frames": work.frames * len(done),
        "audio_throughput": seconds / duration,
        "audio_ttfp_ms": spread(1000 * ((one.first_sound or 0) - one.submitted) for one in done),
        "audio_rtf": spread(((one.ended or 0) - one.submitted) * rate / one.samples for one in done if one.samples),
    }


def steady(answers: Sequence[Answered], users: int) -> float | None:
    """Tokens per second between the moment when the last of `users` answers began and the first of these ended."""
    first = sorted(answers, key=lambda one: one.tokens[0])[:users]
    begin, end = max(one.tokens[0] for one in first), min(one.tokens[-1] for one in first)
    if len(first) < users or end <= begin:
        return None
    count = sum(begin < at <= end for one in first for at in one.tokens)
    return count / (end - begin)


def lines(level: AnswerLevel) -> Iterator[str]:
    """The report of one level, in the layout of vLLM's `bench serve`."""

    def line(name: str, value: float | int | None, digits: int = 2) -> str:
        shown = "-" if value is None else f"{value:d}" if isinstance(value, int) else f"{value:.{digits}f}"
        return f"{name + ':':<40} {shown:<9}"

    yield f"{' Serving Benchmark Result ':=^50}"
    yield line("Successful requests", level.requests)
    yield line("Maximum request concurrency", level.concurrency)
    yield line("Benchmark duration (s)", level.duration_s)
    yield line("Total input tokens", level.requests * level.prompt_tokens)
    yield line("Total generated tokens", level.requests * level.answer_tokens)
    yield line("Request throughput (req/s)", level.request_throughput)
    yield line("Output token throughput (tok/s)", level.output_throughput)
    yield line("Total token throughput (tok/s)", level.total_throughput)
    yield line("Steady output throughput (tok/s)", level.steady_throughput)
    yield line("Host waits per step", level.host_syncs_per_step)
    for name, title in PARTS.items():
        values: Spread = getattr(level, f"{name}_ms")
        yield f"{title:-^50}"
        for key, word in (("mean", "Mean"), ("median", "Median"), ("p99", "P99")):
            yield line(f"{word} {name.upper()} (ms)", values[key])
    if level.audio_s is not None:
        yield f"{' Audio Result ':=^50}"
        yield line("Total audio duration generated (s)", level.audio_s)
        yield line("Total audio frames generated", level.audio_frames)
        yield line("Audio throughput (audio duration/s)", level.audio_throughput)
        for key, (title, words) in SPEECH_PARTS.items():
            found: Spread = getattr(level, key)
            yield f"{title:-^50}"
            for rank, word in (("mean", "Mean"), ("median", "Median"), ("p99", "P99")):
                yield line(f"{word} {words}", found[rank], digits=3 if "RTF" in words else 2)
    yield "=" * 50
