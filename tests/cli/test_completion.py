"""omnitts completion: scripts that the shells themselves accept, and answers to what they ask."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

SHELLS = {"bash": ["bash", "-n"], "zsh": ["zsh", "-n"], "fish": ["fish", "-n"], "powershell": ["pwsh", "-File"]}


@pytest.mark.parametrize("shell", SHELLS)
def test_case_87_the_script_loads(omnitts: Callable[..., Any], shell: str) -> None:
    done = omnitts("completion", shell)
    assert done.code == 0 and b"_OMNITTS_COMPLETE" in done.out
    if shutil.which(SHELLS[shell][0]):
        Path("script").write_bytes(done.out)
        assert subprocess.run([*SHELLS[shell], "script"], capture_output=True).returncode == 0


@pytest.mark.parametrize(
    ("words", "answer"),
    [("omnitts sa", "say"), ("omnitts say --sp", "--speed"), ("omnitts say --preset st", "studio")],
)
def test_a_shell_gets_its_answer(words: str, answer: str) -> None:
    environment = {
        **os.environ, "_OMNITTS_COMPLETE": "complete_bash", "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split()) - 1),
    }  # fmt: skip
    done = subprocess.run([sys.executable, "-m", "omnitts_cli"], capture_output=True, text=True, env=environment)
    assert answer in done.stdout.split()


def test_an_unknown_shell_is_2(omnitts: Callable[..., Any]) -> None:
    assert omnitts("completion", "tcsh").code == 2
