"""What is typed after the name of a command is read as other programs read it; the table's options are all of them."""

from typing import Any

import pytest

from omnitts_cli.cli.commands import COMMANDS
from omnitts_cli.cli.run import Argument, Command, read, spellings
from omnitts_cli.errors import UsageError

ROWS = {row.name: row for row in COMMANDS}


def typed(name: str, *arguments: str) -> dict[str, Any]:
    """What was typed, without what was not."""
    row: Command = ROWS[name]
    settings = [field for group in row.fields.values() for field in group]
    found = read(row, spellings(row, settings), list(arguments))
    return {option: value for option, value in found.items() if value not in (None, [])}


@pytest.mark.parametrize(("arguments", "found"), [
    (["Hello", "-o", "a.wav"], {"words": ["Hello"], "output": "a.wav"}),
    (["-oa.wav", "Hello", "you"], {"words": ["Hello", "you"], "output": "a.wav"}),
    (["--speed=1.2", "--output", "-"], {"speed": "1.2", "output": "-"}),
    (["-qo", "a.wav"], {"quiet": True, "output": "a.wav"}),
    (["-qoa=b"], {"quiet": True, "output": "a=b"}),
    (["--no-safe"], {"safe": False}),
    (["-o", "--speed"], {"output": "--speed"}),  # the word after an option is its text
    (["-", "--", "-o", "--"], {"words": ["-", "-o", "--"]}),
    (["-f", "a.txt", "-f", "b.txt"], {"file": ["a.txt", "b.txt"]}),
    (["--speed", ""], {"speed": ""}),
    (["-q", "--help"], {"quiet": True, "help": True}),
])  # fmt: skip
def test_what_was_typed(arguments: list[str], found: dict[str, Any]) -> None:
    assert typed("say", *arguments) == found


def test_words_are_dealt_to_the_arguments_in_order() -> None:
    assert typed("voices blend", "NEW", "A:60", "B:40") == {"name": "NEW", "parts": ["A:60", "B:40"]}
    assert typed("config set", "volume", "-6") == {"name": "volume", "value": "-6"}
    for row in COMMANDS:
        many = [one.many for one in row.own if isinstance(one, Argument)]
        assert many == sorted(many), "only the last may take several words"


@pytest.mark.parametrize(("name", "arguments", "hint"), [
    ("say", ["-o"], "omnitts say --help"), ("say", ["--quiet=yes"], "omnitts say --help"),
    ("say", ["--sped", "1"], "--speed"), ("say", ["-qz"], "omnitts say --help"),
    ("voices rename", ["OLD"], "omnitts voices rename --help"),
    ("voices rename", ["OLD", "NEW", "MORE"], "omnitts voices rename --help"),
    ("config set", ["volume", "-6", "more"], "omnitts config set --help"),
    ("say", ["-v", "A", "--voice", "B"], "-v A:50,B:50"),
])  # fmt: skip
def test_what_cannot_be_read_is_an_error_with_a_next_step(name: str, arguments: list[str], hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        typed(name, *arguments)
    assert hint in str(caught.value.hint)


def test_no_two_options_of_a_command_are_spelled_alike() -> None:
    for row in COMMANDS:
        settings = [field for group in row.fields.values() for field in group]
        flags = [flag for one in row.own if not isinstance(one, Argument) for flag in one.flags.split()]
        flags += [flag for one in settings for spelled in one.setting.spellings for flag in spelled.split("/")]
        assert len(flags) == len({*flags}), row.name
