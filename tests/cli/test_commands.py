"""The table of commands: every row has its body, help needs none of them, and a wrong row is an error in words."""

import inspect
import subprocess
import sys
from dataclasses import replace
from typing import get_type_hints

import pytest
from command import Omnitts

from omnitts_cli.cli import commands, declare
from omnitts_cli.cli.commands import COMMANDS, NAMES, check
from omnitts_cli.cli.declare import COMPLETE
from omnitts_cli.cli.job import Job, ModelOpener
from omnitts_cli.cli.run import JOB, OPENER, Argument, Command, load
from omnitts_cli.errors import OmniError
from omnitts_cli.settings.file import SECTIONS

BODIES = [row for row in COMMANDS if row.body]


def test_a_command_is_in_the_table_once() -> None:
    names = [row.name for row in COMMANDS]
    assert len(names) == len({*names})
    check(COMMANDS)
    above = {row.name for row in COMMANDS if not row.body}
    assert above == {row.section for row in COMMANDS if " " in row.name}


@pytest.mark.parametrize("row", BODIES, ids=lambda row: row.name)
def test_a_body_takes_what_its_row_says(row: Command) -> None:
    body = load(row.body)
    taken = inspect.signature(body).parameters
    named = {*row.groups, *(one.name for one in row.own), *(["typed"] if row.rules.as_typed else [])} - {"intent"}
    named = named - OPENER | {"opener"} if named >= OPENER else named
    named = named - JOB | {"job"} if named >= JOB else named
    assert {*taken} == named
    assert body.__module__ == f"omnitts_cli.{row.body.partition(':')[0]}", "it stands where its row says"
    hints = get_type_hints(body)
    assert all(
        hints[name] is kind for name, kind in {**row.types, "job": Job, "opener": ModelOpener}.items() if name in named
    )
    for one in (one for one in row.own if one.name in named):
        many, needed = isinstance(one, Argument) and one.many, isinstance(one, Argument) and one.required
        switch = not isinstance(one, Argument) and not one.metavar
        base = bool if switch else list[str] if many else str
        assert hints[one.name] in ((base,) if needed or switch or one.default is not None else (base | None,))


def test_what_completes_a_word_and_settings_of_every_command_exist() -> None:
    own = {one.complete for row in COMMANDS for one in row.own if isinstance(one, Argument) and one.complete}
    for name in {*own, *COMPLETE.values()}:
        assert load(f"cli.complete:{name}")("qqq") == []
    assert {*SECTIONS} == {*NAMES} - {"completion", "help"}


HELPS = """
import sys
from omnitts_cli.cli.app import run
from omnitts_cli.cli.commands import COMMANDS
for row in COMMANDS:
    assert run([*row.name.split(), "--help-all" if row.groups else "--help"]) == 0
assert run(["--help"]) == 0
print("LOADED", {row.body for row in COMMANDS if "omnitts_cli." + row.body.partition(":")[0] in sys.modules})
"""


def test_help_loads_no_body() -> None:
    done = subprocess.run([sys.executable, "-c", HELPS], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("Usage: omnitts ") == len(COMMANDS) + 1
    assert done.stdout.endswith("LOADED set()\n")


@pytest.mark.parametrize("body", ["cli.nowhere:say", "cli.say:shout"])
def test_a_row_without_its_body_is_an_error_at_once(
    omnitts: Omnitts, monkeypatch: pytest.MonkeyPatch, body: str
) -> None:
    wrong = replace(COMMANDS[0], body=body)
    with pytest.raises(OmniError, match="say"):
        check([wrong])
    monkeypatch.setattr(commands, "COMMANDS", (wrong, *COMMANDS[1:]))
    for arguments in (["say", "Hello"], ["say", "--help"], ["sya"]):
        done = omnitts(*arguments)
        assert done.code == OmniError.exit_code and not done.out
        module, _, name = body.partition(":")
        assert f"{module.replace('.', '/')}.py" in done.err and f"'{name}'" in done.err and "commands.py" in done.err
    assert omnitts("doctor", "--help").code == 0, "a command whose row is right runs"


def test_a_new_row_is_a_new_command(omnitts: Omnitts, monkeypatch: pytest.MonkeyPatch) -> None:
    shells = next(row for row in COMMANDS if row.name == "completion")
    monkeypatch.setattr(commands, "COMMANDS", (*COMMANDS, replace(shells, name="shells", help="Another name.")))
    monkeypatch.setattr(declare, "NAMES", (*NAMES, "shells"))
    assert omnitts("shells", "bash").out == omnitts("completion", "bash").out != b""
    assert "shells" in omnitts("--help").out.decode() and "Another name." in omnitts("shells", "--help").out.decode()
