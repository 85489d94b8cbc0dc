"""What is typed in the place of a command: help, the version, and words that name none."""

from __future__ import annotations

import shlex
from collections import deque
from collections.abc import Collection

from omnitts_cli.cli.commands import NAMES, PACKAGE, below, check, named, rows_of
from omnitts_cli.cli.meant import unknown_option
from omnitts_cli.cli.run import Command, options_in, spellings
from omnitts_cli.cli.usage import help_text, show
from omnitts_cli.errors import UsageError
from omnitts_cli.settings.setting import nearest
from omnitts_cli.terminal.console import console

LONGEST_HINT = 100
WORDS_MEANT = {
    "version": "omnitts --version",
    "list": "omnitts voices list",
    "ls": "omnitts voices list",
    "speakers": "omnitts voices list",
    "settings": "omnitts config show",
    "check": "omnitts doctor",
    "download": "omnitts models pull NAME",
    "pull": "omnitts models pull NAME",
    "benchmark": "omnitts bench",
    "man": "omnitts help --man ~/.local/share/man",
}
"""Words typed instead of a command, and the command that was meant."""

SAME = {"delete": "rm", "remove": "rm", "add": "save", "create": "save", "download": "pull", "list": "show",
        "fetch": "pull", "get": "pull", "install": "pull"}  # fmt: skip
"""Names that other programs have for commands of ours."""

VERBS = ("tts", "speak", "talk", "read", "generate", "synthesize", "synthesise", "run")
"""Words typed instead of `say`; what follows them is the text."""


def answer(arguments: list[str]) -> int:
    """Shows the help of the program or of a group of commands, or the version; raises UsageError for other words.
    Returns the exit code.
    """
    row = named(arguments)
    wanted, given, known = list[str](), arguments[len(row.words) :], spellings(row, ())
    words = deque(given)
    while words and words[0] != "--" and (options := [*options_in(words[0], known)]):
        for name, text in options:
            if name not in known:
                raise unknown(row, name, given, known)
            if text is not None:
                raise UsageError(f"option '{name}' does not take a value", hint=f"{row.path} --help")
            wanted.append(known[name].name)
        words.popleft()
    if wanted[:1] == ["version"]:
        show_version()
    elif wanted:
        show(row)
    elif left := [one for at, one in enumerate(words) if at or one != "--"]:
        check(rows_of(NAMES))
        raise UsageError(f"no such command '{left[0]}'", hint=suggestion(row, left))
    else:
        console.note(help_text(row))
        return 2
    return 0


def unknown(row: Command, option: str, given: list[str], known: Collection[str]) -> UsageError:
    """The error for an option in the place of a command: it belongs after one, or to none."""
    names = [one.words[-1] for one in below(row)]
    command = next((word for word in given if word in names), None)
    say, meant = named(["say"]), f"omnitts say {shlex.join(given)}"
    if command:
        hint = f"{row.path} {command} {option}   (options come after the command)"
    elif given == ["-v"]:
        hint = "omnitts --version"
    elif not row.name and 1 < len(given) and len(meant) <= LONGEST_HINT and option in spellings(say, say.settings):
        hint = meant
    else:
        return unknown_option(row.path, option, [], known, text=False)
    return UsageError(f"unknown option '{option}'", hint=hint)


def suggestion(row: Command, words: list[str]) -> str:
    """What was meant by words that name no command below a row."""
    word, speaks = words[0].lower(), not row.name
    if speaks and len(words) == 1 and word in WORDS_MEANT:
        return WORDS_MEANT[word]
    if speaks and word in VERBS:
        text = shlex.join(words[1:]) if any(one.startswith("-") for one in words) else f'"{" ".join(words[1:])}"'
        return f"omnitts say {text}" if 1 < len(words) and len(text) <= LONGEST_HINT else 'omnitts say "text"'
    names = [one.words[-1] for one in below(row) if one.name != "help"]  # "hello" is text to speak
    close = SAME[word] if SAME.get(word) in names and word not in names else nearest(word, names)
    if close:
        meant = f"{row.path} {shlex.join([close, *words[1:]])}"
        return meant if len(meant) <= LONGEST_HINT else f"{row.path} {close}"
    return f'omnitts say "{" ".join(words)[:60]}"' if speaks else f"{row.path} --help"


def show_version() -> None:
    """--version"""
    from importlib.metadata import PackageNotFoundError, version

    try:
        words = version("omnitts-cli")
    except PackageNotFoundError:
        words = f"(not installed; run from {PACKAGE.parent})"
    console.stdout.claim()
    console.stdout.line(f"omnitts {words}")
