"""omnitts config: where settings come from, what they are, and changing the user's own file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from omnitts_cli import settings
from omnitts_cli.cli.console import console
from omnitts_cli.cli.declare import Field, command, fields_of
from omnitts_cli.cli.grammar import Command, group
from omnitts_cli.cli.options import GROUPS, Telling
from omnitts_cli.cli.stage import make_folder
from omnitts_cli.errors import SettingsError, UsageError
from omnitts_cli.presets import nearest

app = group("Show and change settings.")

Key = Annotated[str, typer.Argument(metavar="KEY", help="The long name of an option, as in 'sentence-gap'.")]
Value = Annotated[str, typer.Argument(metavar="VALUE", help="What it is to be.")]


def path(telling: Telling) -> None:
    """Print the settings files that are read, strongest first."""
    from omnitts_cli.cli import defaults

    for place in defaults.places():
        console.result(f"{place}{'' if place.is_file() else '  (not there)'}")
        console.record(status="ok", path=str(place), exists=place.is_file())


def show(
    telling: Telling, origin: Annotated[bool, typer.Option("--origin", help="Say where each comes from.")] = False
) -> None:
    """Print every setting as it would be used.

    Environment: OMNITTS_ and the option's name in capitals, as in OMNITTS_VOICE; OMNITTS_CONFIG names
    the only settings file. Of others: HF_HOME, HF_ENDPOINT, HF_TOKEN, HF_HUB_OFFLINE, NO_COLOR,
    FORCE_COLOR, XDG_*, OMP_NUM_THREADS, CUDA_VISIBLE_DEVICES, ASCEND_RT_VISIBLE_DEVICES.
    """
    from omnitts_cli.cli.defaults import Layers

    fields = all_fields()
    layers = Layers("config", {}, fields)
    rows = []
    for field in fields:
        value, source = layers.origin(field)
        rows.append([key(field), shown(value), source] if origin else [key(field), shown(value)])
        console.record(status="ok", key=key(field), value=value, origin=source)
    rows += foreign_rows(origin)
    console.table(rows)


def set(telling: Telling, name: Key, value: Value) -> None:
    """Write one setting into the user's file."""
    field = find(name)
    read = field.opt.read(value, f"--{key(field)}")
    target = user_file()
    save(target, [f"{name} = {toml(read)}", *without(lines_of(target), name)], name)
    console.note(f"{name} = {toml(read)}   in {target}")
    console.record(status="ok", path=str(target), key=name, value=read)


def unset(telling: Telling, name: Key) -> None:
    """Take one setting out of the user's file."""
    find(name)
    target = user_file()
    before = lines_of(target)
    lines = without(before, name)
    if lines != before:
        save(target, lines, name)
    console.note(f"{name} is not set in {target}")
    console.record(status="ok", path=str(target), key=name)


for body in (path, show, set, unset):
    app.command(cls=Command)(command(body))


def all_fields() -> list[Field]:
    return [field for options in GROUPS for field in fields_of(options)]


def key(field: Field) -> str:
    return field.name.replace("_", "-")


def find(name: str) -> Field:
    """The option of that name, or an error with the nearest."""
    fields = {key(field): field for field in all_fields()}
    if name not in fields:
        close = nearest(name, list(fields))
        raise UsageError(f"no setting '{name}'", hint=f"did you mean '{close}'?" if close else "omnitts config show")
    return fields[name]


def shown(value: Any) -> str:
    return "" if value in (None, ()) else str(value).lower() if isinstance(value, bool) else str(value)


def foreign_rows(origin: bool) -> list[list[str]]:
    rows = []
    for name in settings.FOREIGN:
        value = settings.variable(name)
        if value is not None:
            rows.append([name, "(set)" if name in settings.SECRET else value] + (["environment"] if origin else []))
    return rows


def toml(value: Any) -> str:
    """A value as TOML; the strings of JSON are strings of TOML."""
    import json

    if isinstance(value, bool):
        return "true" if value else "false"
    return json.dumps(list(value) if isinstance(value, tuple) else value, ensure_ascii=False)


def user_file() -> Path:
    from omnitts_cli.cli import defaults

    found = defaults.places()
    return found[0] if len(found) == 1 else found[1]


def lines_of(target: Path) -> list[str]:
    """The file's lines. What is set goes to the top, in front of every table."""
    from omnitts_cli.cli import settings_file

    if not target.exists():
        return []
    return settings_file.read(target).text.splitlines()


def without(lines: list[str], name: str) -> list[str]:
    """The lines, less the one that sets `name`. Tables are left alone: they are for one command, or a preset."""
    top = next((at for at, line in enumerate(lines) if line.lstrip().startswith("[")), len(lines))
    return [line for line in lines[:top] if line.split("=")[0].strip() not in (name, f'"{name}"')] + lines[top:]


def save(target: Path, lines: list[str], name: str) -> None:
    """Replaces the file in one step, and only by one that can be read."""
    import tomllib

    from omnitts_cli.audio.target import open_target

    text = "\n".join(lines) + "\n"
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError:  # a value over several lines, say
        raise SettingsError(f"{target}: '{name}' is set in a way that only you can change", hint="edit it") from None
    make_folder(target.parent)
    place = open_target(target)
    place.file.write(text.encode())
    place.put_in_place()
