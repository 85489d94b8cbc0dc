"""Prompter: a request -> the draft of the rows that open it. Every mode of the family ends here.

`opening` says who speaks, in which language and manner, as ids; and every reason why a model cannot do it. Only it
looks at which of the three kinds of voice a request has.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from omnitts_cli.errors import InputError, StyleError, VoiceError
from omnitts_cli.families.common.live import Arriving
from omnitts_cli.families.common.refusals import no_instructions, unknown_language, unknown_voice, wrong_kind
from omnitts_cli.families.common.tokenizer import TextTokenizer
from omnitts_cli.families.qwen3_tts.config import Config
from omnitts_cli.families.qwen3_tts.released import VOICES
from omnitts_cli.models.prompts import CodeRows, Draft, LiveRows, Place, Prompter, TextRows, TooEarly, refuse_too_long
from omnitts_cli.request import Request, TextMode
from omnitts_cli.text.language import LANGUAGES
from omnitts_cli.text.model_input import text_to_speak
from omnitts_cli.voices import Cloned, Designed, Named


@dataclass(frozen=True, eq=False)
class Opening:
    """What the head of a prompt is made of. `transcript` and `codes` are the reference, if there is one."""

    instruction: list[int]
    role: list[int]
    language: int | None  # None: the model decides
    speaker: int | None = None
    embedding: np.ndarray | None = None  # [H] float32
    transcript: Sequence[int] = ()
    codes: np.ndarray | None = None  # [R, G] int64
    gains: np.ndarray | None = None  # [bands] float32, dB

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
            words = None if voice.codes is None else text_to_speak(_transcript(voice), tokenizer.input)
            transcript = () if words is None else tokenizer.encode(words)
            return Opening(
                [], role, language, None, _embedding(voice, config), transcript, _codes(voice, config), voice.gains
            )


def _can(kind: str, config: Config) -> None:
    if kind not in config.kinds:
        raise wrong_kind(kind, config.kinds)


def _language(name: str | None, config: Config) -> int | None:
    if name is None or name.lower() == "auto":
        return None
    if name.lower() in config.languages:
        return config.language_ids[name.lower()]
    elsewhere = "-m 0.6b   or   -m 1.7b" if name.lower() in LANGUAGES.values() else None
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
        raise StyleError(why, hint=hint)


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


@dataclass(frozen=True)
class Continued:
    """What follows the head in the prompt of a voice with a reference."""

    text: list[int]
    codec: list[int]
    feed: list[int]
    frames_at: int  # in `codec`
    known: int  # leading rows that do not depend on the text to be spoken


class Qwen3Prompter(Prompter):
    """The prompter of Qwen3-TTS."""

    def __init__(
        self,
        config: Config,
        tokenizer: TextTokenizer,
        text: TextRows,
        frames: CodeRows,
        place: Place = np.asarray,
    ) -> None:
        super().__init__(text, frames, config.text.pad, place)
        self._config, self._tokenizer = config, tokenizer

    def draft(self, request: Request) -> Draft:
        start = opening(request, self._config, self._tokenizer)
        body = self._tokenizer.encode(text_to_speak(request.text, self._tokenizer.input, request.language))
        mode = request.text_mode or ("streamed" if start.cloned else "whole")
        return self._draft(start, [*body, self._config.text.end], mode, spoken=len(body))

    def live(self, request: Request, first: str) -> tuple[Draft, LiveRows]:
        """The text arrives later; `first` must hold at least one word and what ends it.

        A voice with a reference needs a word for about every row of it, as the first rows are the sum of both.
        """
        start = opening(request, self._config, self._tokenizer)
        arriving = Arriving(self._tokenizer, first, request.language)
        known = arriving.write(first)
        needed = 1 if start.codes is None else max(1, len(start.codes) + 1 - len(start.transcript))
        if len(known) < needed:
            raise TooEarly(
                f"{len(known)} tokens of text are known; this voice needs {needed} to begin",
                hint="give more of the text first, or all of it",
            )
        draft = self._draft(start, known, "streamed", spoken=len(known), closed=False)
        return draft, LiveRows(self.text, self._config.text.end, arriving.write, arriving.close)

    def _draft(self, start: Opening, body: list[int], mode: TextMode, spoken: int, closed: bool = True) -> Draft:
        """The head, then one of four endings: text whole or streamed, with or without a reference."""
        ids, control = self._config.text, self._config.control
        text, codec, speaker_at = self._head(start)
        shared, frames_at, feed = len(text), None, []
        if start.codes is not None:
            ending = self._continued(start, body, mode, len(start.codes))
            shared, frames_at, feed = shared + ending.known, len(codec) + ending.frames_at, ending.feed
            text += ending.text
            codec += ending.codec
        elif mode == "streamed":
            text.append(body[0])
            codec.append(control.begin)
            feed = body[1:]
        else:
            text += [*body, ids.pad]
            codec += [*[control.pad] * len(body), control.begin]
        draft = Draft(
            text, codec, feed, closed, spoken, speaker_at, frames_at, shared, start.embedding, start.codes, start.gains
        )
        refuse_too_long(draft, self._config.max_positions)
        return draft

    def _continued(self, start: Opening, body: list[int], mode: TextMode, frames: int) -> Continued:
        """The talker continues after the last frame of the reference, as if it had spoken the reference itself."""
        ids, control = self._config.text, self._config.control
        text = [*start.transcript, *body]
        reference = [control.begin] * (frames + 1)  # the frames' own rows replace all but the first
        if mode == "whole":
            codec = [control.pad] * len(text) + reference
            return Continued(text + [ids.pad] * len(reference), codec, [], len(text) + 1, len(start.transcript))
        first, feed = text[: len(reference)], text[len(reference) :]
        first += [ids.pad] * (len(reference) - len(first))
        return Continued(first, reference, feed, 1, min(len(start.transcript), len(reference) - 1))

    def _head(self, start: Opening) -> tuple[list[int], list[int], int | None]:
        """Instruction, role, tag, speaker: what comes before the text in every mode."""
        ids, control = self._config.text, self._config.control
        if start.language is None:
            codec = [control.no_think, control.think_begin, control.think_end]
        else:
            codec = [control.think, control.think_begin, start.language, control.think_end]
        speaker_at = None
        if start.speaker is not None:
            codec.append(start.speaker)
        elif start.embedding is not None:
            speaker_at = len(codec)
            codec.append(control.pad)
        text = [*start.instruction, *start.role, *[ids.pad] * len(codec), ids.begin]
        return text, [*codec, control.pad], speaker_at
