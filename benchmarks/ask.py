"""Answers of Qwen3-Omni in one process: text, text and speech, spoken questions, and its talker alone afterwards.

The model is opened once; each stage prints a line of JSON and adds it to --out, so that a run that is cut short keeps
what it has. A stage does not begin after --stop-after seconds.

    python benchmarks/ask.py --out ask.jsonl                                     one H200, all stages
    python benchmarks/ask.py --stages text-1,short-1,long-1 --slots 1 --out ...  the first figures of each kind
"""

from __future__ import annotations

import argparse
import functools
import gc
import json
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np

from omnitts_cli.bench.answers import AnswerWorkload, run_level
from omnitts_cli.engine.answer_loop import AnswerLoop
from omnitts_cli.engine.text_slots import TextPlan
from omnitts_cli.request import Request
from omnitts_cli.speech import load_thinker

WORK = {
    "text": AnswerWorkload(2500, 100),
    "short": AnswerWorkload(60, 50, spoken=True),
    "question": AnswerWorkload(90, 50, spoken=True, recording_s=5.0),
    "long": AnswerWorkload(2500, 900, spoken=True),
}
ALL = "text-1,short-1,question-1,long-1,talker-1,text-32,short-32,long-32,talker-32,long-4,long-16"
FRAMES = 100


def opened(model: str, slots: int, seconds: float, buckets: tuple[int, ...], device: str, dtype: str) -> AnswerLoop:
    """With graphs for few sizes only."""
    load_thinker.TextPlan = functools.partial(TextPlan, buckets=buckets)  # type: ignore[misc,assignment]
    plan_for = load_thinker.load.plan_for
    load_thinker.load.plan_for = lambda *given: plan_for(*given).with_few_graphs()
    return load_thinker.open_answer_loop(
        model, positions=3424, sound=True, speech=True, slots=slots, seconds=seconds, device=device, dtype=dtype
    )


def talker(loop: AnswerLoop, users: int) -> dict[str, Any]:
    """The talker alone: `users` texts of FRAMES frames each, all submitted at once."""
    engine = loop.speech
    assert engine is not None
    figures: list[dict[str, float]] = []
    for _ in range(3):  # the first is a warm-up
        begin, first, samples = time.perf_counter(), {}, 0
        asked = [
            Request(f"Sentence number {one}.", max_frames=FRAMES, ignore_end=True, seed=one) for one in range(users)
        ]
        for news in engine.speak(asked):
            if not hasattr(news, "pcm"):
                raise news.error
            first.setdefault(news.request, time.perf_counter() - begin)
            samples += news.pcm.size
        wall, seconds = time.perf_counter() - begin, samples / engine.model.facts.sample_rate
        figures.append(
            {
                "rtf": wall / (seconds / users),
                "audio_s_per_s": seconds / wall,
                "first_ms": 1000 * float(np.median(list(first.values()))),
            }
        )
    return {"frames": FRAMES, **figures[-1], "runs": figures[1:]}


def stage(loop: AnswerLoop, kind: str, users: int, answer: int | None) -> dict[str, Any]:
    if kind == "talker":
        return talker(loop, users)
    work = WORK[kind] if answer is None else replace(WORK[kind], answer=min(answer, WORK[kind].answer))
    run_level(loop, users, users, replace(work, answer=4), seed=1)
    requests = users if kind == "long" else max(4, 2 * users)
    return run_level(loop, users, requests, work, seed=2).record()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="random:omni-thinker")
    parser.add_argument("--stages", default=ALL, help="KIND-USERS, of " + ", ".join((*WORK, "talker")))
    parser.add_argument("--slots", type=int, default=32)
    parser.add_argument("--buckets", default="1,4,16", help="sizes of captured text steps, beside --slots")
    parser.add_argument("--answer", type=int, help="at most so many tokens an answer, for a trial")
    parser.add_argument("--stop-after", type=float, default=1e9, help="seconds after which no stage begins")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--dtype", default="auto")
    parser.add_argument("--out", required=True)
    args = parser.parse_args()
    begin = time.perf_counter()
    buckets = tuple(int(size) for size in args.buckets.split(","))
    loop = opened(args.model, args.slots, 181.0, buckets, args.device, args.dtype)
    gc.freeze()  # as commands do: a full collection stops the loop for 0.2 s

    def keep(line: dict[str, Any]) -> None:
        text = json.dumps({**line, "at_s": round(time.perf_counter() - begin, 1)})
        print(text, flush=True)
        with open(args.out, "a") as file:
            file.write(text + "\n")

    keep({"stage": "opened", "card": loop.device.card, "slots": loop.plan.slots, "free": loop.device.free_bytes()})
    for name in args.stages.split(","):
        if time.perf_counter() - begin > args.stop_after:
            keep({"stage": name, "skipped": True})
            continue
        kind, _, users = name.rpartition("-")
        if int(users) <= loop.plan.slots:
            keep({"stage": name, **stage(loop, kind, int(users), args.answer)})


if __name__ == "__main__":
    main()
