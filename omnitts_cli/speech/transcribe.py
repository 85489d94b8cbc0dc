"""Transcribe a clip with an optional speech recogniser: faster-whisper, one of the Hub, or PocketSphinx."""

from collections.abc import Callable, Sequence
from importlib.util import find_spec
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np

from omnitts_cli.audio.pcm import to_int16
from omnitts_cli.audio.resample import resample
from omnitts_cli.errors import InputError, ModelError, Notice, UsageError
from omnitts_cli.settings.setting import nearest
from omnitts_cli.speech import hub_recogniser

HEARD_AT = 16_000
HUB = ("huggingface_hub", "httpx", "requests")  # their messages are long and name internal files
SIZES = ("tiny", "base", "small", "medium", "large-v3", "turbo")
SIZE = "small"  # of Whisper: 0.5 GB, good for all ten languages
LONGEST_S, MOST_TOKENS = 30.0, 400  # of one pass of Whisper
BY_HAND = '--ref-text "what is said in the clip"'
FEATURES_PER_S, FRAMES_PER_S = 100, 50  # of Whisper's encoder: in, out

Tell = Callable[[Notice], None]
Transcriber = Callable[[np.ndarray], str]
"""From mono float32 at 16 kHz to words; may be empty."""


def transcribe(sound: np.ndarray, rate: int, *, offline: bool, tell: Tell, model: str | None = None) -> str:
    """The words of a clip. They are printed too, because a wrong word spoils the voice. `model`: a name or a folder."""
    words = " ".join(recogniser(offline, tell, model)(resample(sound, rate, HEARD_AT)).split())
    if not words:
        raise InputError("no words were recognised in the clip", hint='--ref-text "what is said in it"')
    tell(
        Notice(f"transcript of the clip: {words}", hint="--ref-text with the right words, if these are not", plain=True)
    )
    return words


def recogniser(offline: bool, tell: Tell, model: str | None = None, without: str = BY_HAND) -> Transcriber:
    """Whisper where it is installed, else PocketSphinx, unless a model is asked for. `without`: the hint for doing
    without one."""
    if model is not None and model.startswith(hub_recogniser.PREFIX):
        return hub_recogniser.HubRecogniser(model, offline=offline).words
    for make in (whisper, *([] if model else [sphinx])):
        try:
            return make(offline, tell, model, without)
        except ImportError:
            continue
    raise UsageError(
        f"{'--asr-model' if model else '--transcribe'} needs faster-whisper, which is not installed",
        hint=f"pip install faster-whisper   or   {without}",
    )


def is_accurate(model: str | None) -> bool:
    """Whether the recogniser that `recogniser` takes is good enough to doubt a written text: PocketSphinx is not."""
    return model is not None or find_spec("faster_whisper") is not None


def recogniser_here() -> Transcriber | None:
    """Whisper, where it and its usual model are on this machine. Downloads nothing."""
    try:
        return whisper(True, lambda notice: None, None, BY_HAND)
    except (ImportError, ModelError):
        return None


def whisper(offline: bool, tell: Tell, model: str | None, without: str) -> Transcriber:
    """A function that transcribes clips with faster-whisper."""
    loaded = Whisper(model, offline=offline, hint=without)
    return lambda sound: "".join(part.text for part in loaded.model.transcribe(sound)[0])


class Whisper:
    """A model of faster-whisper: a size such as base or small, a name on the Hub, or a folder in CTranslate2's format.

    Raises ImportError where faster-whisper is missing, and ModelError for a model that cannot be loaded.
    """

    def __init__(
        self,
        model: str | None = None,
        *,
        device: str = "cpu",
        threads: int = 0,
        workers: int = 1,
        offline: bool = False,
        hint: str = "--asr-model FOLDER",
    ) -> None:
        from faster_whisper import WhisperModel

        name = model or SIZE
        folder = Path(name).expanduser()
        if folder.is_dir():
            name = str(folder)
            missing = [file for file in ("model.bin", "config.json", "tokenizer.json") if not (folder / file).is_file()]
            if missing:
                raise ModelError(
                    f"{model} is not a speech recogniser of faster-whisper",
                    cause=f"the folder has no {missing[0]}",
                    hint="--asr-model base   or   a folder with model.bin, config.json and tokenizer.json",
                )
        elif len(folder.parts) > 2 or folder.is_absolute():  # "ORG/NAME" may be on the Hub
            raise ModelError(f"speech recogniser {model} not found", cause="no such folder", hint="--asr-model base")
        precision = "int8" if device == "cpu" else "float16"
        try:
            self.model: Any = WhisperModel(
                name,
                device=device,
                compute_type=precision,
                cpu_threads=threads,
                num_workers=workers,
                local_files_only=offline,
            )
        except Exception as error:  # hub, network and file errors, of many classes
            raise not_loaded(name, folder, error, offline, hint) from None

    def words(self, sound: np.ndarray, language: str | None = None) -> str:
        """The words of mono float32 at 16 kHz; the same words each time, and none of them from earlier speech."""
        parts, _ = self.model.transcribe(
            sound, language=language, temperature=0.0, condition_on_previous_text=False, without_timestamps=True
        )
        return "".join(part.text for part in parts).strip()

    def place(self, sound: np.ndarray, words: Sequence[str], language: str | None = None) -> list[float]:
        """When each of these words, given with its space, begins in mono float32 at 16 kHz; and when the last ends.

        The recogniser is made to write exactly these words; its attention says where each of them is. It takes
        LONGEST_S of sound and MOST_TOKENS tokens.
        """
        from faster_whisper.audio import pad_or_trim
        from faster_whisper.tokenizer import Tokenizer

        features = self.model.feature_extractor(sound)
        encoded = self.model.encode(pad_or_trim(features))
        several = self.model.model.is_multilingual
        if several and language is None:
            language = self.model.model.detect_language(encoded)[0][0][0].strip("<|>")
        tokenizer = Tokenizer(self.model.hf_tokenizer, several, task="transcribe", language=language)
        tokens = [tokenizer.encode(word) for word in words]
        written = [token for word in tokens for token in word][:MOST_TOKENS]
        if not written:
            return [0.0, *[sound.size / HEARD_AT] * len(words)]
        frames = min(features.shape[-1], round(LONGEST_S * FEATURES_PER_S))
        (found,) = self.model.model.align(encoded, tokenizer.sot_sequence, [written], [frames])
        begins: dict[int, int] = {}  # token -> the first of its frames
        for token, frame in found.alignments:
            begins.setdefault(token, frame)
        firsts = accumulate((len(word) for word in tokens), initial=0)
        return [begins[token] / FRAMES_PER_S if token in begins else sound.size / HEARD_AT for token in firsts]


def not_loaded(name: str, folder: Path, error: Exception, offline: bool, hint: str) -> ModelError:
    """The error for a model of faster-whisper that cannot be loaded."""
    cause = str(error).splitlines()[0][:200]
    if isinstance(error, ValueError) and "/" not in name and not folder.is_dir():
        cause = f"it is neither a folder nor a size: {', '.join(SIZES)} ..."
        hint = f"--asr-model {nearest(name, list(SIZES)) or 'base'}"
    elif type(error).__module__.split(".")[0] in HUB:
        download = "--offline allows no download" if offline else f"could not be downloaded ({type(error).__name__})"
        cause = f"it is not on this machine, and {download}"
    return ModelError(f"cannot load the speech recogniser '{name}'", cause=cause, hint=hint)


def sphinx(offline: bool, tell: Tell, model: str | None, without: str) -> Transcriber:
    """English only and inaccurate, but works without a download."""
    from pocketsphinx import Decoder

    tell(
        Notice(
            "transcribing with PocketSphinx: English only, with many errors",
            hint="pip install faster-whisper",
        )
    )
    decoder: Any = Decoder(samprate=HEARD_AT, loglevel="FATAL")

    def recognize(sound: np.ndarray) -> str:
        decoder.start_utt()
        decoder.process_raw(to_int16(sound).tobytes(), full_utt=True)
        decoder.end_utt()
        best = decoder.hyp()
        return best.hypstr if best else ""

    return recognize
