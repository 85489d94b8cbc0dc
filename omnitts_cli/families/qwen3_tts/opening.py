"""Opening: who speaks, in which language and manner, as ids; and every reason why a model cannot do it.

Only this file looks at which of the three kinds of voice a request has.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from omnitts_cli.errors import InputError, UsageError, VoiceError
from omnitts_cli.families.common.refusals import no_instructions, unknown_language, unknown_voice, wrong_kind
from omnitts_cli.families.common.tokenizer import TextTokenizer
from omnitts_cli.families.qwen3_tts.config import Config
from omnitts_cli.families.qwen3_tts.released import LANGUAGES, VOICES
from omnitts_cli.request import Request
from omnitts_cli.voices import Cloned, Designed, Named


@dataclass(frozen=True, eq=False)
class Opening:
    """What the head of a prompt is made of. `transcript` and `codes` are the reference, if there is one."""

    instruction: list[int]
    role: list[int]
    language: int | None  # None: the model finds out
    speaker: int | None = None
    embedding: np.ndarray | None = None  # [H] float32
    transcript: list[int] | None = None
    codes: np.ndarray | None = None  # [R, G] int64

    @property
    def cloned(self) -> bool:
        return self.embedding is not None


def opening(request: Request, config: Config, tokenizer: TextTokenizer) -> Opening:
    """The opening of a request, or the error that says what this model lacks and which one has it."""
    language = _language(request.language, config)
    role = [config.text.start, config.text.assistant, *tokenizer.newline]

    def instruction(words: str) -> list[int]:
        if not (words := words.strip()):
            return []
        return [config.text.start, *tokenizer.encode(f"user\n{words}"), config.text.stop, *tokenizer.newline]

    match request.voice:
        case Named() as voice:
            _can("named", config)
            speaker, language = _speaker(voice.speaker, language, config)
            return Opening(instruction(_style(request.style, config)), role, language, speaker)
        case Designed() as voice:
            _can("designed", config)
            _no_style(request.style, "--style does not work with designed voices", "add it to the description")
            return Opening(instruction(voice.description), role, language)
        case Cloned() as voice:
            _can("cloned", config)
            hint = "omnitts say -m 1.7b   with a named voice"
            _no_style(request.style, "--style does not work with cloned voices", hint)
            transcript = None if voice.codes is None else tokenizer.encode(_transcript(voice))
            return Opening([], role, language, None, _embedding(voice, config), transcript, _codes(voice, config))


def _can(kind: str, config: Config) -> None:
    if kind not in config.kinds:
        raise wrong_kind(kind, config.kinds)


def _language(name: str | None, config: Config) -> int | None:
    if name is None or name.lower() == "auto":
        return None
    if name.lower() in config.languages:
        return config.language_ids[name.lower()]
    elsewhere = "-m 0.6b   or   -m 1.7b" if name.lower() in LANGUAGES else None
    raise unknown_language(name, config.languages, elsewhere)


def _speaker(name: str, language: int | None, config: Config) -> tuple[int | None, int | None]:
    """The speaker's id, and the language, which a dialect replaces unless another language was asked for."""
    if not name:
        return None, language
    speaker = config.speakers.get(name.lower())
    if speaker is None:
        elsewhere = f"-m 0.6b   or   -m 1.7b   has the voice {name.lower()}" if name.lower() in VOICES else None
        raise unknown_voice(name, config.speakers, elsewhere)
    if speaker.dialect and language in (None, config.language_ids.get("chinese")):
        language = config.language_ids[speaker.dialect]
    return speaker.id, language


def _style(style: str | None, config: Config) -> str:
    if style and style.strip() and not config.obeys_style:
        raise no_instructions()
    return style or ""


def _no_style(style: str | None, why: str, hint: str) -> None:
    if style and style.strip():
        raise UsageError(why, hint=hint)


def _embedding(voice: Cloned, config: Config) -> np.ndarray:
    embedding = np.ascontiguousarray(voice.embedding, np.float32)
    hidden = config.talker.stack.hidden
    if embedding.shape != (hidden,):
        raise VoiceError(
            f"the voice was made for another model: its vector has the shape {list(embedding.shape)}, not [{hidden}]",
            hint="clone it again with this model",
        )
    if not np.isfinite(embedding).all():
        raise VoiceError("the voice is damaged: its vector holds numbers that are not finite", hint="clone it again")
    return embedding


def _codes(voice: Cloned, config: Config) -> np.ndarray | None:
    if voice.codes is None:
        return None
    codes, groups, top = (
        np.ascontiguousarray(voice.codes, np.int64),
        config.predictor.groups,
        config.predictor.codes - 1,
    )
    if codes.ndim != 2 or codes.shape[1] != groups or not len(codes):
        found, wanted = f"codes of the shape {list(codes.shape)}", f"[frames, {groups}]"
    elif codes.min() < 0 or codes.max() > top:
        found, wanted = f"codes from {codes.min()} to {codes.max()}", f"0 to {top}"
    else:
        return codes
    raise VoiceError(
        f"the voice was made for another model: it has {found}, not {wanted}", hint="clone it again with this model"
    )


def _transcript(voice: Cloned) -> str:
    words = (voice.transcript or "").strip()
    if not words:
        raise InputError(
            "the voice has the frames of its clip but not the words spoken in it",
            hint="give the transcript of the clip (`--ref-text`), or clone without one",
        )
    return words
