"""Answers: speed of a model that writes text, with a closed loop of users. The report has the layout of vLLM's."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from omnitts_cli.bench.stats import Spread, spread

if TYPE_CHECKING:
    from omnitts_cli.engine.text_loop import TextLoop, TextRequest

PARTS = {
    "ttft": "Time to First Token",
    "tpot": "Time per Output Token (excl. 1st token)",
    "itl": "Inter-token Latency",
    "e2el": "End-to-end Latency",
}


CONTROL = 64
"""Ids at the end of a vocabulary that questions do not use: control tokens."""
PIECES = 16
"""Positions beside question and answer, so that padded prompts fit."""


@dataclass
class Answered:
    """When the tokens of one answer arrived, in seconds of one clock."""

    submitted: float
    tokens: list[float] = field(default_factory=list)
    ended: float | None = None


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
    prompt: int,
    answer: int,
    seed: int,
    settings: dict[str, Any],
    tell: Callable[[float, str], None] = lambda done, words: None,
) -> AnswerReport:
    """Open the model and measure a level for each number of `users`, by default with two requests per user."""
    from importlib.metadata import version

    from omnitts_cli.speech.load_thinker import open_text_loop

    settings = {**settings, "slots": settings.get("slots") or max(users)}
    loop = open_text_loop(model, positions=prompt + answer + PIECES, **settings)
    words = max(1, loop.model.facts.tokens - CONTROL)
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
        tell(number / len(users), f"{count} user{'s' * (count != 1)}")
        run_level(loop, count, count, prompt, 2, seed=seed + 1, words=words)  # a warm-up: kernels compile on first use
        most = requests or max(4, 2 * count)
        levels.append(run_level(loop, count, most, prompt, answer, seed=seed + 2, words=words))
    return AnswerReport(about, levels)


def questions(count: int, prompt: int, answer: int, words: int, seed: int) -> Iterator[TextRequest]:
    """Requests of fixed lengths, each with random ids of its own, so that none shares a prefix with another."""
    from omnitts_cli.engine.text_loop import TextRequest

    made = np.random.default_rng(seed)
    for _ in range(count):
        yield TextRequest(made.integers(0, words, prompt).tolist(), most=answer, ignore_end=True)


def run_level(
    loop: TextLoop, users: int, requests: int, prompt: int, answer: int, *, seed: int = 0, words: int = 256
) -> AnswerLevel:
    """Keep `users` questions in flight until `requests` were answered."""
    waiting = questions(requests, prompt, answer, words, seed)
    begun: dict[int, Answered] = {}
    flying: set[int] = set()
    done: list[Answered] = []
    before = loop.steps_launched
    with loop.device.count_syncs() as syncs:
        start = time.perf_counter()
        while True:
            while len(flying) < users and (request := next(waiting, None)) is not None:
                now = time.perf_counter()
                number = loop.submit(request)
                begun[number] = Answered(now)
                flying.add(number)
            if not flying:
                break
            news = loop.step()
            now = time.perf_counter()
            for one in news:
                if one.error is not None:
                    raise one.error
                if one.id is not None:
                    begun[one.request].tokens.append(now)
                if one.stopped is not None:
                    begun[one.request].ended = now
                    done.append(begun[one.request])
                    flying.discard(one.request)
        duration = time.perf_counter() - start
        waits = syncs()
    steps = loop.steps_launched - before
    tokens = sum(len(one.tokens) for one in done)
    return AnswerLevel(
        concurrency=users,
        prompt_tokens=prompt,
        answer_tokens=answer,
        requests=len(done),
        duration_s=duration,
        output_throughput=tokens / duration,
        total_throughput=(tokens + prompt * len(done)) / duration,
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
    )


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

    def line(name: str, value: float | int | None) -> str:
        shown = "-" if value is None else f"{value:d}" if isinstance(value, int) else f"{value:.2f}"
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
    yield "=" * 50
