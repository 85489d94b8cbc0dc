"""Settings: what the environment says. The only reader of it."""

from __future__ import annotations

import os
from collections.abc import Mapping

PREFIX = "OMNITTS_"

# Variables of others that are honoured, by us or by the libraries below us; `omnitts config show` lists them.
FOREIGN = (
    "HF_HOME",
    "HF_ENDPOINT",
    "HF_TOKEN",
    "HF_HUB_OFFLINE",
    "NO_COLOR",
    "FORCE_COLOR",
    "TERM",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_CACHE_HOME",
    "CUDA_VISIBLE_DEVICES",
    "ASCEND_RT_VISIBLE_DEVICES",
)
SECRET = ("HF_TOKEN",)


def variable(name: str) -> str | None:
    """A variable of the environment; one that is set to nothing counts as not set."""
    return os.environ.get(name) or None


def ours() -> Mapping[str, str]:
    """The variables that are meant for us, by their name behind OMNITTS_, in lower case."""
    found = {name: value for name, value in os.environ.items() if name.startswith(PREFIX) and value}
    return {name.removeprefix(PREFIX).lower(): value for name, value in found.items()}
