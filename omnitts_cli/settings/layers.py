"""Where an option's value comes from when it was not typed: environment, settings files, preset, default.

Order, strongest first: typed; a preset that was typed; environment; project file; user file; system
file; a preset that one of these named; the default.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from omnitts_cli.errors import SettingsError
from omnitts_cli.settings import environment, presets
from omnitts_cli.settings import file as settings_file
from omnitts_cli.settings.kinds import nearest
from omnitts_cli.settings.presets import Preset
from omnitts_cli.settings.setting import Field, former_names

PROJECT_FILE = "omnitts.toml"


@dataclass(frozen=True)
class Layer:
    """Values by option name, and what to call their origin."""

    origin: str
    values: Mapping[str, Any]


class Layers:
    """All origins of one command's options, strongest first. `refused`: what the project file sets and must not."""

    def __init__(self, section: str, typed: Mapping[str, Any], fields: list[Field]) -> None:
        self._fields = {field.name: field for field in fields}
        self._former = former_names(self._fields)
        self.refused: list[str] = []
        given = Layer("typed", {name: value for name, value in typed.items() if value is not None})
        files = [self._file(path, section) for path in existing_files()]
        below = [self._environment(), *files]
        named = next((layer for layer in [given, *below] if layer.values.get("preset")), None)
        chosen = [self._preset(named.values["preset"])] if named and "preset" in self._fields else []
        self.layers = [given, *chosen, *below] if named is given else [given, *below, *chosen]

    def value(self, field: Field, *, typed_only: bool = False) -> Any:
        return self.layers[0].values.get(field.name, field.default) if typed_only else self.origin(field)[0]

    def has(self, name: str) -> bool:
        """Whether the command has such an option."""
        return name in self._fields or name in self._former

    def origin(self, field: Field) -> tuple[Any, str]:
        """The value of an option and where it comes from."""
        for layer in self.layers:
            if field.name in layer.values:
                return layer.values[field.name], layer.origin
        return field.default, "default"

    def _environment(self) -> Layer:
        values = {}
        for variable, text in environment.ours().items():
            name = self._former.get(variable, variable)
            if name in self._fields:
                values[name] = self._fields[name].spelled(text, f"{environment.PREFIX}{variable.upper()}")
        return Layer("environment", values)

    def _file(self, path: Path, section: str) -> Layer:
        values = settings_file.read(path).values(section, self._fields)
        if is_project(path):
            self.refused = [
                one.key for name, one in self._fields.items() if name in values and not may(one, values[name])
            ]
            values = {name: value for name, value in values.items() if may(self._fields[name], value)}
        return Layer(str(path), values)

    def _preset(self, name: str) -> Layer:
        own = own_presets()
        preset = own[name] if name in own else presets.load(name, others=own)
        values = {key: value for key, value in preset.values.items() if key in self._fields}
        return Layer(f"preset {name}", values)


def may(field: Field, value: Any) -> bool:
    """Whether a project file sets this. It may have come with somebody else's archive, so only taste, and no file."""
    return field.setting.project and not (isinstance(value, str) and value.endswith(".voice"))


def is_project(path: Path) -> bool:
    """Whether this is the project's file, found in the working folder rather than named."""
    return path == Path(PROJECT_FILE) and not environment.ours().get("config")


def own_presets() -> dict[str, Preset]:
    """The presets of all files; the strongest file wins a name. Those of a project file keep to what it may set."""
    found: dict[str, Preset] = {}
    known = presets.settable()
    for path in reversed(existing_files()):
        for name, preset in settings_file.read(path).presets().items():
            values = {k: v for k, v in preset.values.items() if not is_project(path) or may(known[k], v)}
            found[name] = replace(preset, values=values)
    return found


def strangers(layers: Layers) -> list[tuple[str, str]]:
    """Variables that are meant for us and that no setting has, most likely typing errors; each with a hint."""
    known = [name.replace("-", "_") for name in settings_file.all_names()]  # of other commands too
    found = []
    for name in environment.ours():
        if name not in environment.SWITCHES and not layers.has(name) and name not in known:
            close = nearest(name, known)
            hint = f"{environment.PREFIX}{close.upper()}" if close else "omnitts config show names them all"
            found.append((f"{environment.PREFIX}{name.upper()}", hint))
    return found


def existing_files() -> list[Path]:
    """The settings files there are, strongest first. OMNITTS_CONFIG names the only one."""
    found = places()
    if len(found) == 1 and not found[0].is_file():
        raise SettingsError(f"settings file {found[0]} does not exist", hint="correct or unset OMNITTS_CONFIG")
    return [path for path in found if path.is_file()]


def places() -> list[Path]:
    """Where settings files are looked for, strongest first: the project's, the user's, the system's."""
    import platformdirs

    only = environment.ours().get("config")
    if only:
        return [Path(only)]
    return [
        Path(PROJECT_FILE),
        Path(platformdirs.user_config_dir("omnitts", appauthor=False)) / "config.toml",
        Path(platformdirs.site_config_dir("omnitts", appauthor=False)) / "config.toml",
    ]
