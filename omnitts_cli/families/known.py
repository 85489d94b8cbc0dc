"""The known families, and the one of a model folder. A new family needs a folder and a line here."""

import importlib
from functools import cache
from pathlib import Path
from typing import Any

from omnitts_cli.errors import ModelError
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


def made_up(name: str, variant: str | None) -> tuple[Family, Any]:
    """The family and the config of a model with random weights, its name without "random:"."""
    here = Path(f"random:{name}")
    found = next((one for one in families() if one.complete(name, variant) in one.made_up), None)
    if found is None:
        names = ("toy", *(name for one in families() for name in one.made_up))
        hint = f"random models: {', '.join(f'random:{name}' for name in names)}"
        raise ModelError(f"no model '{here}'", hint=hint)
    return found, found.made_up_config(here, found.complete(name, variant))


def family_of(folder: Path) -> Family:
    """The family of a model folder, or an error that names those there are."""
    return family(Fields.read(folder / "config.json").word("model_type", list(FOLDERS)))
