"""omnitts config: shows settings and where they come from, and edits the user's file."""

from pathlib import Path
from typing import Any

from omnitts_cli.audio.outlet import make_folder
from omnitts_cli.audio.target import put
from omnitts_cli.cli.commands import rows_of
from omnitts_cli.cli.complete import embedded_voices
from omnitts_cli.cli.run import Command, warn
from omnitts_cli.cli.voices import is_here, speakers
from omnitts_cli.errors import DeviceError, InputError, SettingsError, UsageError
from omnitts_cli.settings import environment, layers
from omnitts_cli.settings import file as settings_file
from omnitts_cli.settings.edit import with_key, without_key
from omnitts_cli.settings.file import SECTIONS, all_names
from omnitts_cli.settings.layers import Layers, is_project, places, user_file
from omnitts_cli.settings.setting import Field, fields_of, nearest
from omnitts_cli.settings.table import SHARED, Messages
from omnitts_cli.speech import voice_files
from omnitts_cli.terminal.console import console

MOVED = "XDG_CONFIG_HOME=DIR   keeps settings elsewhere"


def path(messages: Messages) -> None:
    """Prints the path of the file that `set` writes; on a terminal and with --json also the others that are read."""
    target = user_file()
    for place in layers.places():
        if place != target and console.stdout.is_terminal():
            console.note(f"also read{'' if layers.is_read(place) else ' if present'}: {place}{of_project(place)}")
        console.record(status="ok", path=str(place), exists=layers.is_read(place))
    console.result(str(target))


def show(messages: Messages, every: bool = False, origin: bool = False) -> None:
    """Prints the settings that differ from their defaults, and always the model and the voice."""
    fields = all_fields()
    layers = Layers("config", {}, fields, tolerant=True)
    warn(layers)
    rows = []
    for field in fields:
        value, source = layers.origin(field)
        used = resolved(field, layers) if value is None else value
        console.record(status="ok", key=field.key, value=used, origin=source)
        if every or source != "default" or field.name in ("model", "voice"):
            words = shown(used) + "   (default)" * (source == "default" and not every and not origin)
            rows.append([field.key, words, source] if origin else [field.key, words])
    console.table(rows + foreign_rows(origin))
    if origin:
        tell_of_files()


def get(messages: Messages, name: str) -> None:
    """Print one setting as it would be used."""
    field = find(name)
    layers = Layers("config", {}, all_fields(), tolerant=True)
    warn(layers)
    value, source = layers.origin(field)
    console.result(shown(value) or resolved(field, layers) or "")
    console.record(status="ok", key=field.key, value=value, origin=source)


def set(messages: Messages, name: str, value: str) -> None:
    """Write one setting to your settings file."""
    field = find(name)
    target, name = user_file(), field.key
    try:
        read = field.spelled(value, f"--{name}")
    except (UsageError, DeviceError) as error:
        example = (error.hint or "").removeprefix(f"--{name} ")
        raise type(error)(error.message.removeprefix("--"), hint=f"omnitts config set {name} {example}") from None
    save(target, with_key(without_key(text_of(target), field.former_key), name, toml(read)))
    console.note(f"{name} = {toml(read)}   in {target}")
    if name == "voice":
        warn_of_unknown(str(read))
    warn_of_stronger(field, target)
    console.record(status="ok", path=str(target), key=name, value=read)


def warn_of_unknown(voice: str) -> None:
    """Warns of a voice that is neither saved nor one of the model that is set."""
    fields = all_fields()
    model = Layers("config", {}, fields, tolerant=True).origin(next(one for one in fields if one.name == "model"))[0]
    named = str(model or environment.EMBEDDED)
    if voice_files.is_blend(voice) or voice.endswith(voice_files.SUFFIX) or not is_here(named):
        return
    known = [*voice_files.names(), *(name for name, _, _ in speakers(named))]
    if voice.lower() not in [one.lower() for one in known]:
        close = nearest(voice, known)
        hint = f"omnitts config set voice {close}" if close else "omnitts voices list"
        console.warning(f"no voice '{voice[:80]}' is saved, and {named} has none of that name", hint=hint)


def unset(messages: Messages, name: str) -> None:
    """Remove one setting from your settings file, even a misspelt one."""
    target = user_file()
    before = text_of(target)
    text = without_key(before, name)
    field = None if text != before else find(name)
    if field is not None:
        name = field.key
        text = without_key(without_key(before, name), field.former_key)
    if text != before:
        save(target, text)
    console.note(f"removed {name} from {target}" if text != before else f"{name} was not set in {target}")
    if name in {one.key for one in all_fields()}:
        warn_of_stronger(find(name), target)
    console.record(status="ok", path=str(target), key=name)


def edit(messages: Messages) -> None:
    """Edit your settings file with $VISUAL or $EDITOR."""
    import shlex
    import subprocess

    target = user_file()
    editor = environment.variable("VISUAL") or environment.variable("EDITOR")
    if editor is None:
        raise UsageError("neither VISUAL nor EDITOR is set", hint=f"EDITOR=nano omnitts config edit   ({target})")
    make_folder(target.parent, MOVED)
    try:
        done = subprocess.run([*shlex.split(editor), str(target)], check=False)
    except (OSError, ValueError) as error:
        raise UsageError(
            f"cannot start the editor '{editor}'",
            cause=getattr(error, "strerror", None) or str(error),
            hint="EDITOR=nano omnitts config edit",
        ) from None
    if done.returncode:
        raise InputError(
            f"the editor '{editor}' ended with exit code {done.returncode}", hint=f"edit {target} yourself"
        )
    if target.is_file():
        layers.read(target)
        console.note(f"{target} is valid")
    console.record(status="ok", path=str(target))


def warn_of_stronger(field: Field, target: Path) -> None:
    """Warns if a stronger source overrides the user's file."""
    value, source = Layers("config", {}, all_fields(), tolerant=True).origin(field)
    stronger = [str(place) for place in places()[: places().index(target)]]
    if source in ("environment", *stronger):
        console.warning(f"{field.key} is still {shown(value)}, from {source}")


def tell_of_files() -> None:
    """The files that are read, strongest first."""
    for place in layers.places():
        state = "read" if layers.is_read(place) else "not found"
        console.note(f"{state}: {place}{of_project(place)}")


def of_project(place: Path) -> str:
    return "   (project file: may set how speech sounds, not files, models or devices)" if is_project(place) else ""


def resolved(field: Field, layers: Any) -> str | None:
    """The effective default of the model and the voice."""
    if field.name == "model":
        return environment.EMBEDDED
    model = layers.origin(next(one for one in all_fields() if one.name == "model"))[0]
    if field.name == "voice" and model in (None, environment.EMBEDDED):
        return next(iter(embedded_voices()), None)
    return None


def all_fields() -> list[Field]:
    return [field for options in SHARED for field in fields_of(options)]


def find(name: str) -> Field:
    """The option of that name, or an error with the nearest."""
    fields = {field.key: field for field in all_fields()}
    former = {field.former_key: field for field in fields.values() if field.former_key}
    if name in former:
        return former[name]
    if name not in fields:
        if name in all_names():
            tables = [f"[{section}]" for section in sections_with(name)]
            last = " or ".join([", ".join(tables[:-1]), tables[-1]][len(tables) == 1 :])
            hint = f"omnitts config edit   and write it below {last}"
            raise UsageError(f"'{name}' is not a setting of all commands", hint=hint)
        close = nearest(name, list(fields))
        hint = f"did you mean '{close}'?" if close else "omnitts config show"
        command, _, rest = name.partition(".")
        section = nearest(command, list(SECTIONS)) if rest else None
        if section:
            hint = f"omnitts config edit   and write {rest} below [{section}] in {user_file()}"
        raise UsageError(f"unknown setting '{name}'", hint=hint)
    return fields[name]


def sections_with(name: str) -> list[str]:
    """The commands that have this option; each has a table in settings files."""
    wanted = name.replace("-", "_")

    def has(row: Command) -> bool:
        own = any(one.name == wanted for one in row.own)
        return own or any(one.name == wanted or f"--{name}" in one.setting.spellings for one in row.settings)

    return [section for section in SECTIONS if any(map(has, rows_of([section])))]


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
    """A value as TOML. JSON strings are valid TOML, except for a bare DEL."""
    import json

    if isinstance(value, bool):
        return "true" if value else "false"
    text = json.dumps(list(value) if isinstance(value, tuple) else value, ensure_ascii=False)
    try:
        text.encode()
    except UnicodeEncodeError:
        raise UsageError(f"{value!r} is not UTF-8, and settings files are UTF-8 only") from None
    return text.replace("\x7f", "\\u007f")


def text_of(target: Path) -> str:
    """The text of the file, or nothing if there is none. Unknown keys are allowed, invalid TOML is not."""
    if not target.exists():
        return ""
    try:
        return settings_file.text_of(target)[0]
    except SettingsError as error:
        raise SettingsError(error.message, cause=error.cause, hint="omnitts config edit", where=error.where) from None


def save(target: Path, text: str) -> None:
    """Replaces the file in one step."""
    if target.exists() and not target.is_file():
        raise SettingsError(f"{target} is not a regular file, so it keeps no settings", hint="unset OMNITTS_CONFIG")
    make_folder(target.parent, MOVED)
    put(target, text.encode())
