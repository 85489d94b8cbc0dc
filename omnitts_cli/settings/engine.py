"""EngineSettings: how to run a model on this machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from omnitts_cli.errors import SettingsError
from omnitts_cli.settings.setting import SWITCH, Kind, fields_of, nearest, number
from omnitts_cli.settings.table import SLOTS, Machine, Network


@dataclass(frozen=True)
class EngineSettings:
    """How to run a model on this machine. None: the device chooses."""

    device: str = "auto"
    dtype: str = "auto"  # of talker and predictor; auto: as stored if that is fast on the device, else float32
    slots: int | None = None  # requests in one batch
    seconds: float = 120.0  # longest speech of one request, including its reference
    first_chunk: int = 1  # frames in the first chunk of sound
    chunk: int = 16  # most frames in a later chunk
    threads: int | None = None  # on the CPU
    patient: bool = False  # no one waits for the first sound, as with a file: more requests together on a CPU
    fixed_chunks: bool = False  # the same chunks in every run, for files that are equal to the bit
    capture: bool = True  # capture steps as graphs if the device supports it
    offline: bool = False  # make no network call
    mistral_pattern: bool = False  # split words as the official package does for local folders

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
                close = nearest(key, list(RULES))
                hint = f"did you mean '{close}'?" if close else "known keys: " + ", ".join(RULES)
                raise SettingsError(f"{source}: unknown key '{key}'", hint=hint)
        try:
            return EngineSettings(**values)
        except SettingsError as error:
            raise SettingsError(f"{source}: {error.message}") from None


RULES: Mapping[str, Kind] = {
    **{field.name: field.setting.kind for group in (Machine, Network) for field in fields_of(group)},
    "slots": SLOTS,  # the option's "auto" is None here
    "seconds": number(1, 2400),
    "patient": SWITCH,
    "fixed_chunks": SWITCH,
    "capture": SWITCH,
    "mistral_pattern": SWITCH,
}
"""What each field accepts: the same as the option of that name."""
