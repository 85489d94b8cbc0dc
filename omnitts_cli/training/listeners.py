"""The models that judge speech: its words, how natural it is, and whether two clips have one voice.

They are not used as losses, nor to choose among takes. They need an environment of their own (`pip install
faster-whisper distillmos Resemblyzer`, with a torchaudio of torch's release); Whisper base is a folder in CTranslate2's
format.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from omnitts_cli.audio.resample import resample
from omnitts_cli.errors import OmniError
from omnitts_cli.speech.transcribe import HEARD_AT
from omnitts_cli.text.numerals import cardinal
from omnitts_cli.text.spoken.european.reader import speller
from omnitts_cli.training.teacher import SAMPLE_RATE

EVEN = 10 ** (-30 / 20)  # root mean square at which voices are compared


class Listeners(Protocol):
    """Sounds are mono float32 at 24 kHz."""

    def transcribe(self, sound: np.ndarray, language: str = "en") -> str: ...

    def language(self, sound: np.ndarray) -> str:
        """The code of the language that is heard."""
        ...

    def naturalness(self, sound: np.ndarray) -> float:
        """An estimate of the mean opinion score, 1 to 5."""
        ...

    def voice(self, sound: np.ndarray) -> np.ndarray:
        """A vector of length 1; the cosine of two is the similarity of the speakers."""
        ...


class Installed:
    """Whisper base, Distill-MOS and Resemblyzer, each loaded at its first use."""

    def __init__(self, whisper: Path | None) -> None:
        self._whisper = whisper
        self._loaded: dict[str, Any] = {}

    def transcribe(self, sound: np.ndarray, language: str = "en") -> str:
        parts, _ = self._recogniser().transcribe(
            at_rate(sound),
            language=language,
            temperature=0.0,
            without_timestamps=True,
            condition_on_previous_text=False,
            no_speech_threshold=None,
            log_prob_threshold=None,
            compression_ratio_threshold=None,
        )
        heard = "".join(part.text for part in parts)
        return unwritten(heard) if language == "en" else speller(language)(heard)

    def language(self, sound: np.ndarray) -> str:
        return str(self._recogniser().detect_language(at_rate(sound))[0])

    def _recogniser(self) -> Any:
        def load() -> Any:
            from faster_whisper import WhisperModel

            if self._whisper is None:
                raise OmniError("the judge needs Whisper base", hint="--whisper FOLDER")
            return WhisperModel(str(self._whisper), device="cpu", compute_type="int8_float32")

        return self._get("faster-whisper", load)

    def naturalness(self, sound: np.ndarray) -> float:
        import torch

        def load() -> Any:
            import distillmos

            return distillmos.ConvTransformerSQAModel().eval()

        with torch.no_grad():
            return float(self._get("distillmos", load)(torch.from_numpy(at_rate(sound))[None]).mean())

    def voice(self, sound: np.ndarray) -> np.ndarray:
        def load() -> Any:
            from resemblyzer import VoiceEncoder

            return VoiceEncoder("cpu", verbose=False)

        resampled = at_rate(sound)
        even = resampled * np.float32(EVEN / (np.sqrt(np.mean(resampled**2)) + 1e-9))
        return np.asarray(self._get("Resemblyzer", load).embed_utterance(even))

    def _get(self, package: str, load: Callable[[], Any]) -> Any:
        if package not in self._loaded:
            try:
                self._loaded[package] = load()
            except ImportError:
                raise OmniError(f"the judge needs {package}", hint=f"pip install {package}") from None
        return self._loaded[package]


def at_rate(sound: np.ndarray) -> np.ndarray:
    """A low-pass filter with a gentle slope below 8 kHz. A sharp cut there changes Distill-MOS: 0.25 less for the
    teacher, 0.25 more for a rough voice."""
    return resample(sound, SAMPLE_RATE, HEARD_AT)


def unwritten(text: str) -> str:
    """Writes digits as words, since Whisper writes 2 where the sentence has "two"."""
    text = text.replace("’", "'").replace("-", " ").replace("–", " ")
    return re.sub(r"\d+", lambda found: f" {cardinal(int(found[0]))} ".replace("-", " "), text)
