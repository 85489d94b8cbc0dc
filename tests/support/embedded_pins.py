"""What is pinned of the embedded voice's weights: sums of its codes in 8 bits, and how near 8 bits must be to float32.

`tests/golden/make_embedded.py` writes the file again for another folder.
"""

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tables
import torch

from omnitts_cli.audio.chunk import Clip
from omnitts_cli.bench.evaluate import sentences
from omnitts_cli.devices.cpu import CPUDevice
from omnitts_cli.engine.engine import Engine
from omnitts_cli.models.forced import divergence, forced
from omnitts_cli.models.roles import SpeechModel
from omnitts_cli.request import Request
from omnitts_cli.settings.engine import EngineSettings
from omnitts_cli.speech.load import load_model, plan_for
from omnitts_cli.voices import Named
from omnitts_cli.weights.find import TINY

PATH = Path(__file__).parents[1] / "golden" / "embedded.json"
PINS: dict[str, Any] = json.loads(PATH.read_text("utf-8"))
EXACT = EngineSettings(dtype="q8", exact=True)
VOICES = ("henry", "clara", "hugh")


def model_with(variant: str | None, threads: int) -> tuple[SpeechModel, CPUDevice]:
    """The voice in 8 bits, with the kernels of one set of instructions."""
    device = CPUDevice(threads)
    device._ops = tables.native(eight=variant)
    device.make_exact()
    return load_model(str(TINY), device, settings=EXACT), device


def asked(count: int, frames: int) -> list[Request]:
    """So many sentences, by three voices."""
    texts = sentences()
    return [
        Request(texts[n], Named(VOICES[n % 3]), "english", seed=n, id=f"s{n}", max_frames=frames) for n in range(count)
    ]


def each_voice(count: int) -> list[Request]:
    """So many sentences, by all voices in turn."""
    names = list(json.loads((TINY / "config.json").read_text("utf-8"))["talker_config"]["spk_id"])
    texts, voices = sentences(), sorted(names)
    return [
        Request(texts[n % len(texts)], Named(voices[n % len(voices)]), "english", seed=n, id=f"s{n}")
        for n in range(count)
    ]


def clips_of(engine: Engine, requests: Sequence[Request]) -> list[Clip]:
    """What they say."""
    chunks: dict[str, list[Any]] = {request.id: [] for request in requests}
    for news in engine.speak(requests):
        chunks[news.request].append(news)
    return [Clip.join(chunks[request.id]) for request in requests]


def spoken(model: SpeechModel, device: CPUDevice, together: int, frames: int) -> list[np.ndarray]:
    """The codes of three sentences, among so many requests."""
    engine = Engine(model, device, plan_for(model, device).with_slots(together))
    return [clip.codes for clip in clips_of(engine, asked(max(3, together), frames))[:3]]


def digest(codes: Sequence[np.ndarray]) -> str:
    """SHA-256 of codes, whatever type they have."""
    return hashlib.sha256(b"".join(np.ascontiguousarray(one, "<i8").tobytes() for one in codes)).hexdigest()


def distances(
    full: SpeechModel, eight: SpeechModel, requests: Sequence[Request], codes: Sequence[np.ndarray], frames: int
) -> list[tuple[float, float]]:
    """Of talker and predictor, over the same codes: mean divergence of the distributions, and the share of equal first
    choices in percent."""
    kept = [torch.from_numpy(one.astype(np.int64))[:frames] for one in codes]
    logits = [[forced(model, *pair) for pair in zip(requests, kept, strict=True)] for model in (full, eight)]
    return [divergence(*(torch.cat([one[part] for one in found]) for found in logits)) for part in (0, 1)]
