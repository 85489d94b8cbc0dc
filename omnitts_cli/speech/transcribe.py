"""Transcribe a clip with an optional speech recogniser: faster-whisper, or PocketSphinx."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from omnitts_cli.audio.pcm import to_int16
from omnitts_cli.audio.resample import resample
from omnitts_cli.errors import InputError, ModelError, Notice, UsageError

HEARD_AT = 16_000
SIZE = "small"  # of Whisper: 0.5 GB, good for all ten languages

Tell = Callable[[Notice], None]
Hear = Callable[[np.ndarray], str]
"""From mono float32 at 16 kHz to words; may be empty."""


def transcribe(sound: np.ndarray, rate: int, *, offline: bool, tell: Tell) -> str:
    """The words of a clip. They are printed too, because a wrong word spoils the voice."""
    words = " ".join(recogniser(offline, tell)(resample(sound, rate, HEARD_AT)).split())
    if not words:
        raise InputError("no words were recognised in the clip", hint='--ref-text "what is said in it"')
    tell(
        Notice(f"transcript of the clip: {words}", hint="--ref-text with the right words, if these are not", plain=True)
    )
    return words


def recogniser(offline: bool, tell: Tell) -> Hear:
    """Whisper where it is installed, else PocketSphinx."""
    for make in (whisper, sphinx):
        try:
            return make(offline, tell)
        except ImportError:
            continue
    raise UsageError(
        "--transcribe needs faster-whisper, which is not installed",
        hint='pip install faster-whisper   or   --ref-text "what is said in the clip"',
    )


def whisper(offline: bool, tell: Tell) -> Hear:
    """A function that transcribes clips with faster-whisper."""
    from faster_whisper import WhisperModel

    try:
        model: Any = WhisperModel(SIZE, device="cpu", compute_type="int8", local_files_only=offline)
    except Exception as error:  # hub, network and file errors, of many classes
        reason = str(error).splitlines()[0][:200]
        raise ModelError(
            "cannot load the speech recogniser", cause=reason, hint='--ref-text "what is said in the clip"'
        ) from None
    return lambda sound: "".join(part.text for part in model.transcribe(sound)[0])


def sphinx(offline: bool, tell: Tell) -> Hear:
    """English only and inaccurate, but works without a download."""
    from pocketsphinx import Decoder

    tell(
        Notice(
            "transcribing with PocketSphinx: English only, with many errors",
            hint="pip install faster-whisper",
        )
    )
    decoder: Any = Decoder(samprate=HEARD_AT, loglevel="FATAL")

    def hear(sound: np.ndarray) -> str:
        decoder.start_utt()
        decoder.process_raw(to_int16(sound).tobytes(), full_utt=True)
        decoder.end_utt()
        best = decoder.hyp()
        return best.hypstr if best else ""

    return hear
