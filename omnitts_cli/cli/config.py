"""omnitts config: where settings come from, what they are, and changing the user's own file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from omnitts_cli.cli.declare import Command, command, group
from omnitts_cli.cli.sound_out import make_folder
from omnitts_cli.errors import UsageError
from omnitts_cli.settings import environment
from omnitts_cli.settings.kinds import nearest
from omnitts_cli.settings.setting import Field, fields_of
from omnitts_cli.settings.table import SHARED, Messages
from omnitts_cli.terminal.console import console

app = group("Show and change settings.")


def key_names(incomplete: str) -> list[str]:
    return [name for name in map(key, all_fields()) if name.startswith(incomplete)]


Key = Annotated[
    str,
    typer.Argument(metavar="KEY", help="The long name of an option, as in 'sentence-gap'.", autocompletion=key_names),
]
Value = Annotated[str, typer.Argument(metavar="VALUE", help="What it is to be.")]


def path(messages: Messages) -> None:
    """Print the file that `set` writes, and on stderr the others that are read.

    So $(omnitts config path) is one path. With --json all of them, strongest first.
    """

    from omnitts_cli.settings import layers

    target = user_file()
    for place in layers.places():
        if place != target:
            console.note(f"{'also read' if place.is_file() else 'would be read too'}: {place}")
        console.record(status="ok", path=str(place), exists=place.is_file())
    console.result(str(target))


def show(
    messages: Messages, origin: Annotated[bool, typer.Option("--origin", help="Say where each comes from.")] = False
) -> None:
    """Print every setting as it would be used.

    Environment: OMNITTS_ and the option's name in capitals, as in OMNITTS_VOICE; OMNITTS_CONFIG names
    the only settings file. Of others: HF_HOME, HF_ENDPOINT, HF_TOKEN, HF_HUB_OFFLINE, NO_COLOR,
    FORCE_COLOR, XDG_*, OMP_NUM_THREADS, CUDA_VISIBLE_DEVICES, ASCEND_RT_VISIBLE_DEVICES.
    """
    from omnitts_cli.settings.layers import Layers

    fields = all_fields()
    layers = Layers("config", {}, fields)
    rows = []
    for field in fields:
        value, source = layers.origin(field)
        rows.append([key(field), shown(value), source] if origin else [key(field), shown(value)])
        console.record(status="ok", key=key(field), value=value, origin=source)
    rows += foreign_rows(origin)
    console.table(rows)


def set(messages: Messages, name: Key, value: Value) -> None:
    """Write one setting into the user's file."""
    from omnitts_cli.settings.edit import with_key, without_key

    field = find(name)
    read = field.spelled(value, f"--{key(field)}")
    target = user_file()
    name = key(field)
    save(target, with_key(without_key(text_of(target), field.former_key), name, toml(read)))
    console.note(f"{name} = {toml(read)}   in {target}")
    warn_of_stronger(field, target)
    console.record(status="ok", path=str(target), key=name, value=read)


def unset(messages: Messages, name: Key) -> None:
    """Take one setting out of the user's file."""
    from omnitts_cli.settings.edit import without_key

    field = find(name)
    target = user_file()
    before = text_of(target)
    text = without_key(without_key(before, key(field)), field.former_key)
    if text != before:
        save(target, text)
    console.note(f"{name} is not set in {target}")
    warn_of_stronger(field, target)
    console.record(status="ok", path=str(target), key=name)


for body in (path, show, set, unset):
    app.command(cls=Command)(command(body))


def warn_of_stronger(field: Field, target: Path) -> None:
    """Where a setting comes from a place that goes over the user's file."""
    from omnitts_cli.settings.layers import Layers, places

    value, source = Layers("config", {}, all_fields()).origin(field)
    stronger = [str(place) for place in places()[: places().index(target)]]
    if source in ("environment", *stronger):
        console.warning(f"{key(field)} is still {shown(value)}, from {source}")


def all_fields() -> list[Field]:
    return [field for options in SHARED for field in fields_of(options)]


def key(field: Field) -> str:
    return field.name.replace("_", "-")


def find(name: str) -> Field:
    """The option of that name, or an error with the nearest."""
    fields = {key(field): field for field in all_fields()}
    former = {field.former_key: field for field in fields.values() if field.former_key}
    if name in former:
        return former[name]
    if name not in fields:
        from omnitts_cli.settings.file import SECTIONS

        close = nearest(name, list(fields))
        hint = f"did you mean '{close}'?" if close else "omnitts config show"
        command, _, rest = name.partition(".")
        if rest and command in SECTIONS:
            hint = f"what is for one command stands below [{command}] in {user_file()}; only you can write there"
        raise UsageError(f"no setting '{name}'", hint=hint)
    return fields[name]


def shown(value: Any) -> str:
    return "" if value in (None, ()) else str(value).lower() if isinstance(value, bool) else str(value)


def foreign_rows(origin: bool) -> list[list[str]]:
    rows = []
    for name in environment.FOREIGN:
        value = environment.variable(name)
        if value is not None:
            rows.append([name, "(set)" if name in environment.SECRET else value] + (["environment"] if origin else []))
    return rows


def toml(value: Any) -> str:
    """A value as TOML; the strings of JSON are strings of TOML, less a bare DEL."""
    import json

    if isinstance(value, bool):
        return "true" if value else "false"
    text = json.dumps(list(value) if isinstance(value, tuple) else value, ensure_ascii=False)
    try:
        text.encode()
    except UnicodeEncodeError:
        raise UsageError(f"{value!r} is not UTF-8, and a settings file holds nothing else") from None
    return text.replace("\x7f", "\\u007f")


def user_file() -> Path:
    from omnitts_cli.settings import layers

    found = layers.places()
    return found[0] if len(found) == 1 else found[1]


def text_of(target: Path) -> str:
    """What stands in the file, if that is right; nothing where there is none."""
    from omnitts_cli.settings import file as settings_file

    return settings_file.read(target).text if target.exists() else ""


def save(target: Path, text: str) -> None:
    """Replaces the file in one step."""
    from omnitts_cli.audio.target import put

    make_folder(target.parent)
    put(target, text.encode())
