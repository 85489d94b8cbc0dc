"""Steps of tuning on a card, with random weights: milliseconds, share of the floor, and the largest device memory.

    python benchmarks/tune.py --card                    1.7b: an adapter, then all weights
    python benchmarks/tune.py --card --limit 12         with at most 12 GB of the card
    python benchmarks/tune.py --card --size 0.6b-base --ways adapter
    python benchmarks/tune.py --card --ways full --limit 24      as the command would learn on such a card
    python benchmarks/tune.py --card --profile          also the kernels that take most of the time
    python benchmarks/tune.py --card --plain            with the plain operations instead of kernels/triton/learn.py

A step has about a minute of speech, as clips of 5 to 12 seconds. The floor is that of a card that reaches 40 % of its
dense bfloat16 rate: 254 GFLOP a second of speech for all weights of 1.7b and 169 for an adapter (146 and 97 for 0.6b),
and 28 bytes of traffic for each learned number. `share` is the floor over the measured time. By default the predictor
learns only 256 frames of a step: `share_of_done` compares with the floor of what is computed then.
"""

from __future__ import annotations

import gc
import json
import random
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from omnitts_cli.bench.evaluate import hard_words
from omnitts_cli.devices.choose import choose
from omnitts_cli.families.common.tokenizer import PieceTokenizer
from omnitts_cli.families.known import made_up
from omnitts_cli.families.qwen3_tts.prompt import Qwen3Prompter
from omnitts_cli.kernels import plain
from omnitts_cli.tuning.prepared import PreparedClip
from omnitts_cli.tuning.room import Shapes, Way
from omnitts_cli.tuning.trainer import Ids, LearningPlan, Trainer
from omnitts_cli.weights.random_fill import random_fill

RATE, TRAFFIC = 0.4 * 989e12, {"H100": 3.35e12, "H200": 4.8e12}
GFLOP = {"0.6b": {"adapter": 97e9, "full": 146e9}, "1.7b": {"adapter": 169e9, "full": 254e9}}
CLIPS, MEASURED_S, EVERY = 160, 8.0, 10**9
PROFILED, SHOWN = 8, 30  # steps, kernels


def clips_of(hidden: int, groups: int, codes: int) -> list[PreparedClip]:
    """Random codes, with texts of about the right length."""
    chance, made = np.random.default_rng(0), []
    words = " ".join(one.sentence for one in hard_words()).split()
    for _ in range(CLIPS):
        seconds = float(chance.uniform(5, 12))
        frames = chance.integers(0, codes, (round(12.5 * seconds), groups))
        at = int(chance.integers(len(words) - 60))
        text = " ".join(words[at : at + round(2.6 * seconds)])
        made.append(PreparedClip(text, (frames,), chance.standard_normal(hidden).astype(np.float32), seconds))
    return made


def plan_of(way: str, predicted: int, shapes: Shapes, device: Any) -> LearningPlan:
    """Learns in the way that fits into the free memory of the card."""
    plan = LearningPlan(full=way == "full", step_s=60.0, predicted=predicted, stacks=("talker",))
    return replace(plan, way=plan.room(shapes, device).way) if plan.full else plan


def trainer_of(size: str, way: str, device: Any, predicted: int) -> Trainer:
    family, config = made_up(size, None)
    part = family.parts(config, plain.OPS).language
    dtype = torch.float32 if way == "full" else device.dtype
    shapes = {name: tuple(one.shape) for name, one in part.module.named_parameters()}
    plan = plan_of(way, predicted, shapes, device)
    random_fill(part.module, 0, device.torch_device, dtype)
    part.module.text.table.data = part.module.text.table.data.to(device.dtype)
    tokenizer = PieceTokenizer(config.text_vocabulary)
    prompter = Qwen3Prompter(config, tokenizer, part.module.text, part.module.embedder, device.to_device)
    at = part.module.predictor.shape
    clips = clips_of(part.module.talker.shape.stack.hidden, at.groups, at.codes)
    ids = Ids(config.text.pad, config.control.end, "english")
    return Trainer(part.module, part.names, prompter, ids, clips[8:], clips[:8], device, plan)


def measured(size: str, way: str, device: Any, predicted: int, profiled: bool) -> dict[str, Any]:
    """The figures of a way to learn."""
    device.api.reset_peak_memory_stats()
    began = time.perf_counter()
    trainer = trainer_of(size, way, device, predicted)
    notices: list[str] = []
    with trainer.steps.working():
        steps = trainer._steps_of(0)
        shapes = {
            trainer._lengths[one[0]]: one for one in steps if len(one) == trainer._together(trainer._lengths[one[0]])
        }
        full = [one for one in steps if trainer._lengths[one[0]] in shapes]
        random.Random(0).shuffle(full)
        # every shape is captured before anything is timed
        losses = [
            trainer.learn(one, count, tell=lambda notice: notices.append(notice.cause or ""))
            for count, one in enumerate(full)
        ]
        device.synchronize()
        captured = len(trainer.steps._recorded)
        opened = time.perf_counter() - began
        count, seconds, begun = 0, 0.0, time.perf_counter()
        while time.perf_counter() - begun < MEASURED_S:
            now, then = full[count % len(full)], full[(count + 1) % len(full)]
            losses.append(trainer.learn(now, count, then))
            count += 1
            seconds += sum(trainer.clips[one].seconds for one in now)
        device.synchronize()
        each = (time.perf_counter() - begun) / count
        later = len(trainer.steps._recorded) - captured
        if profiled:
            profile(trainer, full, device)
    learned = sum(one.numel() for one in trainer.learned.values())
    work = GFLOP["0.6b" if "0.6b" in size else "1.7b"][way] * seconds / count
    traffic = 28 * learned / next((rate for card, rate in TRAFFIC.items() if card in device.card), 3.35e12)
    predictor = 2 * sum(one.numel() for one in trainer.language.predictor.stack.parameters()) * 16
    saved = max(0.0, 12.5 * seconds / count - predicted) * predictor * (3 if way == "full" else 2)
    assert all(np.isfinite(losses).flatten())
    return {
        "size": size, "way": way, "predicted": "all" if predicted == EVERY else predicted, "card": device.card,
        "ms_a_step": round(1000 * each, 1), "steps_a_s": round(1 / each, 1),
        "speech_s_a_step": round(seconds / count, 1),
        "share": round((work / RATE + traffic) / each, 3),
        "share_of_done": round(((work - saved) / RATE + traffic) / each, 3),
        "allocated_gb": round(device.peak_bytes() / 1e9, 2),
        "reserved_gb": round(device.api.max_memory_reserved() / 1e9, 2), "learned": learned, "shapes": len(shapes),
        "opening_s": round(opened, 1), "captured": captured, "captured_while_timed": later,
        "in_this_way": (trainer.plan.way or Way()).words,
        "halved": notices, "losses": [round(one, 3) for one in losses[-1]],
    }  # fmt: skip


def profile(trainer: Trainer, steps: Sequence[Sequence[int]], device: Any) -> None:
    """Prints what the kernels of some steps take, and for how long none runs."""
    from torch.profiler import ProfilerActivity

    device.synchronize()
    began = time.perf_counter()
    with torch.profiler.profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as found:
        for count, numbers in enumerate(steps[:PROFILED]):
            trainer.learn(numbers, count)
        device.synchronize()
    whole = time.perf_counter() - began
    kernels = [one for one in found.key_averages() if one.self_device_time_total]
    busy = sum(one.self_device_time_total for one in kernels) / 1e6
    print(f"{PROFILED} steps: {1000 * whole:.0f} ms, kernels {1000 * busy:.0f} ms")
    for one in sorted(kernels, key=lambda one: -one.self_device_time_total)[:SHOWN]:
        each = one.self_device_time_total / 1000 / PROFILED
        print(f"{each:9.2f} ms a step {one.count / PROFILED:7.0f} x {one.key[:110]}")


def run(size: str, ways: Sequence[str], limit: float | None, profiled: bool = False, plainly: bool = False) -> None:
    device: Any = choose("auto", None)
    if not device.captures:
        raise SystemExit("there is no card here")
    if plainly:
        plain_learn = replace(device.ops(), learn=plain.LEARN)
        device.ops = lambda: plain_learn
    if limit is not None:
        whole = device.api.mem_get_info()[1]
        device.api.set_per_process_memory_fraction(min(1.0, limit * 1e9 / whole))
        device.limit(int(limit * 1e9))
    for way in ways:
        for predicted in (EVERY, LearningPlan.predicted):
            try:
                print(json.dumps(measured(size, way, device, predicted, profiled)), flush=True)
            except Exception as error:
                if not device.is_out_of_memory(error):
                    raise
                print(json.dumps({"size": size, "way": way, "limit_gb": limit, "error": "memory ran out"}), flush=True)
            gc.collect()
            device.api.empty_cache()
