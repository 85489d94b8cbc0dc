"""EngineSettings: how to run a model on this machine."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from omnitts_cli.settings.setting import SWITCH, Checked, ValueKind, kinds_of, number
from omnitts_cli.settings.table import SLOTS, Machine, Network


@dataclass(frozen=True)
class EngineSettings(Checked):
    """How to run a model on this machine. None: the device chooses."""

    device: str = "auto"
    # of talker and predictor; auto: as stored if that is fast on the device; on a CPU q8 for large models, else float32
    dtype: str = "auto"
    slots: int | None = None  # requests in one batch
    max_memory: int | None = None  # bytes for the model and its slots; None: what is free on the device
    # longest speech of one request, including its reference; None: two minutes, or less where memory is short
    seconds: float | None = None
    first_chunk: int = 1  # frames in the first chunk of sound
    chunk: int = 16  # most frames in a later chunk
    threads: int | None = None  # on the CPU
    patient: bool = False  # no one waits for the first sound, as with a file: more requests together on a CPU
    fixed_chunks: bool = False  # the same chunks in every run, for files that are equal to the bit
    exact: bool = False  # a request has the same codes and samples alone and among any others
    capture: bool = True  # capture steps as graphs if the device supports it
    offline: bool = False  # make no network call
    mistral_pattern: bool = False  # split words as the official package does for local folders

    rules: ClassVar[Mapping[str, ValueKind]] = kinds_of(Machine, Network) | {
        "slots": SLOTS,  # the option's "auto" is None here
        "seconds": number(1, 2400),
        "patient": SWITCH,
        "fixed_chunks": SWITCH,
        "capture": SWITCH,
        "mistral_pattern": SWITCH,
    }  # what each field accepts: the same as the option of that name
