"""Where the value of an option comes from if it was not typed: environment, settings files, preset, default.

Order, strongest first: typed; a preset that was typed; environment; project file; user file; system
file; a preset that one of these named; the default.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, TypeVar

from omnitts_cli.errors import OmniError, SettingsError, UsageError
from omnitts_cli.settings import environment, presets
from omnitts_cli.settings import file as settings_file
from omnitts_cli.settings.file import PROJECT_FILE, SettingsFile
from omnitts_cli.settings.presets import Preset
from omnitts_cli.settings.setting import Field, former_names, nearest

T = TypeVar("T")


@dataclass(frozen=True)
class Layer:
    """Values by option name, and the name of their origin."""

    origin: str
    values: Mapping[str, Any]


class Layers:
    """All origins of one command's options, strongest first.

    `tolerant` is for commands that repair settings: a file or variable that cannot be used is ignored, and its error
    is kept in `broken`. Options in `own_only` are typed or stand in the command's own table of a file.
    """

    def __init__(
        self,
        section: str,
        typed: Mapping[str, Any],
        fields: list[Field],
        tolerant: bool = False,
        own_only: Collection[str] = (),
    ) -> None:
        self._fields = {field.name: field for field in fields}
        self._own_only, self._tolerant, self.variables = own_only, tolerant, environment.ours()
        self.broken: list[OmniError] = []
        given = Layer("typed", {name: value for name, value in typed.items() if value is not None})
        paths = self._usable(existing_files, list[Path]())
        files = [self._usable(partial(self._file, path, section), Layer(str(path), {})) for path in paths]
        below = [self._usable(self._environment, Layer("environment", {})), *files]
        named = next((layer for layer in [given, *below] if layer.values.get("preset")), None)
        chosen = [self._usable(partial(self._preset, named), Layer("preset", {}))] if named else []
        self.layers = [given, *chosen, *below] if named is given else [given, *below, *chosen]

    def _usable(self, read: Callable[[], T], otherwise: T) -> T:
        try:
            return read()
        except OmniError as error:
            if not self._tolerant:
                raise
            self.broken.append(error)
            return otherwise

    def value(self, field: Field, *, typed_only: bool = False) -> Any:
        return self.layers[0].values.get(field.name, field.default) if typed_only else self.origin(field)[0]

    @cached_property
    def _former(self) -> dict[str, str]:
        """Former name -> name, where variables are set."""
        return former_names(self._fields)

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
        for variable, text in self.variables.items():
            name = self._former.get(variable, variable)
            if name in self._fields and name not in self._own_only:
                values[name] = self._fields[name].spelled(text, f"{environment.PREFIX}{variable.upper()}")
        return Layer("environment", values)

    def _file(self, path: Path, section: str) -> Layer:
        return Layer(str(path), read(path).values(section, self._fields, self._own_only))

    def _preset(self, named: Layer) -> Layer:
        """The preset that a layer names."""
        own, name = own_presets(), named.values["preset"]
        try:
            preset = own[name] if name in own else presets.load(name, others=own)
        except UsageError as error:
            error.message += self.set_in(named.origin) if named.origin != "typed" else ""
            raise
        values = {key: value for key, value in preset.values.items() if key in self._fields}
        return Layer(f"preset {name}", values)

    def unknown_variables(self) -> list[tuple[str, str]]:
        """OMNITTS_ variables that are not settings, most likely typing errors; each with a hint."""
        odd = [name for name in self.variables if name not in environment.SWITCHES and not self.has(name)]
        if not odd:
            return []
        known = [name.replace("-", "_") for name in settings_file.all_names()]  # of other commands too
        found = []
        for name in odd:
            if name not in known:
                close = nearest(name, known)
                hint = f"{environment.PREFIX}{close.upper()}" if close else "omnitts config show"
                found.append((f"{environment.PREFIX}{name.upper()}", hint))
        return found

    @staticmethod
    def set_in(origin: str) -> str:
        """For the end of a message about a value that was not typed."""
        return f" (set in {'the ' * (origin == 'environment')}{origin})"


def is_project(path: Path) -> bool:
    """Whether this is the project file: found in the current folder, not named by the user."""
    return path == Path(PROJECT_FILE) and not environment.ours().get("config")


def read(path: Path) -> SettingsFile:
    """A settings file; a project file may set only what is allowed there."""
    found = settings_file.read(path)
    if is_project(path):
        settings_file.refuse_places(found, user_file())
    return found


def own_presets() -> dict[str, Preset]:
    """The presets of all files; the strongest file wins."""
    found: dict[str, Preset] = {}
    for path in reversed(existing_files()):
        found.update(read(path).presets())
    return found


def user_file() -> Path:
    """The file that `omnitts config set` writes."""
    found = places()
    return found[0] if len(found) == 1 else found[1]


def existing_files() -> list[Path]:
    """The existing settings files, strongest first. OMNITTS_CONFIG names the only one."""
    found = places()
    if len(found) == 1 and not is_read(found[0]):
        state = "is a folder" if found[0].is_dir() else "does not exist"
        raise SettingsError(f"settings file {found[0]} {state}", hint="unset OMNITTS_CONFIG   or correct it")
    return [path for path in found if is_read(path)]


def is_read(path: Path) -> bool:
    """Whether there is something to read; /dev/null is an empty settings file."""
    return path.exists() and not path.is_dir()


def places() -> list[Path]:
    """The paths of settings files, strongest first: project, user, system."""
    import platformdirs

    if only := environment.ours().get("config"):
        return [Path(only)]
    return [
        Path(PROJECT_FILE),
        Path(platformdirs.user_config_dir("omnitts", appauthor=False)) / "config.toml",
        Path(platformdirs.site_config_dir("omnitts", appauthor=False)) / "config.toml",
    ]
