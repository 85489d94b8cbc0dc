"""omnitts models: lists, paths, refusals, and how a download is told."""

import os
import signal
from pathlib import Path

import pytest
from command import Omnitts
from golden_set import checkpoint

from omnitts_cli.cli.models import tell
from omnitts_cli.terminal.progress import Progress
from omnitts_cli.weights import store
from omnitts_cli.weights.fetch import DownloadProgress as Fetched


def test_list_remote_and_a_folder_that_is_its_own_path(omnitts: Omnitts) -> None:
    names = [model["name"] for model in omnitts("models", "list", "--remote", "--json").objects]
    assert {"0.6b-base", "1.7b-customvoice", "1.7b-voicedesign"} <= set(names)
    rows = [line.split("\t") for line in omnitts("models", "list", "--remote").out.decode().splitlines()]
    assert all(len(row) == 4 for row in rows)
    folder = checkpoint("base")
    assert omnitts("models", "path", str(folder)).out.decode().strip() == str(folder)


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["path", "1.7b"], 4, ["is not on this machine\n", "try:"]),
        (["path", "nowhere"], 4, ["try:"]),
        (["verify", "1.7b"], 4, ["try:"]),
        (["rm", "1.7b"], 4, ["try:"]),
        (["rm", "nope"], 4, ["model 'nope' not found"]),
        (["rm", "tiny"], 2, ["'tiny' cannot be removed", "inside the package", "try:"]),
        (["pull", "1.7b", "--offline"], 4, ["try: omnitts models pull 1.7b"]),
        (
            ["pull", "0.6b", "--with-thinker", "--offline"],
            2,
            ["0.6b has no thinker", "models pull omni --with-thinker"],
        ),
        (["pull", "a/b"], 4, ["try:"]),
        (["pull", "tiny"], 2, ["inside the package"]),
        (["pull", "1.7-base"], 4, ["model '1.7-base' not found", "1.7b-base"]),
        (["pull", "nope"], 4, ["omnitts models list --remote", "hf:ORG/REPO"]),
    ],
)
def test_what_cannot_be_done_says_so(omnitts: Omnitts, arguments: list[str], code: int, words: list[str]) -> None:
    omnitts("models", *arguments).ended(code, *words)


@pytest.mark.parametrize("command", ["path", "verify"])
@pytest.mark.parametrize("name", ["nowhere", "tinny", "a/b", "1.7b"])
def test_path_and_verify_name_no_option_that_they_lack(omnitts: Omnitts, command: str, name: str) -> None:
    hint = omnitts("models", command, name).err.split("try: ")[1]
    assert "-m" not in hint.split(), hint
    begins = "omnitts models pull 1.7b" if name == "1.7b" else f"omnitts models {command} "
    assert hint.startswith("omnitts models list --remote" if name == "nowhere" else begins)


def test_a_download_shows_folder_and_progress(capsys: pytest.CaptureFixture[str]) -> None:
    progress = Progress("fetching x", "json")
    progress._told = -10
    tell(progress, Fetched("x", Path("/cache"), 0, 4_000_000_000, 0, 0.0))
    tell(progress, Fetched("x", Path("/cache"), 1_000_000_000, 4_000_000_000, 0, 10.0))
    err = capsys.readouterr().err
    assert "downloading x: 3.7 GiB to /cache" in err
    assert '"done_bytes": 0' in err


def test_ctrl_c_says_that_a_download_continues(omnitts: Omnitts, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "pull", lambda *_, **__: os.kill(os.getpid(), signal.SIGINT))
    done = omnitts("models", "pull", "0.6b").ended(130)
    assert done.err == "interrupted; what has arrived is kept, and the same command continues\n"
