"""Manual pages: one for each command and topic, with every option, and nothing that man complains about."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from command import Omnitts
from patience import LONG_S

from omnitts_cli.cli import man
from omnitts_cli.cli.commands import COMMANDS, TOPICS
from omnitts_cli.cli.run import Option
from omnitts_cli.settings.setting import ALSO


@pytest.fixture
def pages(omnitts: Omnitts, home: Path) -> Iterator[dict[str, str]]:
    done = omnitts("help", "--man", "man")
    assert done.code == 0 and done.out == b"man\n"
    yield {path.name: path.read_text("utf-8") for path in Path("man").rglob("*.?")}


def test_every_command_and_topic_has_a_page(pages: dict[str, str]) -> None:
    commands = {f"omnitts-{row.name.replace(' ', '-')}.1" for row in COMMANDS}
    assert set(pages) == {"omnitts.1", *commands, *(f"omnitts-{topic}.7" for topic in TOPICS)}
    for row in COMMANDS:
        shown = pages[f"{man.page_of(row)}.1"].replace("\\-", "-")
        settings = [field for field in row.settings if field.name not in row.rules.hidden]
        flags = {one for field in settings for both in field.setting.spellings for one in both.split("/")}
        flags |= {one for own in row.own if isinstance(own, Option) for one in own.flags.split()}
        assert {one for one in flags if one[2:] not in ALSO and one not in shown} == set(), row.name


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
