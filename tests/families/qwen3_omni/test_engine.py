"""The engine with this family: alone or together, captured or not, in any pieces, beside the first family."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from engine_kit import join, same
from recording_device import RecordingDevice
from tiny_models import tiny_model

from omnitts_cli.audio.chunk import Chunk, Clip
from omnitts_cli.devices.cpu import CPUDevice
from omnitts_cli.engine.engine import Engine, News
from omnitts_cli.engine.slots import Plan
from omnitts_cli.kernels.plain_experts import FEW, mixture
from omnitts_cli.models.experts import Experts
from omnitts_cli.models.roles import SpeechModel
from omnitts_cli.models.shapes import ExpertShape
from omnitts_cli.request import Request, Sampling
from omnitts_cli.voices import Named

TEXTS = ("hello world", "the quick brown fox jumps over the lazy dog.", "你好，世界。", "hello", "do you hear this?")
TASTES = (Sampling(), Sampling(temperature=0.0, predictor_temperature=0.0), Sampling(temperature=1.2, top_p=0.9))
MISSING = 555


def requests(count: int, **same: Any) -> list[Request]:
    """All different, the same each time."""
    made = [
        Request(
            TEXTS[i % len(TEXTS)], Named(("ethan", "chelsie", "aiden")[i % 3]), sampling=TASTES[i % len(TASTES)],
            seed=100 + i, max_frames=3 + i // 2, id=f"q{i}",
        )
        for i in range(count)
    ]  # fmt: skip
    return [replace(request, **same) for request in made]


def engine(model: SpeechModel, slots: int, device: Any = None, **more: Any) -> Engine:
    device = device or CPUDevice(1)
    sizes = {"prompt_rows": 64, "pads": device.pads, "chunks": (1, 2, 4), "prefill_rows": (16, 32)}
    return Engine(model, device, Plan.of(slots, 4, model.facts.frame_rate, **sizes | more))


@pytest.fixture(scope="module")
def alone(omni: SpeechModel) -> dict[str, Clip]:
    return join(engine(omni, 1).speak(requests(9)))


def test_the_sound_is_as_long_as_it_should_be(alone: dict[str, Clip]) -> None:
    for clip in alone.values():
        assert len(clip.pcm) == 1920 * len(clip.codes) - MISSING
        assert clip.pcm[:1920].any()
    assert len({clip.codes.tobytes() for clip in alone.values()}) == len(alone)


def test_the_engine_says_what_the_codec_says(omni: SpeechModel, alone: dict[str, Clip]) -> None:
    """Streamed is whole: the join of the chunks is the sound of all frames at once."""
    for clip in alone.values():
        whole = omni.codec(torch.from_numpy(clip.codes)[None])[0].numpy()
        np.testing.assert_allclose(clip.pcm, whole, rtol=0, atol=2e-5)


@pytest.mark.parametrize("first", [1, 2, 4])
def test_any_first_chunk_gives_the_same_sound(first: int, omni: SpeechModel, alone: dict[str, Clip]) -> None:
    news = list(engine(omni, 2, first_chunk=first).speak(requests(3)))
    opening = next(one for one in news if isinstance(one, Chunk) and one.request == "q0")
    assert len(opening.pcm) == 1920 * len(opening.codes) - MISSING
    for name, clip in join(news).items():
        same(alone[name], clip)


@pytest.mark.parametrize("slots", [2, FEW, FEW + 5])
def test_batched_is_single(slots: int, omni: SpeechModel, alone: dict[str, Clip]) -> None:
    for name, clip in join(engine(omni, slots).speak(requests(9)[::-1])).items():
        same(alone[name], clip)


def test_captured_is_eager(omni: SpeechModel, alone: dict[str, Clip]) -> None:
    """From fixed addresses, with padded batches and prompts; few rows and many."""
    device = RecordingDevice()
    captured = engine(omni, FEW + 2, device)
    for order in (requests(9), requests(9)[::-1]):
        for name, clip in join(captured.speak(order)).items():
            same(alone[name], clip)
    assert device.graphs > 10 and device.replays > 25


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("rows", [1, FEW, FEW + 4])
def test_captured_experts_are_eager_in_every_form(rows: int, dtype: torch.dtype) -> None:
    """The experts of a row change from replay to replay; a captured step must not keep the first ones."""
    torch.manual_seed(0)
    made = Experts(32, ExpertShape(count=8, chosen=3, inner=16, shared=8)).to(dtype).requires_grad_(False)
    for weight in made.parameters():
        weight.mul_(10)
    block = made.block()
    stream, x, out = RecordingDevice().stream(), torch.zeros(rows, 32, dtype=dtype), []
    replay = stream.capture(lambda: out.append(mixture(x, block)))
    for seed in range(4):
        x.copy_(torch.randn(x.shape, generator=torch.Generator().manual_seed(seed)))
        replay()
        assert torch.equal(out[-1], mixture(x, block))
    assert len(out) == 2  # a warm-up and the recording: replays run no Python


def test_a_speech_may_end_at_once(omni: SpeechModel) -> None:
    """There is no least number of frames; nobody waits for a sound that will not come."""
    talker = Hasty(omni.talker, omni.facts.end_code)
    clip = engine(replace(omni, talker=talker), 2).clip(requests(1)[0])
    assert (len(clip.codes), len(clip.pcm), clip.stopped) == (0, 0, "end")


class Hasty(torch.nn.Module):
    """A talker that wants nothing but to end."""

    def __init__(self, talker: Any, end: int) -> None:
        super().__init__()
        self.talker, self.end = talker, end
        self.cache, self.prefill, self.step, self.fused = talker.cache, talker.prefill, talker.step, None

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        logits = self.talker.logits(hidden).clone()
        logits[:, self.end] = 1e4
        return logits


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
