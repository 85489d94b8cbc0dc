"""Prompter: a request -> the rows that open it, and every reason why this family cannot do what is asked.

The talker hears an assistant's turn whose words are given; nobody has to think them up. Its text is always
heard word by word, one token per frame.
"""

from __future__ import annotations

import difflib

import numpy as np
import torch
from torch import Tensor

from omnitts_cli.errors import InputError, UsageError, VoiceError
from omnitts_cli.families.qwen3_omni.config import Config
from omnitts_cli.families.qwen3_tts.live import Arriving, LiveRows
from omnitts_cli.families.qwen3_tts.prompt import Place, spoken
from omnitts_cli.families.qwen3_tts.released import WHO_SPEAKS
from omnitts_cli.families.qwen3_tts.text import TextTokenizer
from omnitts_cli.models.embed import FrameEmbedder
from omnitts_cli.models.roles import LiveText, Prompt, TextFeed, TooEarly
from omnitts_cli.models.text_rows import TextEmbedder
from omnitts_cli.request import Request
from omnitts_cli.voices import Named

USER_TURN: str | None = ""
"""What a user said before the text is read. The model knows dialogues only, and which of three reads best is
for word error rates on real weights to say: (A) None, no such turn; (B) "", an empty turn, as the official
library can do it; (C) words, such as "Read this aloud."
"""


class OmniPrompter:
    """Fills the Prompter role."""

    def __init__(
        self,
        config: Config,
        tokenizer: TextTokenizer,
        text: TextEmbedder,
        frames: FrameEmbedder,
        place: Place = torch.from_numpy,
        user_turn: str | None = USER_TURN,
    ) -> None:
        self._config, self._tokenizer, self._place = config, tokenizer, place
        self._text, self._frames, self._user_turn = text, frames, user_turn

    def prompt(self, request: Request) -> Prompt:
        """The whole text is known."""
        speaker = self._speaker(request)
        body = self._tokenizer.encode(spoken(request.text))
        return self._rows(speaker, [*body, self._config.text.end], len(body), closed=True)

    def live(self, request: Request, first: str) -> tuple[Prompt, LiveText]:
        """The text arrives later; `first` must hold at least one word and what ends it."""
        speaker = self._speaker(request)
        arriving = Arriving(self._tokenizer)
        known = arriving.write(first)
        if not known:
            raise TooEarly("no token of the text is known yet", hint="give more of the text first, or all of it")
        prompt = self._rows(speaker, known, len(known), closed=False)
        return prompt, LiveRows(arriving, self._rows_of_text, self._config.text.end)

    def _speaker(self, request: Request) -> int:
        """The speaker's id, once nothing is asked that this family cannot do."""
        match request.voice:
            case Named(speaker=name):
                pass
            case other:
                kind = type(other).__name__.lower()
                raise VoiceError(f"this model speaks with named voices, not with {kind} ones", hint=WHO_SPEAKS[kind])
        if request.style and request.style.strip():
            raise UsageError("this model does not obey an instruction", hint="`-m 1.7b` does, with a named voice")
        if request.text_mode == "whole":
            raise UsageError(
                "this model hears its text word by word, not whole",
                hint="leave out --text-mode, or use `-m 0.6b` or `-m 1.7b`",
            )
        language = (request.language or "auto").lower()
        if language not in ("auto", *self._config.languages):
            raise UsageError(
                f"this model does not speak {request.language!a}", hint=f"it speaks {', '.join(self._config.languages)}"
            )
        return self._id(name)

    def _id(self, name: str) -> int:
        speakers = self._config.speakers
        if not name:
            return next(iter(speakers.values()))
        if name.lower() not in speakers:
            close = difflib.get_close_matches(name.lower(), speakers, n=1)
            hint = f"did you mean {close[0]}?" if close else f"its voices are {', '.join(speakers)}"
            raise VoiceError(f"this model has no voice called {name!a}", hint=hint)
        return speakers[name.lower()]

    def _turn_before(self) -> list[int]:
        if self._user_turn is None:
            return []
        ids, encode = self._config.text, self._tokenizer.encode
        return [ids.start, *encode(f"user\n{self._user_turn}"), ids.stop, *encode("\n")]

    @torch.no_grad()
    def _rows(self, speaker: int, body: list[int], text_tokens: int, closed: bool) -> Prompt:
        """Text rows with the codec's side added from the tags on; the first token ends the prompt."""
        ids, control = self._config.text, self._config.control
        codec = [control.no_think, control.think_begin, control.think_end, speaker, control.pad, control.begin]
        text = [*self._turn_before(), ids.start, ids.assistant, *self._tokenizer.encode("\n")]
        text += [*[ids.pad] * (len(codec) - 2), ids.begin, body[0]]
        self._fits(len(text) + len(body) - 1)
        numbers = self._place(np.array([*text, *body[1:], ids.pad, *codec]))
        rows = self._text.rows(numbers[: -len(codec)])
        rows[len(text) - len(codec) : len(text)] += self._frames.control(numbers[-len(codec) :])
        return Prompt(
            rows=rows[: len(text)],
            text=TextFeed(rows[len(text) : -1], closed),
            pad=rows[-1],
            text_tokens=text_tokens,
            shared=len(text) - 1,
            shared_key=(tuple(text[:-1]), speaker),
        )

    def _fits(self, rows: int) -> None:
        if rows >= (most := self._config.max_positions):
            raise InputError(
                f"the text needs {rows} positions; the model has {most}, and speech needs some of them",
                hint="split the text",
            )

    def _rows_of_text(self, ids: list[int]) -> Tensor:
        with torch.no_grad():
            return self._text.rows(self._place(np.array(ids, np.int64)))
