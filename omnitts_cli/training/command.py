"""The command as a user has it: a folder that speaks, in a process of its own, and what came of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from omnitts_cli.errors import OmniError


@dataclass(frozen=True)
class Heard:
    """`sounds` and `texts`: piece by piece, as the command cut them. `told`: the command's own JSON."""

    sounds: list[np.ndarray]
    texts: list[str]
    told: dict[str, Any]
    peak_memory: int  # bytes


def speak(model: str, verb: str, lines: list[str], *options: str) -> Heard:
    """`omnitts VERB` with one line a piece, unless the options cut them otherwise."""
    import soundfile  # late: where models are trained it is not needed

    with tempfile.TemporaryDirectory() as folder:
        text, sound = Path(folder) / "text.txt", Path(folder) / "sound.wav"
        text.write_text("\n".join(lines) + "\n")
        cut = () if "--split" in options else ("--split", "line")
        words = [verb, "-f", str(text), "-o", str(sound), "-m", model, "-l", "en", *cut, *options]
        told, peak = run([*words, "--json"])
        whole, rate = soundfile.read(sound, dtype="float32")
    pieces = told["sentences"]
    sounds = [whole[round(p["start"] * rate) : round(p["end"] * rate)] for p in pieces]
    return Heard(sounds, [p["text"] for p in pieces], told, peak)


def run(words: list[str]) -> tuple[dict[str, Any], int]:
    """The JSON that `omnitts WORDS` prints, and the most memory that it held, in bytes."""
    with tempfile.TemporaryFile("w+") as said, tempfile.TemporaryFile("w+") as problems:
        process = subprocess.Popen([sys.executable, "-m", "omnitts_cli", *words], stdout=said, stderr=problems)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        said.seek(0)
        problems.seek(0)
        if process.returncode:
            raise OmniError(f"`omnitts {words[0]}` failed with {process.returncode}", cause=problems.read()[-400:])
        found = json.loads(said.read())
    return found, usage.ru_maxrss * 1024
