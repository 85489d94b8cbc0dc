"""Setting: one row of the table. Its name and default are those of the field that carries it."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike, fspath
from typing import Any, Literal, get_args, get_type_hints

from omnitts_cli.errors import UsageError
from omnitts_cli.settings.kinds import SWITCH, Kind, nearest

Group = Literal["text", "voice", "sampling", "output", "machine", "messages", "load", "server", "limits", "report"]


@dataclass(frozen=True)
class Setting:
    """What a setting accepts, its help, and where it may be set.

    Every setting is an option, an environment variable and a key of the settings file. Presets may set those with
    `preset`. A project file, which may come from someone else, may set those with `project`: how speech sounds, never
    which files are read, written or downloaded.
    """

    flags: str  # as typed, a space between spellings
    kind: Kind
    help: str
    takes: str = ""  # the placeholder in help; by default the choices
    many: bool = False
    shown: str = ""  # the default, in words
    group: Group = "messages"  # the heading in help
    main: bool = False  # one of the few that most people need
    preset: bool = False
    project: bool = False
    complete: Literal["", "models", "voices", "presets"] = ""  # what shell completion offers
    former: str = ""  # its former name, still accepted everywhere

    @property
    def spellings(self) -> list[str]:
        """All spellings, as typed."""
        return self.flags.split()

    @property
    def option(self) -> str:
        """The spelling that messages use."""
        return next((s for s in self.spellings if s.startswith("--")), self.spellings[0]).split("/")[0]

    @property
    def metavar(self) -> str:
        """The placeholder in help."""
        return self.takes or "|".join(self.kind.choices)

    def read(self, text: str, source: str) -> Any:
        """The parsed value, or an error that names `source` and the text."""
        try:
            return self.kind.read(text)
        except ValueError:
            typed = text.lower()
            close = nearest(typed, list(self.kind.choices))
            close = close or next((one for one in self.kind.choices if typed.startswith(f"{one}-")), None)  # en-US
            takes = close or self.kind.example(text) or self.metavar or "true|false"
            hint = f"{source} {takes}" if source.startswith("-") else f"{source}={takes}"
            wrong = f"'{text[:80]}' is not {self.kind.words}" if text else "is empty"
            raise UsageError(f"{source} {wrong}", hint=hint) from None

    def accepts(self, value: Any) -> bool:
        """Whether a value from a file is valid; booleans only for switches."""
        return self.kind.accepts(value) and isinstance(value, bool) == (self.kind is SWITCH)


@dataclass(frozen=True, eq=False)
class Field:
    """A setting together with the name and default of its place in a group. There is one object of each."""

    name: str
    setting: Setting
    default: Any

    @property
    def key(self) -> str:
        """Its name in files: `sentence-gap`."""
        return self.name.replace("_", "-")

    @property
    def former_key(self) -> str:
        """Its former name in files; empty if there is none."""
        return self.setting.former.replace("_", "-")

    def typed(self, value: Any) -> Any:
        """The parsed value of a typed option; None if it was not typed."""
        if value is None or value == [] or self.setting.kind is SWITCH:
            return None if value == [] else value
        if self.setting.many:
            return tuple(self.setting.read(text, self.setting.option) for text in value)
        return self.setting.read(value, self.setting.option)

    def checked(self, value: Any) -> Any:
        """A value from a program, checked; NumPy numbers and paths are accepted."""
        items = list(value) if self.setting.many and not isinstance(value, str) else [value]
        found = [item.item() if hasattr(item, "item") else item for item in items]
        found = [fspath(item) if isinstance(item, PathLike) else item for item in found]
        for item in found:
            if not self.setting.accepts(item):
                raise UsageError(
                    f"{self.name} = {item!r} is not {self.setting.kind.words}", hint=f"correct {self.name}="
                )
        return tuple(found) if self.setting.many else found[0]

    def spelled(self, text: str, source: str) -> Any:
        """The parsed value of a text that was not typed."""
        parts = text.split(",") if self.setting.many else [text]
        read = [self.setting.read(part, source) for part in parts]
        return tuple(read) if self.setting.many else read[0]


@functools.cache
def fields_of(group: type) -> tuple[Field, ...]:
    """The settings of a group, in order of declaration. Cached, because most commands share most groups."""
    hints = get_type_hints(group, include_extras=True)
    fields = []
    for field in dataclasses.fields(group):
        setting = next(extra for extra in get_args(hints[field.name])[1:] if isinstance(extra, Setting))
        fields.append(Field(field.name, setting, field.default))
    return tuple(fields)


def former_names(fields: Mapping[str, Field]) -> dict[str, str]:
    """Former name -> name."""
    return {field.setting.former: name for name, field in fields.items() if field.setting.former}
