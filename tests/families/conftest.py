"""Fixtures of the families: tiny checkpoints as models, without an engine."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch

from omnitts_cli.families.common.tokenizer import read_tokenizer
from omnitts_cli.families.qwen3_tts.config import Config, read_config
from omnitts_cli.families.qwen3_tts.family import Parts, assemble, parts
from omnitts_cli.kernels import plain
from omnitts_cli.kernels.ops import Ops
from omnitts_cli.models.roles import SpeechModel
from omnitts_cli.voices import Cloned
from omnitts_cli.weights.checkpoint import Checkpoint
from omnitts_cli.weights.load import fill


def filled(folder: Path, config: Config, ops: Ops = plain.OPS) -> Parts:
    pieces = parts(config, ops)
    for part in pieces.all():
        files = Checkpoint.open(folder / part.folder)
        fill(part.module, part.names, files, "cpu", torch.float32, unused=part.leftover)
    return pieces


@pytest.fixture(scope="session")
def tiny_model(checkpoint: Callable[[str], Path]) -> Callable[..., SpeechModel]:
    """A golden checkpoint as a SpeechModel in float32; shared, so leave it as it is."""

    @cache
    def load(name: str, ops: Ops = plain.OPS) -> SpeechModel:
        folder = checkpoint(name)
        config = read_config(folder)
        tokenizer = read_tokenizer(folder, config.text_vocabulary)
        return assemble(name, config, filled(folder, config, ops), tokenizer, ops=ops)

    return load


@pytest.fixture(scope="session")
def a_clone() -> Callable[..., Cloned]:
    """A made-up cloned voice for models with 64 codes in 16 groups and a width of 64."""

    def make(frames: int | None = None, transcript: str | None = "hello.", seed: int = 0) -> Cloned:
        rng = np.random.default_rng(seed)
        embedding = rng.standard_normal(64).astype(np.float32)
        if frames is None:
            return Cloned(embedding)
        return Cloned(embedding, rng.integers(0, 64, (frames, 16)), transcript)

    return make
