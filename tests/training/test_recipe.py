"""The recipe is read strictly, and its miniature is the same model in small."""

from __future__ import annotations

from pathlib import Path

import pytest

from omnitts_cli.errors import SettingsError
from omnitts_cli.training import recipe


def test_the_recipe_names_eight_different_voices() -> None:
    voices = recipe.read().voices
    assert len({voice.name for voice in voices}) == 8
    assert len({voice.made for voice in voices}) == 8


def test_the_miniature_changes_sizes_and_nothing_else() -> None:
    real, small = recipe.read(), recipe.read(miniature=True)
    assert small.voices == real.voices and small.seed == real.seed
    assert small.speech.hidden < real.speech.hidden
    assert small.codec.rises == real.codec.rises


def test_an_unknown_key_is_an_error(tmp_path: Path) -> None:
    source = Path(recipe.__file__).with_name("recipe.toml").read_text()
    changed = tmp_path / "recipe.toml"
    changed.write_text(source.replace("[texts]", "[texts]\nmade_upp = 3"))
    with pytest.raises(SettingsError, match="made_upp"):
        recipe.read(changed)
