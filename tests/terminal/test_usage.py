"""--help: what most people need on one screen, everything else behind --help-all, as wide as the terminal."""

from collections.abc import Iterator
from typing import Any

import pytest
from command import Omnitts
from typer.main import get_command

from omnitts_cli.cli.declare import NAMES, app_of
from omnitts_cli.settings.table import former_options
from omnitts_cli.terminal.usage import HEADINGS


def paths(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Every command and group of commands, as typed."""
    yield path
    for name, child in getattr(command, "commands", {}).items():
        yield from paths(child, (*path, name))


ALL = list(paths(get_command(app_of(NAMES))))
LEAVES = [path for path in ALL if not any(other[: len(path)] == path != other for other in ALL)]


@pytest.mark.parametrize("path", ALL, ids=" ".join)
def test_help_fits_one_screen(omnitts: Omnitts, path: tuple[str, ...]) -> None:
    lines = omnitts(*path, "--help").out.decode().splitlines()
    assert len(lines) <= 48
    assert max(map(len, lines)) <= 80


@pytest.mark.parametrize("path", LEAVES, ids=" ".join)
def test_help_all_shows_every_option(omnitts: Omnitts, path: tuple[str, ...]) -> None:
    command: Any = get_command(app_of(NAMES))
    for name in path:
        command = command.commands[name]
    options = [
        one for one in command.params if one.param_type_name == "option" and not one.hidden
    ]  # a refused one is hidden
    spelled = [one for param in options for one in param.opts]
    every = "--help-all" if "--help-all" in spelled else "--help"  # a command without settings shows all there
    short, long = (omnitts(*path, how).out.decode() for how in ("--help", every))
    shown = [one for one in spelled if one in long.replace(",", " ").split()]
    assert [one for one in spelled if one not in shown] == [
        one for one in spelled if one in (*former_options(), "--help-all")
    ]
    hidden = {line for line in long.splitlines() if line.startswith("  -")} - set(short.splitlines())
    assert ("--help-all: " in short) == bool(len(hidden) > 1)


def test_the_list_of_commands_has_their_own_lines() -> None:
    listed: Any = get_command(app_of(NAMES, listed=True))
    whole: Any = get_command(app_of(NAMES))
    for name in NAMES:
        assert listed.commands[name].get_short_help_str(99) == whole.commands[name].get_short_help_str(99), name


def test_the_most_needed_options_come_first_in_their_group(omnitts: Omnitts) -> None:
    text = omnitts("say", "--help-all").out.decode()
    headings = [line.rstrip(":") for line in text.splitlines() if line.endswith(":") and not line.startswith(" ")]
    assert headings == ["Arguments", *(one for one in HEADINGS.values() if one in headings)]
    assert text.index("--output PATH") < text.index("--volume") < text.index("Machine:")
    short = omnitts("say", "--help").out.decode()
    for option in ("-f, --file", "-v, --voice", "-o, --output", "-p, --play", "-s, --speed", "--seed", "--json"):
        assert option in short
    assert "--repetition-penalty" not in short and "--help-all: " in short


def test_help_is_as_wide_as_the_terminal(omnitts: Omnitts, monkeypatch: pytest.MonkeyPatch) -> None:
    for columns in (40, 80, 120):
        monkeypatch.setenv("COLUMNS", str(columns))
        text = omnitts("bench", "--help-all").out.decode()
        options = [line for line in text.split("\n\n", 3)[3].splitlines() if not line.startswith("  -")]
        assert max(map(len, options)) <= max(columns, 56)


@pytest.mark.parametrize(
    ("path", "usage"),
    [
        (("codec", "decode"), "[OPTIONS] CODES [SOUND]"),
        (("voices", "blend"), "[OPTIONS] NAME A:60 B:40..."),
        (("help",), "[OPTIONS] [TOPIC|COMMAND]..."),
    ],
)
def test_a_usage_line_has_one_pair_of_brackets(omnitts: Omnitts, path: tuple[str, ...], usage: str) -> None:
    first = omnitts(*path, "--help").out.decode().splitlines()[0]
    assert first == f"Usage: omnitts {' '.join(path)} {usage}"
