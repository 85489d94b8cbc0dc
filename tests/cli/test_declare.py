"""What is typed where a command should stand: the version, help on either stream, and suggestions. Typer answers."""

import subprocess
import sys

import pytest
from command import Omnitts

from omnitts_cli.cli import declare


def test_without_a_command_help_goes_to_stderr(omnitts: Omnitts) -> None:
    for words in ([], ["voices"], ["--"], ["voices", "--"]):
        done = omnitts(*words)
        assert done.code == 2 and done.out == b"" and "Commands:" in done.err
        assert omnitts(*[one for one in words if one != "--"], "--help").out.decode().strip() == done.err.strip()


def test_the_option_that_comes_first_counts(omnitts: Omnitts) -> None:
    assert omnitts("-Vh").out == omnitts("--version", "say").out == omnitts("-V").out
    assert omnitts("-hV").out.startswith(b"Usage: omnitts [OPTIONS] COMMAND")


@pytest.mark.parametrize(("typed", "message", "hint"), [
    ("-- say hi", "no such command 'say'", "omnitts say hi"),
    ("voices -- list", "no such command 'list'", "omnitts voices list"),
    ("voices delete x", "no such command 'delete'", "omnitts voices rm x"),
    ("voices zzz", "no such command 'zzz'", "omnitts voices --help"),
    ("man", "no such command 'man'", "omnitts help --man ~/.local/share/man"),
    ("speak -x y", "no such command 'speak'", "omnitts say -x y"),
    ("-q say hi", "unknown option '-q'", "omnitts say -q   (options come after the command)"),
    ("--speed 2 hi", "unknown option '--speed'", "omnitts say --speed 2 hi"),
    ("voices -v", "unknown option '-v'", "omnitts --version"),
    ("voices --help=3", "option '--help' does not take a value", "omnitts voices --help"),
    ("--out x", "unknown option '--out'", "-o FILE"),
])  # fmt: skip
def test_what_was_meant(omnitts: Omnitts, typed: str, message: str, hint: str) -> None:
    done = omnitts(*typed.split())
    assert done.code == 2 and done.err == f"error: {message}\n  try: {hint}\n"


def test_a_command_is_declared_alone_and_all_of_them_where_none_is_named() -> None:
    assert list(declare.asked_for(["say", "clone"])) == ["say"]
    for arguments in ([], ["--help"], ["sya"], ["-V", "say"]):
        assert tuple(declare.asked_for(arguments)) == tuple(declare.NAMES)
    # a shell asks for what could stand there
    assert tuple(declare.asked_for(["say"], completing=True)) == tuple(declare.NAMES)


@pytest.mark.parametrize("heavy, words", [
    ("typer", "--version"), ("typer", "say --dry-run Hi."), ("typer", "help voices"),
    ("pydantic", "say --help"), ("pydantic", "voices"),
])  # fmt: skip
def test_commands_do_not_import_typer_and_help_is_without_pydantic(heavy: str, words: str) -> None:
    code = f"import sys; from omnitts_cli.cli.app import run; run({words.split()}); assert '{heavy}' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
