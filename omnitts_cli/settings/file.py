"""A settings file (config.toml): keys are long option names; a table per command, and the user's presets."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omnitts_cli.errors import SettingsError
from omnitts_cli.parse import ParseError
from omnitts_cli.settings import presets
from omnitts_cli.settings.presets import Preset
from omnitts_cli.settings.setting import Field, fields_of, former_names, nearest, shown

PROJECT_FILE = "omnitts.toml"  # in the current folder
SECTIONS = (
    "say", "clone", "design", "play", "ask", "batch", "voices", "models", "codec", "bench", "serve",
    "speechd", "mcp", "doctor", "config", "tune",
)  # fmt: skip


@dataclass(frozen=True)
class SettingsFile:
    """A file whose keys are all known; values are checked by their options."""

    path: Path
    text: str
    tables: Mapping[str, Any]

    def values(self, section: str, fields: Mapping[str, Field], own_only: Collection[str] = ()) -> dict[str, Any]:
        """The values for one command; its own table overrides the top level, which does not count for `own_only`."""
        general = {
            k: v for k, v in self.tables.items() if not isinstance(v, dict) and k.replace("-", "_") not in own_only
        }
        own = self.tables.get(section, {})
        former, values = former_names(fields), {}
        for key, value in {**general, **own}.items():
            name = key.replace("-", "_")
            name = former.get(name, name)
            if name in fields:
                values[name] = fields[name].stored(key, value, self.place(key), (str(self.path), self.line(key)))
        return values

    def check_values(self) -> None:
        """Checks every value, for all commands; raises for the first wrong one."""
        from omnitts_cli.settings.commands import ALL, ASK

        fields = {one.name: one for group in ALL if group not in ASK for one in fields_of(group)}
        for section in SECTIONS:
            own = {one.name: one for group in ASK * (section == "ask") for one in fields_of(group)}
            self.values(section, fields | own, own)

    def presets(self) -> dict[str, Preset]:
        return {name: self._preset(name, table) for name, table in self.tables.get("presets", {}).items()}

    def _preset(self, name: str, table: Any) -> Preset:
        source = f"{self.path}, preset {name}"
        if not isinstance(table, dict):
            raise SettingsError(
                f"{self.place(name)}: {name} = {shown(table)} is not a preset",
                hint=f"a preset is a table: [presets.{name}]",
                where=(str(self.path), self.line(name)),
            )
        able = {*presets.settable(), *former_names(presets.settable())}
        for key in table:
            if key in all_names() and key.replace("-", "_") not in able:
                hint = f"move it above the tables, or use --{key} with --preset {name}"
                raise SettingsError(f"{source}: '{key}' cannot be set in a preset", hint=hint)
        return presets.check(name, table, source)

    def place(self, key: str) -> str:
        """The file and the line of a key, for messages."""
        number = self.line(key)
        return str(self.path) if number is None else f"{self.path} line {number}"

    def line(self, key: str) -> int | None:
        for number, line in enumerate(self.text.splitlines(), 1):
            if line.split("=")[0].strip() in (key, f'"{key}"', f"[{key}]"):
                return number
        return None


def read(path: Path) -> SettingsFile:
    """The file, if it is TOML and every key in it is known."""
    text, tables = text_of(path)
    found = SettingsFile(path, text, tables)
    refuse_unknown(found)
    return found


def text_of(path: Path) -> tuple[str, dict[str, Any]]:
    """The text and the tables of a file; keys are not checked."""
    try:
        return presets.toml_of(path)
    except ParseError as error:
        hint = f"correct {path}" if str(path) == PROJECT_FILE else "omnitts config edit"
        raise SettingsError(f"{path} {error}", hint=hint, where=(str(path), error.line)) from None
    except OSError as error:
        raise SettingsError(f"cannot read {path}", cause=error.strerror, hint="check the path") from None


def refuse_unknown(file: SettingsFile) -> None:
    known = all_names()
    for key, value in file.tables.items():
        if key == "presets" and isinstance(value, dict):
            file.presets()
        elif key in SECTIONS and isinstance(value, dict):
            check_keys(file, value, known)
        else:
            check_keys(file, [key], known)


def refuse_places(file: SettingsFile, user_file: Path) -> None:
    """A project file may come from someone else: it may set how speech sounds, and nothing else."""
    from omnitts_cli.settings.commands import ALL

    # if two have the same name, the shared one counts
    fields = [one for group in reversed(ALL) for one in fields_of(group)]
    known = {name: one for one in fields for name in (one.key, one.former_key) if name}
    presets_of = file.tables.get("presets", {})
    tables = [file.tables, *(file.tables.get(name, {}) for name in SECTIONS), *presets_of.values()]
    for key, value in [item for table in tables if isinstance(table, dict) for item in table.items()]:
        if key not in known or isinstance(value, dict):
            continue
        names_a_file = key == "voice" and isinstance(value, str) and (value.endswith(".voice") or "/" in value)
        if names_a_file or not known[key].setting.project:
            raise SettingsError(
                f"{file.place(key)}: a project file may not set '{key}'" + " to a file" * names_a_file,
                cause="it may have come with other people's files, so it cannot name files or models",
                hint=f"OMNITTS_CONFIG={file.path}   trusts this file; or move the key to {user_file}",
                where=(str(file.path), file.line(key)),
            )


def check_keys(file: SettingsFile, keys: Iterable[str], known: list[str]) -> None:
    for key in keys:
        if key not in known:
            guess = nearest(key, [*known, *SECTIONS])
            hint = f"did you mean '{guess}'?" if guess else "keys are long option names"
            where = (str(file.path), file.line(key))
            raise SettingsError(f"{file.place(key)}: unknown key '{key[:80]}'", hint=hint, where=where)


def all_names() -> list[str]:
    """Every key that a file may contain, including former names."""
    from omnitts_cli.settings.commands import ALL  # of all commands: only where a file or a wrong name asks

    fields = [field for group in ALL for field in fields_of(group)]
    return [name.replace("_", "-") for one in fields for name in (one.name, one.setting.former) if name]
