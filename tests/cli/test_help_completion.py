"""omnitts completion: scripts that the shells themselves accept, and answers to what they ask."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from command import Omnitts

SHELLS = {"bash": ["bash", "-n"], "zsh": ["zsh", "-n"], "fish": ["fish", "-n"], "powershell": ["pwsh", "-File"]}


@pytest.mark.parametrize("shell", SHELLS)
def test_the_script_loads(omnitts: Omnitts, shell: str) -> None:
    done = omnitts("completion", shell)
    assert done.code == 0 and b"_OMNITTS_COMPLETE" in done.out
    if shutil.which(SHELLS[shell][0]):
        Path("script").write_bytes(done.out)
        assert subprocess.run([*SHELLS[shell], "script"], capture_output=True).returncode == 0


@pytest.mark.parametrize(("words", "answer"), [
    ("omnitts sa", "say"), ("omnitts say --sp", "--speed"), ("omnitts say --preset st", "studio"),
    ("omnitts say -v cl", "clara"), ("omnitts voices preview cl", "clara"),
    ("omnitts config set sentence", "sentence-gap"), ("omnitts completion z", "zsh"),
])  # fmt: skip
def test_a_shell_gets_its_answer(words: str, answer: str) -> None:
    environment = {
        **os.environ, "_OMNITTS_COMPLETE": "complete_bash", "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split()) - 1),
    }  # fmt: skip
    done = subprocess.run([sys.executable, "-m", "omnitts_cli"], capture_output=True, text=True, env=environment)
    assert answer in done.stdout.split()


@pytest.mark.parametrize(("words", "answer"), [("omnitts say --lo", 0), ("omnitts say --nothing-like-it", 1)])
def test_the_exit_code_tells_fish_whether_there_are_completions(words: str, answer: int) -> None:
    asked = {"_OMNITTS_COMPLETE": "complete_fish", "_TYPER_COMPLETE_ARGS": words}
    for action, code in (("is-args", answer), ("get-args", 0)):
        environment = {**os.environ, **asked, "_TYPER_COMPLETE_FISH_ACTION": action}
        done = subprocess.run([sys.executable, "-m", "omnitts_cli"], capture_output=True, text=True, env=environment)
        assert done.returncode == code and done.stderr == ""


def test_what_completions_mean_is_whole_and_on_one_line() -> None:
    for words, end in (("omnitts voices renew", "another model."), ("omnitts say --language", "[auto]")):
        asked = {"_OMNITTS_COMPLETE": "complete_fish", "_TYPER_COMPLETE_ARGS": words}
        environment = {**os.environ, **asked, "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
        done = subprocess.run([sys.executable, "-m", "omnitts_cli"], capture_output=True, text=True, env=environment)
        assert done.stdout.endswith(f"{end}\n") and done.stdout.count("\n") == 1


@pytest.mark.skipif(shutil.which("fish") is None, reason="no fish")
def test_fish_completes_options_and_values(home: Path) -> None:
    """In fish itself, with the command of this very checkout."""
    command = home / "omnitts"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m omnitts_cli "$@"\n')
    command.chmod(0o755)
    ask = 'omnitts completion fish | source; complete -C "omnitts say --lo"; complete -C "omnitts say -l f"'
    environment = {**os.environ, "PATH": f"{home}:{os.environ['PATH']}"}
    done = subprocess.run(["fish", "-c", ask], capture_output=True, text=True, env=environment)
    assert [line.split("\t")[0] for line in done.stdout.splitlines()] == ["--loudness", "fr"], done.stderr


def test_completion_knows_saved_voices(omnitts: Omnitts, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import numpy as np

    from omnitts_cli.cli.complete import voice_names
    from omnitts_cli.speech import voice_files
    from omnitts_cli.voices import Cloned

    voice_files.save(voice_files.SavedVoice("claudia", Cloned(np.ones(4, np.float32)), {"model": "tiny"}))
    assert {"claudia", "clara"} <= set(voice_names("cl")) and "henry" not in voice_names("cl")


def test_pull_offers_what_can_be_pulled() -> None:
    from omnitts_cli.cli.complete import hub_names

    assert "1.7b-base" in hub_names("") and "tiny" not in hub_names("")
