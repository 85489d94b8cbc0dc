"""The engine with this family: lengths, an end at once, beside the first family. More: engine/test_answer_loop.py."""

import copy
from dataclasses import replace

import pytest
import torch
from engine_kit import join, same
from tiny_models import tiny_model

from omnitts_cli.audio.chunk import Clip
from omnitts_cli.devices.cpu import CPUDevice
from omnitts_cli.engine.engine import Engine, News
from omnitts_cli.engine.slots import Plan
from omnitts_cli.models.roles import SpeechModel
from omnitts_cli.request import Request, Sampling
from omnitts_cli.voices import Named

TEXTS = ("hello world", "the quick brown fox jumps over the lazy dog.", "你好，世界。", "hello", "do you hear this?")
TASTES = (Sampling(), Sampling(temperature=0.0, predictor_temperature=0.0), Sampling(temperature=1.2, top_p=0.9))
MISSING = 555


def requests(count: int) -> list[Request]:
    """All different, the same each time."""
    return [
        Request(
            TEXTS[i % len(TEXTS)], Named(("ethan", "chelsie", "aiden")[i % 3]), sampling=TASTES[i % len(TASTES)],
            seed=100 + i, max_frames=3 + i // 2, id=f"q{i}",
        )
        for i in range(count)
    ]  # fmt: skip


def engine(model: SpeechModel, slots: int) -> Engine:
    sizes = {"prompt_rows": 64, "pads": False, "chunks": (1, 2, 4), "prefill_rows": (16, 32)}
    return Engine(model, CPUDevice(1), Plan.of(slots, 4, model.facts.frame_rate, **sizes))


@pytest.fixture(scope="module")
def alone(omni: SpeechModel) -> dict[str, Clip]:
    return join(engine(omni, 1).speak(requests(9)))


def test_the_sound_is_as_long_as_it_should_be(alone: dict[str, Clip]) -> None:
    for clip in alone.values():
        assert len(clip.pcm) == 1920 * len(clip.codes) - MISSING
        assert clip.pcm[:1920].any()
    assert len({clip.codes.tobytes() for clip in alone.values()}) == len(alone)


def test_a_speech_may_end_at_once(omni: SpeechModel) -> None:
    """There is no least number of frames; nobody waits for a sound that will not come."""
    talker, end = copy.copy(omni.talker), torch.tensor(omni.facts.end_code)
    talker.logits = lambda hidden: omni.talker.logits(hidden).index_fill(1, end, 1e4)  # wants nothing but to end
    talker.fused = None
    clip = engine(replace(omni, talker=talker), 2).clip(requests(1)[0])
    assert (len(clip.codes), len(clip.pcm), clip.stopped) == (0, 0, "end")


def test_both_families_in_one_process(omni: SpeechModel, alone: dict[str, Clip]) -> None:
    """Two engines take turns frame by frame; each says what it says by itself."""
    first = tiny_model("custom_voice")
    other = [replace(one, voice=Named("ryan")) for one in requests(4)]
    by_itself = join(engine(first, 1).speak(other))
    engines = (engine(omni, 3), engine(first, 3))
    for one, mine in zip(engines, (requests(4), other), strict=True):
        for request in mine:
            one.submit(request)
    news: tuple[list[News], list[News]] = ([], [])
    while any(one.busy for one in engines):
        for one, made in zip(engines, news, strict=True):
            made += one.step() if one.busy else []
    for name, clip in join(news[0]).items():
        same(alone[name], clip)
    for name, clip in join(news[1]).items():
        same(by_itself[name], clip)
        assert len(clip.pcm) == 1920 * len(clip.codes)
