"""What a model folder speaks, sentence by sentence, through the Python API; and the memory that the command takes."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from typing import Any

import numpy as np

from omnitts_cli.errors import OmniError
from omnitts_cli.speech.tts import TTS


@dataclass(frozen=True)
class Heard:
    """`sounds` and `texts`: piece by piece, as the text was cut. `retries`: pieces that were spoken again."""

    sounds: list[np.ndarray]
    texts: list[str]
    retries: int


def speak(tts: TTS, lines: list[str], **options: Any) -> Heard:
    """Returns the lines as speech, one line a piece unless the options cut them otherwise."""
    stream = tts.stream("\n".join(lines), **{"language": "en", "split": "line", "safe": True, **options})
    clip = stream.clip()
    rate, pieces = clip.sample_rate, clip.sentences
    sounds = [clip.samples[round(one.start_s * rate) : round(one.end_s * rate)] for one in pieces]
    return Heard(sounds, [one.text for one in pieces], stream.account.retries)


def peak_memory(model: str, lines: list[str]) -> int:
    """Returns the most bytes that `omnitts say` holds for the lines, in a process of its own."""
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile("w+") as problems:
        words = ["say", "-m", model, "-d", "cpu", "--seed", "1", "-o", f"{folder}/sound.wav", "--", " ".join(lines)]
        process = subprocess.Popen([sys.executable, "-m", "omnitts_cli", *words], stdout=problems, stderr=problems)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        problems.seek(0)
        if process.returncode:
            raise OmniError(f"`omnitts say` failed with {process.returncode}", cause=problems.read()[-400:])
    return usage.ru_maxrss * 1024
