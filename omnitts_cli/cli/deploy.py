"""omnitts serve --print-unit and --print-compose: the files of deploy/, with the path of this installation."""

import json
import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from omnitts_cli import child
from omnitts_cli.errors import UsageError
from omnitts_cli.settings.commands import Serving
from omnitts_cli.settings.setting import Field, fields_of
from omnitts_cli.settings.table import Machine, Network
from omnitts_cli.terminal.console import console

FILES = Path(__file__).parent.parent / "deploy"
UNITS = {"user": "user.service", "socket": "user.socket", "system": "system.service"}
COMPOSE, DOCKERFILE = "compose.yaml", "Dockerfile"
PROGRAM = "@PROGRAM@"
OPTIONS = [field for group in (Serving, Machine, Network) for field in fields_of(group)]
"""What may be typed beside; the options of messages are for the printing itself."""
PATHS = ("PATH", "DIR")
SPECIAL = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "%": "%%", "$": "$$"}
"""What systemd would replace inside quotes."""


def show(unit: str | None, compose: bool, typed: Mapping[str, Any]) -> None:
    """Prints a systemd unit, or compose.yaml, with the options that were `typed` beside."""
    if unit is not None and compose:
        raise UsageError("use one of --print-unit and --print-compose", hint="leave one of them out")
    if unit is not None and unit not in UNITS:
        raise UsageError(f"--print-unit '{unit}' is not one of {', '.join(UNITS)}", hint="--print-unit user")
    options = {field: typed[field.name] for field in OPTIONS if typed.get(field.name) not in (None, [])}
    name = COMPOSE if unit is None else UNITS[unit]
    text = (FILES / name).read_text("utf-8").replace(PROGRAM, program())
    if unit is None:
        text = in_container(text, options)
    elif unit == "socket":
        text = with_addresses(text, options)
    else:
        more = "".join(f" {quoted(word)}" for word in words_of(options))
        text = re.sub("^ExecStart=.*", lambda line: line[0] + more, text, flags=re.MULTILINE)
    console.result(text.rstrip("\n"))
    console.record(status="ok", file=name, text=text)


def words_of(options: Mapping[Field, Any]) -> list[str]:
    """Options as they are typed; files and folders as absolute paths, since a service starts in another folder."""
    words = list[str]()
    for field, value in options.items():
        option = field.setting.option_for(value)
        for one in listed(value):
            words += (
                [option]
                if isinstance(one, bool)
                else [option, str(Path(one).absolute()) if is_path(field, one) else one]
            )
    return words


def listed(value: Any) -> list[Any]:
    """The values of an option, which may be repeatable."""
    return value if isinstance(value, list) else [value]


def is_path(field: Field, word: str) -> bool:
    """Whether the value of an option is a file or a folder: always, or as one of several things that it may be."""
    takes = field.setting.takes
    return takes in PATHS or (takes == "PATH|off" and word != "off") or (takes == "NAME|DIR" and Path(word).is_dir())


def refuse(options: Mapping[Field, Any], names: Collection[str], file: str, hint: str) -> None:
    """Refuses options that a file has no place for."""
    wrong = [field.setting.option for field in options if field.name in names]
    if wrong:
        raise UsageError(f"{file} has no place for {', '.join(wrong)}", hint=hint)


def in_container(text: str, options: Mapping[Field, Any]) -> str:
    """compose.yaml with these options for both services."""
    paths = {field.name for field, value in options.items() for one in listed(value) if is_path(field, one)}
    fixed = {"host", "port", "socket", *paths}
    refuse(options, fixed, COMPOSE, f"edit ports and volumes in {COMPOSE}")
    words = "".join(f", {json.dumps(word)}" for word in words_of(options)).replace("$", "$$")
    if not words:
        return text
    command = f'    command: ["serve", "--host", "0.0.0.0", "--socket", "off"{words}]\n'
    text = re.sub('^(    command: .*"1.7b")]$', lambda line: f"{line[1]}{words}]", text, flags=re.MULTILINE)
    return text.replace("    image: omnitts:cpu\n", "    image: omnitts:cpu\n" + command)


def with_addresses(text: str, options: Mapping[Field, Any]) -> str:
    """The socket unit with these addresses."""
    given = {field.name: value for field, value in options.items()}
    refuse(options, given.keys() - {"host", "port", "socket"}, UNITS["socket"], "--print-unit user ...")
    host, port, own = given.get("host", "127.0.0.1"), given.get("port", "8000"), given.get("socket")
    text = text.replace("127.0.0.1:8000", f"[{host}]:{port}" if ":" in host else f"{host}:{port}")
    if own == "off":
        return re.sub("^# commands of this user.*\n.*\n", "", text, flags=re.MULTILINE)
    return text if own is None else text.replace("%t/omnitts/serve.sock", str(Path(own).absolute()).replace("%", "%%"))


def program() -> str:
    """The command that starts this program, for ExecStart."""
    words = child.command("omnitts_cli.__main__")
    script = Path(words[0]).with_name("omnitts")
    if script.is_file():
        words = [str(script)]
    return " ".join(quoted(word) for word in words)


def quoted(word: str) -> str:
    """A word of a command line in a unit."""
    return '"' + "".join(SPECIAL.get(letter, letter) for letter in word) + '"'
