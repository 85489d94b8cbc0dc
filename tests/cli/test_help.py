"""omnitts help: pages from the package, for people and for pipes, and examples that name real commands and options."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from command import Omnitts
from typer.main import get_command

from omnitts_cli.cli import help
from omnitts_cli.cli.declare import NAMES, app_of

HOUSE = Path(__file__).parent.parent.parent
PAGES = {path.stem: path.read_text("utf-8") for path in help.PAGES.glob("*.md")}
DOCUMENTS = {**PAGES, "README": (HOUSE / "README.md").read_text("utf-8")}
EXAMPLE = re.compile(r"(?:^|[|;&(] *|`)(omnitts(?: [^|;&`#\n]+)?)", re.MULTILINE)


def test_every_page_is_listed_with_one_line(omnitts: Omnitts) -> None:
    assert set(help.TOPICS) == set(PAGES)
    lines = omnitts("help").out.decode().splitlines()
    listed = {line.split()[0]: line.split(maxsplit=1)[1] for line in lines if line.startswith("  ")}
    assert list(listed) == list(help.TOPICS)
    assert max(map(len, lines)) <= 80
    for topic, text in PAGES.items():
        assert text.startswith(f"# {topic}: {listed[topic]}\n")


@pytest.mark.parametrize("topic", help.TOPICS)
def test_a_page_in_a_pipe_is_plain_text_of_80_columns(omnitts: Omnitts, topic: str) -> None:
    done = omnitts("help", topic)
    text = done.out.decode()
    assert done.code == 0 and done.err == ""
    assert text.startswith(f"{topic}: ")
    assert not re.search(r"\033|^#|\*\*|```| $|\n\n\n", text, re.MULTILINE)
    assert max(map(len, text.splitlines())) <= 80
    for example in re.findall(r"^```\w*\n(.*?)^```", PAGES[topic], re.MULTILINE | re.DOTALL):
        assert all(f"    {line}\n" in text for line in example.splitlines() if line)  # never wrapped


def test_a_page_on_a_terminal_has_colour_and_its_width(tmp_path: Path, omnitts: Omnitts, monkeypatch: Any) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr("omnitts_cli.terminal.console.Stdout.is_terminal", lambda self: True)
    monkeypatch.setenv("FORCE_COLOR", "1")
    coloured = omnitts("help", "exit-codes").out.decode()
    assert "\033[1mexit-codes: " in coloured
    monkeypatch.delenv("FORCE_COLOR")
    monkeypatch.setenv("NO_COLOR", "1")
    plain = omnitts("help", "exit-codes").out.decode()
    assert "\033" not in plain and 40 < max(map(len, plain.splitlines())) <= 60


def test_help_of_a_command_is_its_help_option_and_a_topic_goes_before_it(omnitts: Omnitts) -> None:
    for words in (["say"], ["voices", "save"], ["config", "set"], ["help"], ["doctor"]):
        assert omnitts("help", *words).out == omnitts(*words, "--help").out
    assert omnitts("help", "voices").out.startswith(b"voices: ")
    assert b"`omnitts voices --help`".replace(b"`", b"") in omnitts("help", "voices").out
    for name in set(help.TOPICS) & set(NAMES):
        assert f"`omnitts {name} --help`" in PAGES[name]


def test_an_unknown_topic_is_2_and_no_settings_are_read(omnitts: Omnitts, home: Path) -> None:
    done = omnitts("help", "voice")
    assert done.code == 2 and done.err == "error: no help for 'voice'\n  try: omnitts help voices\n"
    assert omnitts("help", "quantum").err.endswith("try: omnitts help\n")
    Path("omnitts.toml").write_text("voice = [broken")
    assert omnitts("help", "settings").code == 0


def examples() -> Iterator[tuple[str, str]]:
    """Every command line of ours in the fences and inline code of the pages and the README."""
    for name, text in DOCUMENTS.items():
        for found in EXAMPLE.finditer(text):
            yield name, found[1].strip()


@pytest.fixture(scope="module")
def commands() -> Any:
    return get_command(app_of(NAMES))


def test_the_examples_name_commands_and_options_that_exist(commands: Any) -> None:
    lines = sorted(set(examples()))
    assert len(lines) > 60
    for name, line in lines:
        words = shlex.split(line.replace("<", "_").replace(">", "_"))[1:]
        command: Any = commands
        while words and words[0] in getattr(command, "commands", {}):
            command = command.commands[words.pop(0)]
        if words and words[0] == "help":
            continue
        assert not (words and hasattr(command, "commands") and not words[0].startswith("-")), (name, line)
        context = command.make_context(command.name, [], resilient_parsing=True)
        command.make_parser(context).parse_args(args=words)  # raises where an option is unknown


def test_options_and_pages_that_the_text_names_exist(commands: Any) -> None:
    known = {"--help"}

    def look(command: Any) -> None:
        known.update(name for param in command.params for name in (*param.opts, *param.secondary_opts))
        for child in getattr(command, "commands", {}).values():
            look(child)

    look(commands)
    for name, text in DOCUMENTS.items():
        text = re.sub(r"^```text\n.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
        inline = re.findall(r"`(--[a-z-]+)", text)
        assert set(inline) - known == set(), name
        topics = re.findall(r"omnitts help ([a-z-]+)", text)
        assert set(topics) <= {*help.TOPICS, *NAMES}, name
