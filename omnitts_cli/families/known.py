"""The known families, and the one of a model folder. A new family needs a folder and a line here."""

from __future__ import annotations

import importlib
from functools import cache
from pathlib import Path

from omnitts_cli.families.common.family import Family
from omnitts_cli.families.common.fields import Fields

FOLDERS = {
    "qwen3_tts": "qwen3_tts",
    "qwen3_omni_moe": "qwen3_omni",
}
"""What config.json calls its model_type -> the folder beside this file whose family.py has the FAMILY."""


@cache
def family(model_type: str) -> Family:
    """The family of this model_type; its modules are imported now."""
    return importlib.import_module(f"omnitts_cli.families.{FOLDERS[model_type]}.family").FAMILY


def families() -> list[Family]:
    """All of them."""
    return [family(name) for name in FOLDERS]


def family_of(folder: Path) -> Family:
    """The family of a model folder, or an error that names those there are."""
    return family(Fields.read(folder / "config.json").word("model_type", list(FOLDERS)))
