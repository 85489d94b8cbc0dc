"""Settings: how this machine should run a model, and what the environment says. The only reader of the environment."""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from omnitts_cli import kinds
from omnitts_cli.errors import SettingsError

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


@dataclass(frozen=True)
class EngineSettings:
    """How to run a model on this machine. None leaves the choice to the device."""

    device: str = "auto"
    dtype: str = "auto"  # of the language side: as stored where the device is quick with it, else float32
    slots: int | None = None  # requests spoken together
    seconds: float = 120.0  # longest speech of one request, its reference included
    first_chunk: int = 1  # frames in the first chunk of sound
    chunk: int = 16  # most frames in a later one
    threads: int | None = None  # on the CPU
    capture: bool = True  # record steps where the device can replay them
    offline: bool = False  # ask nothing of the network
    mistral_pattern: bool = False  # cut words as the official package does for local folders

    def __post_init__(self) -> None:
        for field in fields(self):
            value, kind = getattr(self, field.name), RULES[field.name]
            if not kind.accepts(value) and not (value is None and field.default is None):
                raise SettingsError(f"{field.name} = {value!r} is not {kind.words}")

    @staticmethod
    def of(values: Mapping[str, Any], source: str) -> EngineSettings:
        """Settings from a table; an unknown key is an error that names `source` and the nearest key."""
        for key in values:
            if key not in RULES:
                close = difflib.get_close_matches(key, RULES, 1)
                hint = f"did you mean '{close[0]}'?" if close else "known keys: " + ", ".join(RULES)
                raise SettingsError(f"{source}: unknown key '{key}'", hint=hint)
        try:
            return EngineSettings(**values)
        except SettingsError as error:
            raise SettingsError(f"{source}: {error.message}") from None


RULES: Mapping[str, kinds.Kind] = {
    "device": kinds.TEXT,
    "dtype": kinds.one_of("auto", "bf16", "fp16", "fp32"),
    "slots": kinds.whole(1, 1024),
    "seconds": kinds.number(1, 2400),
    "first_chunk": kinds.whole(1, 100),
    "chunk": kinds.whole(1, 100),
    "threads": kinds.whole(1, 1024),
    "capture": kinds.SWITCH,
    "offline": kinds.SWITCH,
    "mistral_pattern": kinds.SWITCH,
}
