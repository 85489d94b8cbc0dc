"""Long runs: all requests answered, no slot lost, no memory leaked."""

import ctypes
import gc
import os
import platform
import random
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
import torch
from engine_kit import engine_of, join, requests_of, rested

from omnitts_cli.audio.chunk import Clip
from omnitts_cli.engine.engine import Engine, News
from omnitts_cli.engine.slots import Plan, SlotTable
from omnitts_cli.models.networks import fused_frame
from omnitts_cli.models.roles import SpeechModel
from omnitts_cli.models.slot_decoder import slot_decoder
from omnitts_cli.request import Failed
from omnitts_cli.voices import Named


@dataclass
class Kept:
    """The objects that are alive while nothing is being spoken."""

    objects: int
    tensors: int
    bytes: int

    @staticmethod
    def now(engine: Engine) -> "Kept":
        """Without the stores that have an upper bound: prefixes of voices, inputs and sound of each size."""
        engine._admission._prefixes.clear()
        engine._codec._steps._out.clear()
        inputs = {id(one) for one in engine._codec._steps._inputs.values()}
        gc.collect()
        objects = gc.get_objects()
        tensors = [one for one in objects if issubclass(type(one), torch.Tensor) and id(one) not in inputs]
        return Kept(len(objects), len(tensors), sum(one.untyped_storage().nbytes() for one in tensors))


def hour(engine: Engine, dice: random.Random, frames: int, longest: int) -> tuple[set[str], list[News]]:
    """At least so many frames of requests that come, go, wait, and fail at random; none takes more than `longest`."""
    asked: set[str] = set()
    news: list[News] = []
    made = 0
    while made < frames or engine.busy:
        if made < frames and len(engine.snapshot().requests) < 2 * engine.plan.slots:
            asked.add(one_more(engine, dice, len(asked), longest))
        if dice.random() < 0.05 and engine.busy:
            name = dice.choice(list(engine.snapshot().requests) or ["nobody"])
            dice.choice([engine.cancel, engine.pause, engine.resume, engine.finish])(name)
        if not engine.snapshot().sleeps:
            for one in engine.step():
                made += 0 if isinstance(one, Failed) else len(one.codes)
                news.append(one)
        else:
            for name in engine.snapshot().requests:  # everybody waits: for more text or for the end of a pause
                engine.resume(name)
                engine.feed(name, "a few words more ")
                engine.finish(name)
    return asked, news


def one_more(engine: Engine, dice: random.Random, number: int, longest: int) -> str:
    (request,) = requests_of(
        1, start=dice.randrange(35), id=f"n{number}", seed=dice.randrange(2**40), max_frames=dice.randint(1, longest)
    )
    if dice.random() < 0.03:
        request = replace(request, voice=Named("nobody"))
    elif dice.random() < 0.3:
        request = replace(request, style=None, language=None, text=dice.choice(["a", "some words ", "x" * 60]))
    return engine.submit(request, live=dice.random() < 0.2)


def endure(engine: Engine, hours: int, frames: int, longest: int) -> list[Kept]:
    dice, kept = random.Random(0), []
    for _ in range(hours):
        asked, news = hour(engine, dice, frames, longest)
        over = join(news)
        assert over.keys() == asked
        assert sum(isinstance(result, Clip) and len(result.codes) > 0 for result in over.values()) > len(over) / 2
        rested(engine)
        assert engine.snapshot().prefixes <= engine.plan.prefixes
        del news, over, asked
        kept.append(Kept.now(engine))
    return kept


def grown(kept: list[Kept], name: str) -> float:
    """Slope of the later half, per round."""
    values = [getattr(one, name) for one in kept[len(kept) // 2 :]]
    return float(np.polyfit(range(len(values)), values, 1)[0])


@pytest.mark.parametrize(
    ("slots", "hours", "frames", "longest", "most"),
    [(4, 4, 80, 16, (1, 512, 40)), pytest.param(16, 12, 1700, 80, (0.5, 64, 10), marks=pytest.mark.slow)],
)
def test_hours(slots: int, hours: int, frames: int, longest: int, most: tuple[float, ...]) -> None:
    kept = endure(engine_of(slots, prefixes=4, text_rows=16), hours, frames, longest)
    assert all(grown(kept, name) < least for name, least in zip(("tensors", "bytes", "objects"), most, strict=True))


class Mallinfo(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_size_t)
        for name in "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost".split()
    ]


def allocated_bytes() -> int:
    """What glibc has given out and not got back. Freed memory that it keeps for later, a heap's gaps, is not in it."""
    mallinfo = ctypes.CDLL(None).mallinfo2
    mallinfo.restype = Mallinfo
    found = mallinfo()
    return found.uordblks + found.hblkhd


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.slow
@pytest.mark.timeout(4 * 3600)  # three minutes on a quiet machine
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="asks glibc for the memory of the process")
@torch.inference_mode()
def test_a_million_frames_in_c_take_no_memory(in_c: SpeechModel) -> None:
    """100 slots, 10,000 frames each, all of them decoded: after the first tenth no byte more is allocated."""
    slots, frames = 100, 16
    plan = Plan.of(slots, frames / in_c.facts.frame_rate, in_c.facts.frame_rate, pads=False)
    table = SlotTable.empty(plan, in_c.facts, torch.device("cpu"), torch.float32)
    table.live[:slots], table.closed[:] = True, True
    table.limit.fill_(10**9)
    table.controls.ignore_end[:], table.controls.seed[:] = True, torch.arange(slots + 1)
    for column in (table.controls.temperature, table.controls.predictor_temperature):
        column.fill_(1.0)
    step = fused_frame(in_c, table, in_c.talker.cache(slots + 1, 64), 10**9)
    decoder, everyone = slot_decoder(in_c.codec, slots + 1, frames, in_c.ops.codec), torch.arange(slots)
    assert step is not None and decoder.in_c
    early, resident, loudness = 0, 0, np.zeros(10_000 // frames)
    for turn in range(len(loudness)):
        table.made.zero_()
        table.position.fill_(turn % 40)
        for _ in range(frames):
            step(everyone)
        sound = decoder.decode(table.codes[:slots, :frames].contiguous(), everyone)
        loudness[turn] = sound[7].abs().sum()
        if turn == 62:
            early, resident = allocated_bytes(), resident_bytes()
    more, spread = allocated_bytes() - early, resident_bytes() - resident
    print(f"{more} bytes more allocated, {spread} more resident")  # noqa: T201
    assert more < 16 << 10 and spread < 4 * sound.nbytes  # gaps between results of that size
    assert len(np.unique(loudness)) > 600 and table.made[:slots].eq(frames).all()
