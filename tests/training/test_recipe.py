"""The recipe is read strictly, and its miniature is the same model in small."""

from pathlib import Path

import pytest

from omnitts_cli.errors import SettingsError
from omnitts_cli.training import recipe


def test_the_recipe_names_eight_voices_and_its_miniature_changes_sizes_alone() -> None:
    voices = recipe.read().voices
    assert len({voice.name for voice in voices}) == 8
    assert len({voice.made for voice in voices}) == 8
    real, small = recipe.read(), recipe.read(miniature=True)
    assert small.voices == real.voices and small.seed == real.seed
    assert small.speech.hidden < real.speech.hidden
    assert small.codec.rises == real.codec.rises


def test_wider_speakers_have_other_formants_in_a_model_of_the_same_sizes() -> None:
    usual, wider = recipe.read(), recipe.read(wider=True)
    assert usual.unnamed_speakers.tract == (1, 1)
    assert wider.unnamed_speakers.tract[0] < 1 < wider.unnamed_speakers.tract[1]
    assert (wider.codec, wider.speech, wider.speaker) == (usual.codec, usual.speech, usual.speaker)
    both = recipe.read(miniature=True, wider=True)
    assert both.teacher == recipe.read(miniature=True).teacher
    assert both.unnamed_speakers.pitch == wider.unnamed_speakers.pitch


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("[texts]", "[texts]\nmade_upp = 3", r"\[texts\] of the recipe has no key made_upp"),
        ("merges = ", "merge = ", "has no key merge"),
        ("[sampling]", "[drawing]", "the recipe has no key drawing"),
        ("seed = ", "# ", "the recipe lacks seed"),
        ("top_k = 30", "", r"\[sampling\] of the recipe lacks top_k"),
        ('line = "', '# "', r"\[voices.henry\] of the recipe lacks line"),
        ("[miniature]", "[miniature]\nmade_up = {}", "of the recipe has no key made_up"),
        ("[wider]", "[wider]\nmade_up = {}", r"\[wider\] of the recipe has no key made_up"),
        ("[texts]", "[texts", "not valid TOML"),
    ],
)
def test_keys_that_are_wrong_or_missing(tmp_path: Path, old: str, new: str, message: str) -> None:
    source = Path(recipe.__file__).with_name("recipe.toml").read_text()
    changed = tmp_path / "recipe.toml"
    assert old in source
    changed.write_text(source.replace(old, new, 1))
    with pytest.raises(SettingsError, match=message):
        recipe.read(changed, miniature=True, wider=True)


def test_a_recipe_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="cannot read recipe"):
        recipe.read(tmp_path)
