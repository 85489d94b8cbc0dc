"""Presets: named intents. Reads `presets/*.toml`; an unknown key is an error that names the nearest known one."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from omnitts_cli.errors import SettingsError, UsageError
from omnitts_cli.kinds import SWITCH, TEXT, Kind, number, one_of, whole


@dataclass(frozen=True)
class Preset:
    """What an intent sets. The keys are long option names with `_` for `-`; None leaves the choice open.

    An option given by hand goes over the preset, the preset over the defaults. `first_chunk` and
    `chunk` are frames per chunk of sound.
    """

    name: str = ""
    about: str = ""
    model: str | None = None
    device: str | None = None
    dtype: str | None = None
    batch_size: int | None = None
    first_chunk: int | None = None
    chunk: int | None = None
    text_mode: str | None = None
    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    repetition_penalty: float | None = None
    retries: int | None = None
    safe: bool | None = None
    split: str | None = None
    sentence_gap: int | None = None
    paragraph_gap: int | None = None
    speed: float | None = None
    volume: float | None = None
    loudness: float | None = None
    format: str | None = None
    subtype: str | None = None
    sample_rate: int | None = None

    def settings(self) -> dict[str, Any]:
        """Only what this preset decides."""
        return {key: value for key in KEYS if (value := getattr(self, key)) is not None}


# What each key accepts; the options of the same name accept the same.
RULES: Mapping[str, Kind] = {
    "about": TEXT,
    "model": TEXT,
    "device": TEXT,
    "dtype": one_of("auto", "bf16", "fp16", "fp32"),
    "batch_size": whole(1, 1024),
    "first_chunk": whole(1, 100),
    "chunk": whole(1, 100),
    "text_mode": one_of("whole", "streamed"),
    "temperature": number(0, 10),
    "top_k": whole(0, 1_000_000),
    "top_p": number(0, 1),
    "repetition_penalty": number(0.01, 10),
    "retries": whole(0, 20),
    "safe": SWITCH,
    "split": one_of("auto", "line", "paragraph", "none"),
    "sentence_gap": whole(0, 60_000),
    "paragraph_gap": whole(0, 60_000),
    "speed": number(0.5, 2),
    "volume": number(-60, 40),
    "loudness": number(-70, 0),
    "format": one_of("wav", "raw", "flac", "mp3", "opus", "ogg"),
    "subtype": one_of("pcm16", "pcm24", "float"),
    "sample_rate": whole(8000, 192_000),
}
KEYS = tuple(field.name for field in fields(Preset) if field.name not in ("name", "about"))


def nearest(word: str, known: list[str]) -> str | None:
    """The known word that a person most likely meant."""
    close = difflib.get_close_matches(word, known, n=1, cutoff=0.6)
    return close[0] if close else None


def check(table: Mapping[str, Any], source: str) -> dict[str, Any]:
    """The table with checked values and `_` for `-` in its keys, or an error that names `source` and the key."""
    checked: dict[str, Any] = {}
    for key, value in table.items():
        name = key.replace("-", "_")
        spelled = [known.replace("_", "-") for known in RULES]
        if name not in RULES or "_" in key:
            guess = nearest(name.replace("_", "-"), spelled)
            hint = f"did you mean '{guess}'?" if guess else "known keys: " + ", ".join(spelled)
            raise SettingsError(f"{source}: unknown key '{key}'", hint=hint)
        if not RULES[name].accepts(value):
            raise SettingsError(f"{source}: {key} = {value!r} is not {RULES[name].words}", hint=f"correct '{key}'")
        checked[name] = value
    return checked


def read(path: Path) -> Preset:
    """One preset file."""
    import tomllib

    try:
        table = tomllib.loads(path.read_text("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path}: not a TOML file that can be read", cause=str(error)) from None
    except OSError as error:
        raise SettingsError(f"{path}: cannot be read", cause=error.strerror) from None
    return Preset(name=path.stem, **check(table, str(path)))


def folder() -> Path:
    """Where the presets are: package data in a wheel, `presets/` in the source tree."""
    package = Path(__file__).parent
    packed = package / "presets_data"
    return packed if packed.is_dir() else package.parent / "presets"


def names() -> list[str]:
    return sorted(path.stem for path in folder().glob("*.toml"))


def load(name: str, others: Iterable[str] = ()) -> Preset:
    """The preset called `name`. `others` are those of a person's own, which a message names too."""
    if name not in names():
        known = sorted({*names(), *others})
        guess = nearest(name, known)
        hint = f"did you mean '{guess}'?" if guess else "presets: " + ", ".join(known)
        raise UsageError(f"preset '{name}' not found", hint=hint)
    return read(folder() / f"{name}.toml")
