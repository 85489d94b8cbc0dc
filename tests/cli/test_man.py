"""Manual pages: one for each command and topic, with every option, and nothing that man complains about."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from command import Omnitts
from patience import LONG_S
from typer.main import get_command

from omnitts_cli.cli import man
from omnitts_cli.cli.commands import COMMANDS, TOPICS
from omnitts_cli.cli.declare import NAMES, app_of
from omnitts_cli.settings.table import former_options

FORMER = set(former_options())


@pytest.fixture
def pages(omnitts: Omnitts, home: Path) -> Iterator[dict[str, str]]:
    done = omnitts("help", "--man", "man")
    assert done.code == 0 and done.out == b"man\n"
    yield {path.name: path.read_text("utf-8") for path in Path("man").rglob("*.?")}


def test_every_command_and_topic_has_a_page(pages: dict[str, str]) -> None:
    commands = {f"omnitts-{row.name.replace(' ', '-')}.1" for row in COMMANDS}
    assert set(pages) == {"omnitts.1", *commands, *(f"omnitts-{topic}.7" for topic in TOPICS)}
    root: Any = get_command(app_of(NAMES))
    for words, command, _ in man.commands(root):
        shown = pages[f"{'-'.join(words)}.1"].replace("\\-", "-")
        options = {name for param in command.params if not getattr(param, "hidden", False) for name in param.opts}
        options -= {"-h", "--help", "--help-all", *FORMER}
        assert {name for name in options if name not in shown and name[0] == "-"} == set(), words


@pytest.mark.skipif(not shutil.which("man"), reason="man is not installed")
def test_man_shows_them_without_a_warning(pages: dict[str, str]) -> None:
    environment = {**os.environ, "LC_ALL": "C.UTF-8", "MANWIDTH": "80"}
    names = [f"man/man{name[-1]}/{name}" for name in pages]
    done = subprocess.run(
        ["man", "--warnings", "-l", *names], capture_output=True, timeout=LONG_S, env=environment, check=False
    )
    shown = re.sub(r".\x08", "", done.stdout.decode())
    assert done.returncode == 0 and done.stderr == b"", done.stderr.decode()[:2000]
    assert "speech from the command line" in shown and '"Hello there"' in shown


def test_nothing_in_a_text_is_a_command_of_roff() -> None:
    assert man.text(".SH x") == "\\&.SH x" and man.text("'x'") == "\\&\\(aqx\\(aq" and man.text("a\\b-c") == "a\\eb\\-c"


def test_a_folder_that_cannot_be_written_is_an_error(omnitts: Omnitts, home: Path) -> None:
    Path("taken").write_text("")
    assert omnitts("help", "--man", "taken").code == 8
