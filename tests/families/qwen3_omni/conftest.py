"""The tiny folder of the family as a model, and one request of it by itself."""

import pytest
import torch
from golden_set import omni_folder

from omnitts_cli.families.common.tokenizer import read_tokenizer
from omnitts_cli.families.qwen3_omni.config import Config, read_config
from omnitts_cli.families.qwen3_omni.family import assemble, parts
from omnitts_cli.models.roles import SpeechModel
from omnitts_cli.weights.checkpoint import Checkpoint
from omnitts_cli.weights.load import fill


@pytest.fixture(scope="session")
def config() -> Config:
    return read_config(omni_folder())


@pytest.fixture(scope="session")
def omni(config: Config) -> SpeechModel:
    """Shared: leave it as it is."""
    pieces = parts(config)
    for part in pieces.all():
        fill(part.module, part.names, Checkpoint.open(omni_folder()), "cpu", torch.float32, unused=part.leftover)
    return assemble("omni", config, pieces, read_tokenizer(omni_folder(), config.text_vocabulary))
