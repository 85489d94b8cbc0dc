"""A tuned voice over weights in 8 bits: merged in float32, then quantised, and kept under a sum of its own. It is as
near to the merged weights in float32 as the model without an adapter is to its own.
"""

from pathlib import Path
from typing import Any

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
from omnitts_cli.voices import Adapter, Named, Pair
from omnitts_cli.weights import eight_files
from omnitts_cli.weights.checkpoint import Checkpoint
from omnitts_cli.weights.find import TINY
from omnitts_cli.weights.merged import MergedCheckpoint

EIGHT = EngineSettings(dtype="q8")
STRENGTH = 0.1  # the size of the change of each matrix, relative to its own


def adapter(rank: int = 16) -> Adapter:
    """For every linear layer of talker and predictor."""
    chance, files, pairs = np.random.default_rng(3), Checkpoint.open(TINY), {}
    for name, (_, shape) in files.names().items():
        module = name.removesuffix(".weight")
        if not module.endswith("_proj") or ".layers." not in module or not module.startswith("talker."):
            continue
        a = chance.standard_normal((rank, shape[1]), np.float32)
        b = chance.standard_normal((shape[0], rank), np.float32)
        size = float(np.sqrt(np.mean(np.square(files.array(name)))))
        pairs[module] = Pair(a, b, STRENGTH * size / rank**0.5)
    assert len(pairs) == 7 * (8 + 3)
    return Adapter(pairs)


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where matrices in 8 bits are kept."""
    tables.compiled()
    monkeypatch.setattr(eight_files, "folder", lambda: tmp_path)
    return tmp_path


def distances(given: Adapter | None, count: int, frames: int) -> tuple[float, float]:
    """KL in nats of talker and predictor between float32 and 8 bits, on what the model speaks in float32."""
    device, texts = CPUDevice(1), sentences()
    models: list[Any] = [
        load_model(str(TINY), device, settings=how, adapter=given) for how in (EngineSettings(), EIGHT)
    ]
    voices = sorted(models[0].speakers)
    asked = [
        Request(texts[n], Named(voices[n % len(voices)]), "english", seed=n, id=f"s{n}", max_frames=frames)
        for n in range(count)
    ]
    spoken: dict[str, list[Any]] = {one.id: [] for one in asked}
    for news in Engine(models[0], device, plan_for(models[0], device).with_slots(4)).speak(asked):
        spoken[news.request].append(news)
    codes = [torch.from_numpy(Clip.join(spoken[one.id]).codes.astype(np.int64)) for one in asked]
    logits = [[forced(model, *pair) for pair in zip(asked, codes, strict=True)] for model in models]
    talker, predictor = (divergence(*(torch.cat([one[part] for one in found]) for found in logits)) for part in (0, 1))
    return talker[0], predictor[0]


def test_in_8_bits_a_tuned_voice_is_as_near_to_float32_as_its_model(kept: Path) -> None:
    plain, tuned = (distances(one, 4, 16) for one in (None, adapter()))
    print(f"\nKL of talker and predictor: {plain}, tuned {tuned}")  # noqa: T201
    assert all(mine <= 2 * base for mine, base in zip(tuned, plain, strict=True))


def test_a_second_start_merges_nothing(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given, merged = adapter(), list[str]()
    plain = MergedCheckpoint._pair

    def pair(self: MergedCheckpoint, name: str) -> Pair | None:
        found = plain(self, name)
        merged.extend([name] if found is not None else [])
        return found

    monkeypatch.setattr(MergedCheckpoint, "_pair", pair)
    first: Any = load_model(str(TINY), CPUDevice(1), settings=EIGHT, adapter=given)
    assert (
        first.precision == "q8"
        and first.adapter == given.sha256
        and set(merged) == {f"{name}.weight" for name in given.pairs}
    )
    merged.clear()
    again: Any = load_model(str(TINY), CPUDevice(1), settings=EIGHT, adapter=given)
    assert not merged and torch.equal(again.talker.head, first.talker.head)
    for other in (None, adapter(rank=4)):
        load_model(str(TINY), CPUDevice(1), settings=EIGHT, adapter=other)
    assert len(list(kept.glob(f"*{eight_files.SUFFIX}"))) == 3  # none takes the place of another
