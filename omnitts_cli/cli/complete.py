"""What a shell completes: commands, options, names of voices, models, presets, keys and pages. Shells ask
through the scripts of `omnitts completion`, which are in deploy/.
"""

from __future__ import annotations

import json
import shlex

from omnitts_cli.cli.commands import TOPICS, below, named
from omnitts_cli.cli.run import HELP, HELP_ALL, Argument, Command, Option, load, options_in, spellings
from omnitts_cli.cli.usage import meaning_of, summary
from omnitts_cli.errors import UsageError
from omnitts_cli.settings import presets
from omnitts_cli.settings.environment import EMBEDDED, variable
from omnitts_cli.settings.setting import Field, fields_of
from omnitts_cli.settings.table import SHARED
from omnitts_cli.speech import voice_files
from omnitts_cli.terminal.console import console
from omnitts_cli.weights.find import TINY
from omnitts_cli.weights.released import ALIASES, RELEASED, SIZES

SHELLS = {"bash": "bash", "zsh": "zsh", "fish": "fish", "powershell": "ps1", "pwsh": "ps1"}
"""The shells, and how the names of their scripts end."""
TYPED, BEGUN, ACTION = "_TYPER_COMPLETE_ARGS", "_TYPER_COMPLETE_WORD_TO_COMPLETE", "_TYPER_COMPLETE_FISH_ACTION"
"""Variables of the scripts; those that are installed since Typer wrote them have the same."""
COMPLETE = {"models": "model_names", "voices": "voice_names", "presets": "preset_names"}
"""The function for a setting, by its `complete`."""
Found = list[tuple[str, str]]
"""What may stand there, each with its meaning."""


def answer(asks: str) -> int:
    """Prints what a shell asks for. Returns the exit code."""
    shell = asks.removeprefix("complete_")
    if shell not in SHELLS:
        raise UsageError(f"no completion for '{shell}'", hint="one of: " + ", ".join(SHELLS))
    found = completions(*asked(shell))
    if shell == "fish" and variable(ACTION) == "is-args":
        return int(not found)
    lines = "\n".join(WRITTEN[SHELLS[shell]](value, " ".join(meaning.split())) for value, meaning in found)
    if shell == "zsh":
        lines = f"_arguments '*: :(({lines}))'" if found else "_files"
    console.stdout.claim()
    if lines:
        console.stdout.line(lines)
    return 0


def in_zsh(words: str) -> str:
    """Words inside double quotes inside single ones, where a colon would end them."""
    signs = {'"': '""', "'": "''", "$": "\\$", "`": "\\`", ":": "\\\\:"}
    return '"' + "".join(signs.get(sign, sign) for sign in words) + '"'


WRITTEN = {
    "bash": lambda value, meaning: value,
    "zsh": lambda value, meaning: in_zsh(value) + (f":{in_zsh(meaning)}" if meaning else ""),
    "fish": lambda value, meaning: f"{value}\t{meaning}".rstrip(),
    "ps1": lambda value, meaning: f"{value}:::{meaning or ' '}",
}
"""A completion as a shell reads it."""


def asked(shell: str) -> tuple[list[str], str]:
    """The words after `omnitts`, and the beginning of the one to complete."""
    if shell == "bash":
        words, at = split(variable("COMP_WORDS") or ""), int(variable("COMP_CWORD") or 0)
        return words[1:at], words[at] if at < len(words) else ""
    line = variable(TYPED) or ""
    words = split(line)[1:]
    begun = variable(BEGUN) is not None if SHELLS[shell] == "ps1" else not line.endswith(" ")
    return (words[:-1], words[-1]) if words and begun else (words, "")


def split(line: str) -> list[str]:
    """The words of a line, in which a quote may still be open."""
    found, left = list[str](), shlex.shlex(line, posix=True)
    left.whitespace_split, left.commenters = True, ""
    try:
        for word in left:
            found.append(word)
    except ValueError:
        found.append(left.token)
    return found


def completions(words: list[str], begun: str) -> Found:
    """What may stand after these words, and begins so."""
    row = named(words)
    option, arguments, ended = typed(row, words[len(row.words) :])
    name, equals, text = begun.partition("=")
    if option is None and equals and name.startswith("--"):
        option, begun = name, text
    if option is not None:
        found = values_of(row, option, begun)
    elif begun.startswith("-") and not ended:
        found = options_of(row)
    elif not row.body:
        found = [(one.words[-1], summary(one.help)) for one in below(row)]
    else:
        takes = [one for one in row.own if isinstance(one, Argument)]
        now = next((one for at, one in enumerate(takes) if one.many or at == arguments), None)
        found = [(value, "") for value in load(f"cli.complete:{now.complete}")(begun)] if now and now.complete else []
    return [one for one in found if one[0].startswith(begun)]


def typed(row: Command, words: list[str]) -> tuple[str | None, int, bool]:
    """The option that the next word is the value of, the number of arguments before it, and whether options have
    ended."""
    known, option, arguments, ended = spellings(row, row.settings), None, 0, False
    for word in words:
        options = [] if ended or option else [*options_in(word, known)]
        if option:
            option = None
        elif word == "--" and not ended:
            ended = True
        elif options:
            name, text = options[-1]
            option = name if name in known and known[name].switch is None and text is None else None
        else:
            arguments += 1
    return option, arguments, ended


def options_of(row: Command) -> Found:
    """The options of a row that its help shows."""
    found = [(flag, one.help) for one in row.own if isinstance(one, Option) for flag in one.flags.split()]
    for field in row.settings:
        if field.name not in row.rules.hidden:
            meaning, _ = meaning_of(row, field)
            found += [(flag, meaning) for both in field.setting.spellings for flag in both.split("/")]
    return [
        *found,
        *((flag, "Show this message.") for flag in HELP),
        *((flag, "Show all options.") for flag in HELP_ALL if row.settings),
    ]


def values_of(row: Command, option: str, begun: str) -> Found:
    """The values of an option, where they are known."""
    name = spellings(row, row.settings)[option].name
    field: Field | None = next((one for one in row.settings if one.name == name), None)
    if field is None:
        return []
    known = COMPLETE.get(field.setting.complete)
    return [(value, "") for value in (load(f"cli.complete:{known}")(begun) if known else field.setting.kind.choices)]


def topic_names(incomplete: str) -> list[str]:
    return [name for name in TOPICS if name.startswith(incomplete)]


def shell_names(incomplete: str) -> list[str]:
    return [name for name in SHELLS if name.startswith(incomplete)]


def preset_names(incomplete: str) -> list[str]:
    return [name for name in presets.names() if name.startswith(incomplete)]


def key_names(incomplete: str) -> list[str]:
    """The settings of all commands, as `omnitts config` names them."""
    return [field.key for group in SHARED for field in fields_of(group) if field.key.startswith(incomplete)]


def embedded_voices() -> list[str]:
    """The voices of the embedded model, default first; read from its config, as importing its family takes seconds."""
    config = TINY / "config.json"
    return list(json.loads(config.read_text("utf-8"))["omnitts"]["voices"]) if config.is_file() else []


def saved_names(incomplete: str) -> list[str]:
    return [name for name in voice_files.names() if name.startswith(incomplete)]


def voice_names(incomplete: str) -> list[str]:
    """The saved voices and those of the embedded model."""
    return [name for name in [*voice_files.names(), *embedded_voices()] if name.startswith(incomplete)]


def model_names(incomplete: str) -> list[str]:
    return [name for name in (EMBEDDED, "0.6b", "1.7b", "omni") if name.startswith(incomplete)]


def hub_names(incomplete: str) -> list[str]:
    """The models that can be downloaded: bare sizes, and each variant."""
    return [name for name in (*SIZES, *RELEASED, *ALIASES) if name.startswith(incomplete)]
