"""What was meant by an option that does not exist, or by a word too many."""

import re
import shlex
from collections.abc import Iterable

from omnitts_cli.errors import UsageError
from omnitts_cli.settings.setting import nearest

RECORDING = re.compile(r"\S+\.(?:wav|flac|mp3|ogg|opus|m4a|mp4|aac|webm)", re.IGNORECASE)
OPTIONS_MEANT = {
    "--rate": "--speed 1.2   (times the usual rate)",
    "--ssml": "--input-format ssml",
    "--html": "--input-format html",
    "--article": "--input-format article",
    "--markdown": "--input-format md",
    "--ref-audio": 'omnitts clone -r CLIP "text"',
    "--reference": 'omnitts clone -r CLIP "text"',
    "--clone": 'omnitts clone -r CLIP "text"',
    "--description": 'omnitts design -i "a deep, slow man" "text"',
    "--desc": 'omnitts design -i "a deep, slow man" "text"',
    "--out": "-o FILE",
    "-w": "-o FILE",
    "--wav": "-o FILE",
    "--output-file": "-o FILE",
    "--text": 'omnitts say "text"',
    "--live": 'omnitts play --live "text"',
    "--karaoke": 'omnitts play --karaoke "text"',
    "--speaker": "-v NAME",
    "--list-voices": "omnitts voices list",
    "--verbosity": "--verbose",
    "--cuda": "-d cuda",
    "--gpu": "-d cuda",
    "--cpu": "-d cpu",
    "--pitch": 'omnitts design -i "a deep voice" "text"   (there is no --pitch)',
}
"""Options of other tools, and their names here."""


def unknown_option(path: str, option: str, given: list[str], known: Iterable[str], text: bool) -> UsageError:
    """The error for an option of `path`, such as "omnitts say". `known`: the options that it has; `text`: it takes
    text, which may begin with a dash.
    """
    meant = as_other_tools(option, given) or OPTIONS_MEANT.get(option)
    if meant:
        return UsageError(f"unknown option '{option}'", hint=meant)
    names = [name[2:] for name in known if name.startswith("--")]
    word = option.lstrip("-")
    part_of = [name for name in names if word in name.split("-")]  # --gap: --sentence-gap
    close = nearest(word, part_of or names) or next(iter(part_of), None)
    dash = f"   (for text that begins with a dash: {path} -- '{option}')" if text else ""
    return UsageError(f"unknown option '{option}'", hint=f"{f'--{close}' if close else f'{path} --help'}{dash}")


def as_other_tools(option: str, given: list[str]) -> str | None:
    """What -r means: words a minute in `say` of macOS, or a recording."""
    value = given[given.index(option) + 1] if option in given[:-1] else ""
    if option != "-r":
        return None
    return f"--wpm {value}" if value.isdecimal() else f'omnitts clone -r {shlex.quote(value or "CLIP")} "text"'


def unexpected(path: str, words: list[str], known: Iterable[str]) -> UsageError:
    """The error for words after those that a command takes."""
    found = " ".join(words)
    if RECORDING.fullmatch(found) and "--ref-audio" in known:
        return UsageError(f"-r is missing before the clip {found}", hint=f"{path} NAME -r {found}")
    return UsageError(f"unexpected: {found}", hint=f"{path} --help")
