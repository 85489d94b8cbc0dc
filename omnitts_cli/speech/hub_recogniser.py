"""HubRecogniser: a speech recogniser of the Hub or of a folder, through transformers, which is imported late."""

import threading
from pathlib import Path
from typing import Any

import numpy as np

from omnitts_cli.errors import ModelError, UsageError

PREFIX = "hf:"
HEARD_AT = 16_000
LONGEST_S = 30.0  # more is recognised in parts of this length


class HubRecogniser:
    """hf:ORG/REPO[@REVISION] or hf:FOLDER: Whisper, wav2vec 2 and others. It runs no code of the repository."""

    def __init__(self, name: str, *, device: str = "cpu", offline: bool = False) -> None:
        from importlib.util import find_spec

        if find_spec("transformers") is None:
            raise UsageError(
                f"--asr-model {name} needs transformers, which is not installed",
                hint="pip install transformers   or   --asr-model base, with faster-whisper",
            )
        place = name.removeprefix(PREFIX)
        place, _, revision = place.partition("@") if not Path(place).exists() else (place, "", "")
        given = {"revision": revision or None, "local_files_only": offline, "trust_remote_code": False}
        try:
            self._recognise = opened(place, device, given)
        except (OSError, ValueError, ImportError, KeyError) as error:
            cause = str(error).strip().split("\n")[0][:300]
            other = "leave --offline out" if offline else "--asr-model hf:openai/whisper-base"
            hint = f"{other}   or   --asr-model hf:FOLDER"
            raise ModelError(f"cannot load the speech recogniser '{name}'", cause=cause, hint=hint) from None
        self._lock = threading.Lock()

    def words(self, sound: np.ndarray, language: str | None = None) -> str:
        """The words of mono float32 at 16 kHz. `language` is for models that need to know it."""
        more: dict[str, Any] = {"chunk_length_s": LONGEST_S} if sound.size > LONGEST_S * HEARD_AT else {}
        if language is not None and hasattr(self._recognise.model.generation_config, "lang_to_id"):
            more["generate_kwargs"] = {"language": language}
        with self._lock:
            found = self._recognise({"raw": sound, "sampling_rate": HEARD_AT}, **more)
        return str(found["text"]).strip()


def opened(place: str, device: str, given: dict[str, Any]) -> Any:
    """A pipeline of transformers."""
    from transformers import (
        AutoConfig,
        AutoFeatureExtractor,
        AutoModelForCTC,
        AutoModelForSpeechSeq2Seq,
        AutoTokenizer,
        pipeline,
    )
    from transformers.utils import logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()
    config = AutoConfig.from_pretrained(place, **given)
    by_frames = any(name.endswith("ForCTC") for name in config.architectures or ())
    kind: Any = AutoModelForCTC if by_frames else AutoModelForSpeechSeq2Seq
    return pipeline(
        "automatic-speech-recognition", model=kind.from_pretrained(place, **given).eval(), device=device,
        tokenizer=AutoTokenizer.from_pretrained(place, **given),
        feature_extractor=AutoFeatureExtractor.from_pretrained(place, **given),
    )  # fmt: skip
