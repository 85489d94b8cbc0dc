"""--help: what most people need on one screen, everything else behind --help-all, as wide as the terminal."""

import pytest
from command import Omnitts

from omnitts_cli.cli.commands import COMMANDS, PROGRAM
from omnitts_cli.cli.run import Command, Option
from omnitts_cli.cli.usage import HEADINGS
from omnitts_cli.settings.setting import ALSO


@pytest.mark.parametrize("row", [PROGRAM, *COMMANDS], ids=lambda row: row.path)
def test_help_fits_one_screen(omnitts: Omnitts, row: Command) -> None:
    lines = omnitts(*row.words, "--help").out.decode().splitlines()
    assert len(lines) <= 48
    assert max(map(len, lines)) <= 80


@pytest.mark.parametrize("row", [row for row in COMMANDS if row.body], ids=lambda row: row.path)
def test_help_all_shows_every_option(omnitts: Omnitts, row: Command) -> None:
    spelled = [one for own in row.own if isinstance(own, Option) for one in own.flags.split()]
    settings = [field for field in row.settings if field.name not in row.rules.hidden]  # a refused one is hidden
    spelled += [one for field in settings for both in field.setting.spellings for one in both.split("/")]
    every = "--help-all" if settings else "--help"  # a command without settings shows all there
    short, long = (omnitts(*row.words, how).out.decode() for how in ("--help", every))
    missing = [one for one in spelled if one not in long.replace(",", " ").split()]
    assert missing == [one for one in spelled if one[2:] in ALSO]
    hidden = {line for line in long.splitlines() if line.startswith("  -")} - set(short.splitlines())
    assert ("--help-all: " in short) == bool(len(hidden) > 1)


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
