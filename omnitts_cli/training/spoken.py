"""Speaks with a model folder through the Python API, and measures the memory of the command."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from dataclasses import dataclass
from typing import Any

import numpy as np

from omnitts_cli import child
from omnitts_cli.errors import OmniError
from omnitts_cli.speech.tts import TTS


@dataclass(frozen=True)
class SpokenPieces:
    """`sounds` and `texts`: one entry for each piece of the text. `retries`: pieces that were spoken again."""

    sounds: list[np.ndarray]
    texts: list[str]
    retries: int


def speak(tts: TTS, lines: list[str], **options: Any) -> SpokenPieces:
    """Returns the lines as speech; each line is one piece unless `options` split it otherwise."""
    stream = tts.stream("\n".join(lines), **{"language": "en", "split": "line", "safe": True, **options})
    clip = stream.clip()
    rate, pieces = clip.sample_rate, clip.sentences
    sounds = [clip.samples[round(one.start_s * rate) : round(one.end_s * rate)] for one in pieces]
    return SpokenPieces(sounds, [one.text for one in pieces], stream.account.retries)


def peak_memory(model: str, lines: list[str]) -> int:
    """Returns the peak memory in bytes of `omnitts say` for these lines, in a process of its own, which uses no
    running server."""
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile("w+") as problems:
        words = ["say", "--via", "off", "-m", model, "-d", "cpu", "--seed", "1", "-o", f"{folder}/sound.wav"]
        command = child.python(MEASURED, *child.command("omnitts_cli.__main__", *words, "--", " ".join(lines)))
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=problems)
        problems.seek(0)
        if done.returncode:
            raise OmniError(f"`omnitts say` failed with {done.returncode}", cause=problems.read()[-400:])
    return int(done.stdout) * (1 if sys.platform == "darwin" else 1024)


MEASURED = """
import resource, subprocess, sys
code = subprocess.call(sys.argv[1:], stdout=sys.stderr)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
sys.exit(code)
"""
"""Runs a command and prints its peak memory. This is a small process of its own, because the kernel counts the memory
of the process that forks as that of the child."""
