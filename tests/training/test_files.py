"""Files: an export says of the model what the embedded folder says."""

from __future__ import annotations

import json

from omnitts_cli.training.files import model_config
from omnitts_cli.training.recipe import Recipe
from omnitts_cli.training.tokens import Tokens
from omnitts_cli.weights.find import TINY


def test_an_export_says_what_the_embedded_folder_says(small: Recipe, tokens: Tokens) -> None:
    written = model_config(small, tokens)["omnitts"]
    embedded = json.loads((TINY / "config.json").read_text())["omnitts"]
    assert list(written) == list(embedded)
    # the embedded model was taught letters by another teacher; what is exported now reads phonemes
    assert (written["plain_letters"], embedded["plain_letters"]) == (False, True)
    told = [key for key in written if key not in ("voices", "plain_letters")]
    assert {key: written[key] for key in told} == {key: embedded[key] for key in told}
