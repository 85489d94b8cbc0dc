"""The miniature recipe, its tokens and its shards."""

from dataclasses import replace
from pathlib import Path

import pytest
from patience import LONG_S
from training_kit import SENTENCES, Hummer, learned_tokens

from omnitts_cli.training import __main__, pool, recipe
from omnitts_cli.training.recipe import Recipe
from omnitts_cli.training.speak_stage import speak
from omnitts_cli.training.texts import TrainingLine
from omnitts_cli.training.tokens import TokenLists


@pytest.fixture
def hummer(monkeypatch: pytest.MonkeyPatch) -> type[Hummer]:
    monkeypatch.setattr(__main__, "Teacher", Hummer)
    return Hummer


@pytest.fixture(scope="session")
def small() -> Recipe:
    return recipe.read(miniature=True)


@pytest.fixture(scope="session")
def one_length(small: Recipe) -> Recipe:
    """The miniature with examples of one length, so that two sentences lie in one table."""
    plan, unnamed = replace(small.speech_training, lengths=(170,)), small.unnamed_speakers
    unnamed = replace(unnamed, clips=(0.5,), cloned=(0.3,), described=(0.2,))
    return replace(small, speech_training=plan, unnamed_speakers=unnamed)


@pytest.fixture(scope="session")
def tokens() -> TokenLists:
    return learned_tokens()


@pytest.fixture
def lines() -> list[TrainingLine]:
    """The hummer reads letters."""
    return [TrainingLine(text, text, text) for text in SENTENCES]


@pytest.fixture(scope="session")
def spoken(small: Recipe, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of shards with a thousand utterances. No test changes it."""
    work = tmp_path_factory.mktemp("spoken")
    enough = replace(small, teacher=replace(small.teacher, shard=300))
    speak(enough, Hummer(), [TrainingLine(text, text, text) for text in SENTENCES], work, 0, 0.3, LONG_S)
    return work / pool.FOLDER


@pytest.fixture
def shards(spoken: Path) -> pool.ShardReader:
    return pool.ShardReader(spoken)
