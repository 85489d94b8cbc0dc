"""Where an option's value comes from when it was not typed: environment, settings files, preset, default.

Order, strongest first: typed; a preset that was typed; environment; project file; user file; system
file; a preset that one of these named; the default.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omnitts_cli import presets, settings
from omnitts_cli.cli.console import console
from omnitts_cli.cli.declare import Field
from omnitts_cli.errors import SettingsError

PROJECT_FILE = "omnitts.toml"


@dataclass(frozen=True)
class Layer:
    """Values by option name, and what to call their origin."""

    origin: str
    values: Mapping[str, Any]


class Layers:
    """All origins of one command's options, strongest first."""

    def __init__(self, section: str, typed: Mapping[str, Any], fields: list[Field]) -> None:
        self._fields = {field.name: field for field in fields}
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
        return name in self._fields

    def origin(self, field: Field) -> tuple[Any, str]:
        """The value of an option and where it comes from."""
        for layer in self.layers:
            if field.name in layer.values:
                return layer.values[field.name], layer.origin
        return field.default, "default"

    def _environment(self) -> Layer:
        values = {}
        for name, text in settings.ours().items():
            if name in self._fields:
                values[name] = spelled(self._fields[name], text, f"{settings.PREFIX}{name.upper()}")
        return Layer("environment", values)

    def _file(self, path: Path, section: str) -> Layer:
        from omnitts_cli.cli import settings_file

        return Layer(str(path), settings_file.read(path).values(section, self._fields))

    def _preset(self, name: str) -> Layer:
        from omnitts_cli.cli import settings_file

        own = settings_file.own_presets(existing_files())
        preset = own[name] if name in own else presets.load(name, others=own)
        values = {key: value for key, value in preset.settings().items() if key in self._fields}
        return Layer(f"preset {name}", values)


def warn_of_strangers(layers: Layers) -> None:
    """A variable that is meant for us and that no option has: most likely a typing error."""
    unknown = [name for name in settings.ours() if name not in settings.SWITCHES and not layers.has(name)]
    if not unknown:
        return
    from omnitts_cli.cli import settings_file

    known = [name.replace("-", "_") for name in settings_file.all_names()]  # of other commands too
    for name in unknown:
        if name not in known:
            close = presets.nearest(name, known)
            hint = f"{settings.PREFIX}{close.upper()}" if close else "omnitts config show names them all"
            console.warning(f"{settings.PREFIX}{name.upper()} is no setting", hint=hint)


def spelled(field: Field, text: str, source: str) -> Any:
    """A value that came as text from somewhere other than the command line."""
    parts = text.split(",") if field.opt.many else [text]
    read = [field.opt.read(part, source) for part in parts]
    return tuple(read) if field.opt.many else read[0]


def existing_files() -> list[Path]:
    """The settings files there are, strongest first. OMNITTS_CONFIG names the only one."""
    found = places()
    if len(found) == 1 and not found[0].is_file():
        raise SettingsError(f"settings file {found[0]} does not exist", hint="correct or unset OMNITTS_CONFIG")
    return [path for path in found if path.is_file()]


def places() -> list[Path]:
    """Where settings files are looked for, strongest first: the project's, the user's, the system's."""
    import platformdirs

    only = settings.ours().get("config")
    if only:
        return [Path(only)]
    return [
        Path(PROJECT_FILE),
        Path(platformdirs.user_config_dir("omnitts", appauthor=False)) / "config.toml",
        Path(platformdirs.site_config_dir("omnitts", appauthor=False)) / "config.toml",
    ]
