"""Files: an export says of the model what the embedded folder says."""

import json
from dataclasses import replace

from omnitts_cli.text.language import LANGUAGES
from omnitts_cli.text.model_input import TEXT_INPUTS
from omnitts_cli.training import recipe
from omnitts_cli.training.files import model_config
from omnitts_cli.training.recipe import Recipe
from omnitts_cli.training.tokens import TokenLists
from omnitts_cli.weights.find import TINY


def test_an_export_says_what_the_embedded_folder_says(small: Recipe, tokens: TokenLists) -> None:
    embedded = json.loads((TINY / "config.json").read_text())["omnitts"]
    spoken = tuple(one for one in recipe.read(languages=True).languages if LANGUAGES[one.code] in embedded["languages"])
    written = model_config(replace(small, languages=spoken), tokens)["omnitts"]
    assert written["text_input"] in TEXT_INPUTS
    assert list(written) == list(embedded)
    assert all(line.startswith("English: ") == bool(spoken) for line in written["voices"].values())
    alike = [key for key in written if key != "voices"]
    assert {key: written[key] for key in alike} == {key: embedded[key] for key in alike}
