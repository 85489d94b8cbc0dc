"""Fixtures of the engine: toy models, shared by all tests."""

from dataclasses import replace

import pytest
import tables
from engine_kit import Poisoner, model_over

from omnitts_cli.models.roles import SpeechModel


@pytest.fixture(scope="session")
def model() -> SpeechModel:
    """Over the plain operations."""
    return model_over()


@pytest.fixture(scope="session")
def on_cpu() -> SpeechModel:
    """The same over the operations of a CPU."""
    return model_over(tables.PYTHON)


@pytest.fixture(scope="session")
def in_c() -> SpeechModel:
    """The same with stacks, frames and codec of the compiled library."""
    return model_over(tables.compiled())


@pytest.fixture(scope="session")
def poisonable(model: SpeechModel) -> SpeechModel:
    return replace(model, prompter=Poisoner(model.prompter))
