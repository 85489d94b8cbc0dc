"""The environment: the variables that are ours, and those of others that count. The only reader of them."""

from __future__ import annotations

import os
from collections.abc import Mapping

PREFIX = "OMNITTS_"
EMBEDDED = "tiny"
"""The model inside the package; it speaks when none is named."""

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
    "OMP_NUM_THREADS",
    "CUDA_VISIBLE_DEVICES",
    "ASCEND_RT_VISIBLE_DEVICES",
)
SECRET = ("HF_TOKEN",)
NATIVE = "OMNITTS_NATIVE"
"""0: do without the compiled library of the CPU, for comparisons."""
SWITCHES = ("config", "native")
"""Variables of ours that are not options: OMNITTS_CONFIG, OMNITTS_NATIVE."""


def variable(name: str) -> str | None:
    """A variable of the environment; one that is set to nothing counts as not set."""
    return os.environ.get(name) or None


def hold_back_backends() -> None:
    """Keep torch from importing every accelerator's package that is installed: a broken one would break them all.

    A device imports its own by name. Who has set the variable is heeded.
    """
    os.environ.setdefault("TORCH_DEVICE_BACKEND_AUTOLOAD", "0")


def let_threads_sleep() -> None:
    """Have OpenMP's threads sleep while they wait for each other. By itself they spin, and on a busy machine each
    waits for one that the system has put aside: measured, speech took 60 s instead of 1.2 s, as if it hung.

    Read when torch is imported. Who has set the variable is heeded.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")


def ours() -> Mapping[str, str]:
    """The variables that are meant for us, by their name behind OMNITTS_, in lower case."""
    found = {name: value for name, value in os.environ.items() if name.startswith(PREFIX) and value}
    return {name.removeprefix(PREFIX).lower(): value for name, value in found.items()}
