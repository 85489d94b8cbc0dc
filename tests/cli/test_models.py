"""omnitts models: lists, paths, refusals, and how a download is told."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from omnitts_cli.cli.models import tell
from omnitts_cli.terminal.progress import Progress
from omnitts_cli.weights.fetch import Progress as Fetched

Call = Callable[..., Any]


def test_list_remote(omnitts: Call) -> None:
    names = [model["name"] for model in omnitts("models", "list", "--remote", "--json").objects]
    assert {"0.6b-base", "1.7b-customvoice", "1.7b-voicedesign"} <= set(names)
    rows = [line.split("\t") for line in omnitts("models", "list", "--remote").out.decode().splitlines()]
    assert all(len(row) == 4 for row in rows)


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["path", "1.7b"], 4),
        (["path", "nowhere"], 4),
        (["verify", "1.7b"], 4),
        (["rm", "1.7b"], 4),
        (["rm", "tiny"], 2),
        (["pull", "1.7b", "--offline"], 4),
        (["pull", "a/b"], 2),
    ],
)
def test_what_cannot_be_done_says_so(omnitts: Call, arguments: list[str], code: int) -> None:
    done = omnitts("models", *arguments)
    assert done.code == code and "try:" in done.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["path", "1.7b"], ["is not on this machine\n"]),
        (["rm", "tiny"], ["'tiny' cannot be removed", "inside the package"]),
        (["pull", "tiny"], ["inside the package"]),
        (["pull", "1.7-base"], ["no model '1.7-base' on the Hub", "1.7b-base"]),
        (["pull", "nope"], ["omnitts models list --remote", "hf:ORG/REPO"]),
        (["pull", "1.7b", "--offline"], ["try: omnitts models pull 1.7b"]),
    ],
)
def test_the_reason_is_the_users_own(omnitts: Call, arguments: list[str], words: list[str]) -> None:
    err = omnitts("models", *arguments).err
    assert all(word in err for word in words), err


def test_a_folder_is_its_own_path(omnitts: Call, checkpoint: Callable[[str], Path]) -> None:
    folder = checkpoint("base")
    assert omnitts("models", "path", str(folder)).out.decode().strip() == str(folder)


def test_a_download_tells_where_it_goes_and_how_far_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    progress = Progress("fetching x", "json")
    progress._told = -10
    tell(progress, Fetched("x", Path("/cache"), 0, 4_000_000_000, 0, 0.0))
    tell(progress, Fetched("x", Path("/cache"), 1_000_000_000, 4_000_000_000, 0, 10.0))
    err = capsys.readouterr().err
    assert "downloading x: 4.0 GB to /cache" in err
    assert '"done_bytes": 0' in err
