"""The published checkpoint: what is known of its voices, and config.json, the values of its config that speaking needs.

Nothing but names and the predictor's sampling is used to read a model folder; `random:omni` is built from config.json.
"""

from pathlib import Path
from typing import Any

from omnitts_cli.parse import json_object

FAMILY = "qwen3_omni_moe"
NAME = "omni"
THINKER = "omni-thinker"
TOKENS = 151_676
"""Words and control tokens; the embedding table has rows for more."""

VOICES = {"ethan": "male", "chelsie": "female", "aiden": "male, American"}
DEFAULT_VOICE = "ethan"

LANGUAGES = (
    "english", "chinese", "french", "german", "russian", "italian", "spanish", "portuguese", "japanese", "korean",
)  # fmt: skip
"""What it was trained to speak. It has no word for a language: it goes by the text."""

PREDICTOR_SAMPLING: dict[str, Any] = {
    "predictor_temperature": 1.0,
    "predictor_top_k": 50,
    "predictor_top_p": 0.8,
}


def config() -> dict[str, Any]:
    """config.json"""
    return json_object(Path(__file__).with_name("config.json").read_bytes())
