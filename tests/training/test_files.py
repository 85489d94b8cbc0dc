"""Files: an export says of the model what the embedded folder says."""

from __future__ import annotations

import json

from omnitts_cli.text.model_input import TEXT_INPUTS
from omnitts_cli.training.files import model_config
from omnitts_cli.training.recipe import Recipe
from omnitts_cli.training.tokens import Tokens
from omnitts_cli.weights.find import TINY


def test_an_export_says_what_the_embedded_folder_says(small: Recipe, tokens: Tokens) -> None:
    written = model_config(small, tokens)["omnitts"]
    embedded = json.loads((TINY / "config.json").read_text())["omnitts"]
    # the embedded model was taught letters by another teacher; what is exported now reads phonemes
    assert written.pop("text_input") in TEXT_INPUTS and embedded.pop("plain_letters") is True
    assert list(written) == list(embedded)
    told = [key for key in written if key != "voices"]
    assert {key: written[key] for key in told} == {key: embedded[key] for key in told}
