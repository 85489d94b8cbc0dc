"""Presets: named sets of settings. Reads `presets/*.toml`; an unknown key is an error."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from omnitts_cli import files
from omnitts_cli.errors import SettingsError, UsageError
from omnitts_cli.parse import ParseError, text_of, toml_tables
from omnitts_cli.settings.setting import TEXT, Field, Setting, fields_of, former_names, nearest
from omnitts_cli.settings.table import SHARED

LARGEST_FILE = 64 << 10
ABOUT = Field("about", Setting("--about", TEXT, "What a preset is for."), "")


@dataclass(frozen=True)
class Preset:
    """The values of a preset, by the names of settings.

    Typed options override the preset; the preset overrides the defaults.
    """

    name: str
    about: str = ""
    values: Mapping[str, Any] = field(default_factory=dict)


def settable() -> dict[str, Field]:
    """The settings that a preset may set, by name."""
    return {one.name: one for group in SHARED for one in fields_of(group) if one.setting.preset}


def check(name: str, table: Mapping[str, Any], source: str) -> Preset:
    """The preset in a table, or an error that names `source` and the key. Keys are long option names."""
    known = {"about": ABOUT, **settable()}
    former = former_names(known)
    values: dict[str, Any] = {}
    for key, value in table.items():
        own = key.replace("-", "_")
        own = former.get(own, own)
        if "_" in key or own not in known:
            spelled = [one.key for one in known.values()]
            guess = nearest(key.replace("_", "-"), [*spelled, *(name.replace("_", "-") for name in former)])
            hint = f"did you mean '{guess}'?" if guess else "known keys: " + ", ".join(spelled)
            raise SettingsError(f"{source}: unknown key '{key[:80]}'", hint=hint)
        values[own] = known[own].stored(key, value, source)
    about = values.pop("about", "")
    return Preset(name, about, values)


def read(path: Path) -> Preset:
    """One preset file."""
    try:
        _, table = toml_of(path)
    except ParseError as error:
        raise SettingsError(f"{path} {error}") from None
    except OSError as error:
        raise SettingsError(f"cannot read {path}", cause=error.strerror) from None
    return check(path.stem, table, str(path))


def toml_of(path: Path) -> tuple[str, dict[str, Any]]:
    """The text and the tables of a file, which others may have made."""
    text = text_of(files.read(path, LARGEST_FILE)).replace("\r\n", "\n").replace("\r", "\n")
    return text, toml_tables(text)


def folder() -> Path:
    """The folder of the presets: package data in a wheel, `presets/` in the source tree."""
    package = Path(__file__).parents[1]
    packed = package / "presets_data"
    return packed if packed.is_dir() else package.parent / "presets"


def names() -> list[str]:
    return sorted(path.stem for path in folder().glob("*.toml"))


def load(name: str, others: Iterable[str] = ()) -> Preset:
    """The preset called `name`. `others` are the user's own presets, for suggestions."""
    if name not in names():
        known = sorted({*names(), *others})
        guess = nearest(name, known)
        hint = f"did you mean '{guess}'?" if guess else "presets: " + ", ".join(known)
        raise UsageError(f"preset '{name}' not found", hint=hint)
    return read(folder() / f"{name}.toml")
