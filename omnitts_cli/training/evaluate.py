"""Evaluation: how much of what was spoken a recogniser understands, one that this project did not write.

The finished model is heard through the command alone, as a user would hear it; the codec is heard on its
own, by letting it repeat the teacher.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from importlib import resources
from pathlib import Path

import numpy as np
import torch

from omnitts_cli.errors import OmniError
from omnitts_cli.training.recipe import Recipe
from omnitts_cli.training.shapes import Codec
from omnitts_cli.training.teacher import SAMPLE_RATE, Teacher, resample

HEARD_AT = 16000  # samples a second
Transcribe = Callable[[np.ndarray], str]
"""Mono float32 at 24 kHz -> words."""


def sentences() -> list[str]:
    """What evaluation speaks, and training must never have read."""
    return (resources.files(__package__) / "sentences.txt").read_text().splitlines()


def words(text: str) -> list[str]:
    return re.sub(r"[^a-z' ]", "", text.lower()).split()


def word_errors(said: Sequence[str], heard: Sequence[str]) -> int:
    """Words to change, drop or add to get from one to the other."""
    row = list(range(len(heard) + 1))
    for i, word in enumerate(said, 1):
        last, row = row, [i]
        for j, other in enumerate(heard, 1):
            row.append(min(last[j] + 1, row[-1] + 1, last[j - 1] + (word != other)))
    return row[-1]


def error_rate(texts: Sequence[str], sounds: Sequence[np.ndarray], transcribe: Transcribe) -> float:
    """Word errors of all sounds over words of all texts."""
    errors = sum(word_errors(words(t), words(transcribe(s))) for t, s in zip(texts, sounds, strict=True))
    return errors / sum(len(words(text)) for text in texts)


def recogniser() -> Transcribe:
    try:
        from pocketsphinx import Decoder
    except ImportError:
        raise OmniError("the recogniser is missing", hint="pip install pocketsphinx") from None
    decoder = Decoder(samprate=HEARD_AT, loglevel="FATAL")

    def transcribe(sound: np.ndarray) -> str:
        at_rate = resample(sound, round(len(sound) * HEARD_AT / SAMPLE_RATE))
        decoder.start_utt()
        decoder.process_raw((np.clip(at_rate, -1, 1) * 32767).astype(np.int16).tobytes(), full_utt=True)
        decoder.end_utt()
        best = decoder.hyp()
        return best.hypstr if best else ""

    return transcribe


@torch.no_grad()
def judge_codec(recipe: Recipe, codec: Codec, teacher: Teacher, transcribe: Transcribe) -> dict[str, dict[str, float]]:
    """For each named voice, the error rate of the teacher and of the codec that repeats the teacher."""
    texts, scores = sentences(), {}
    for voice in recipe.voices:
        spoken = [teacher.speak(text, voice.made).sound for text in texts]
        repeated = [codec.decoder(codec.encoder(torch.from_numpy(s)[None]))[0].numpy() for s in spoken]
        scores[voice.name] = {
            "teacher": round(error_rate(texts, spoken, transcribe), 3),
            "codec": round(error_rate(texts, repeated, transcribe), 3),
        }
    return scores


def judge_model(
    model: str, voices: Sequence[str], seeds: Sequence[int], transcribe: Transcribe
) -> dict[str, list[float]]:
    """For each voice, the error rate of the command's speech, one number a seed."""
    return {
        voice: [round(error_rate(sentences(), _spoken(model, voice, seed), transcribe), 3) for seed in seeds]
        for voice in voices
    }


def _spoken(model: str, voice: str, seed: int) -> list[np.ndarray]:
    """Every sentence as the command speaks it, cut apart by the times that it writes down."""
    import soundfile  # late: where models are trained it is not needed

    with tempfile.TemporaryDirectory() as folder:
        text, sound, times = (Path(folder) / name for name in ("text.txt", "sound.wav", "times.json"))
        text.write_text("\n".join(sentences()) + "\n")
        command = [sys.executable, "-m", "omnitts_cli", "say", "-f", text, "-o", sound, "--subs", times]
        options = ["--split", "line", "-m", model, "-v", voice, "--seed", str(seed), "-l", "en"]
        done = subprocess.run([*command, *options], capture_output=True, text=True, check=False)
        if done.returncode:
            raise OmniError(f"`omnitts say` failed with {done.returncode}", cause=done.stderr.strip()[-400:])
        whole, _ = soundfile.read(sound, dtype="float32")
        cues = json.loads(times.read_text())["sentences"]
    return [whole[round(c["start"] * SAMPLE_RATE) : round(c["end"] * SAMPLE_RATE)] for c in cues]
