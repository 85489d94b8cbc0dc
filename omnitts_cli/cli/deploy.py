"""omnitts serve --print-unit and --print-compose: the files of deploy/, with the path of this installation."""

from __future__ import annotations

from pathlib import Path

from omnitts_cli import child
from omnitts_cli.errors import UsageError
from omnitts_cli.terminal.console import console

FILES = Path(__file__).parent.parent / "deploy"
UNITS = {"user": "user.service", "socket": "user.socket", "system": "system.service"}
COMPOSE, DOCKERFILE = "compose.yaml", "Dockerfile"
PROGRAM = "@PROGRAM@"
SPECIAL = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "%": "%%", "$": "$$"}
"""What systemd would replace inside quotes."""


def show(unit: str | None, compose: bool) -> None:
    """Prints a systemd unit, or compose.yaml."""
    if unit is not None and compose:
        raise UsageError("use one of --print-unit and --print-compose", hint="leave one of them out")
    if unit is not None and unit not in UNITS:
        raise UsageError(f"--print-unit '{unit}' is not one of {', '.join(UNITS)}", hint="--print-unit user")
    name = COMPOSE if unit is None else UNITS[unit]
    text = (FILES / name).read_text("utf-8").replace(PROGRAM, program())
    console.result(text.rstrip("\n"))
    console.record(status="ok", file=name, text=text)


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
