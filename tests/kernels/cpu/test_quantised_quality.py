"""What 8 bits change in the embedded voice, which is real speech: it says the codes that it spoke in float32, and the
distributions that codes are drawn from are compared.
"""

from __future__ import annotations

import numpy as np
import pytest
import tables
import torch

from omnitts_cli.audio.chunk import Clip
from omnitts_cli.bench.evaluate import sentences
from omnitts_cli.devices.cpu import CPUDevice
from omnitts_cli.engine.engine import Engine
from omnitts_cli.models.forced import divergence, forced
from omnitts_cli.request import Request
from omnitts_cli.settings.engine import EngineSettings
from omnitts_cli.speech.load import load_model, plan_for
from omnitts_cli.voices import Named
from omnitts_cli.weights.find import TINY


@pytest.mark.parametrize(
    ("count", "frames", "margin"), [(3, 12, 1.5), pytest.param(24, 60, 1, marks=pytest.mark.slow)], ids=["some", "all"]
)
def test_tiny_in_8_bits_draws_from_nearly_the_same_distributions(
    count: int, frames: int, margin: float, tmp_path: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    if tables.native() is None:
        pytest.skip("the library of the CPU was not compiled")
    monkeypatch.setattr("omnitts_cli.weights.eight_files.folder", lambda: tmp_path)
    device, texts = CPUDevice(1), sentences()
    plain = load_model(str(TINY), device)
    eight = load_model(str(TINY), device, settings=EngineSettings(dtype="q8"))
    assert eight.precision == "q8" and eight.talker.head.dtype == torch.uint8
    voices = sorted(plain.speakers)
    asked = [
        Request(texts[n % len(texts)], Named(voices[n % len(voices)]), "english", seed=n, id=f"s{n}")
        for n in range(count)
    ]
    spoken: dict[str, list] = {one.id: [] for one in asked}
    for news in Engine(plain, device, plan_for(plain, device).with_slots(4)).speak(asked):
        spoken[news.request].append(news)
    codes = [torch.from_numpy(Clip.join(spoken[one.id]).codes.astype(np.int64))[:frames] for one in asked]
    logits = [[forced(model, *pair) for pair in zip(asked, codes, strict=True)] for model in (plain, eight)]
    talker, predictor = (divergence(*(torch.cat([one[part] for one in found]) for found in logits)) for part in (0, 1))
    print(f"\n{sum(map(len, codes))} frames: talker {talker}, predictor {predictor}")  # noqa: T201
    assert talker[0] <= 0.0006 * margin and talker[1] >= 100 - margin
    assert predictor[0] <= 0.006 * margin and predictor[1] >= 100 - 12 * margin
