"""Prompter: a request -> the draft of the rows that open it, and every reason why this family cannot do what is asked.

The talker gets an assistant's turn whose words are given, so the thinker is not needed. Its text is always
streamed, one token per frame.
"""

from collections.abc import Sequence

import torch

from omnitts_cli.errors import UsageError
from omnitts_cli.families.common.live import Arriving
from omnitts_cli.families.common.refusals import no_instructions, unknown_language, unknown_voice, wrong_kind
from omnitts_cli.families.common.tokenizer import TextTokenizer
from omnitts_cli.families.qwen3_omni.config import Config
from omnitts_cli.models.embed import FrameEmbedder, TextEmbedder
from omnitts_cli.models.prompts import Draft, LiveRows, Place, Prompter, TooEarly, Turns, refuse_too_long
from omnitts_cli.request import Request
from omnitts_cli.text.model_input import text_to_speak
from omnitts_cli.voices import Named

USER_TURN: str | None = ""
"""What a user said before the text is read. The model knows dialogues only, and which of three reads best is
for word error rates on real weights to say: (A) None, no such turn; (B) "", an empty turn, as the official
library can do it; (C) words, such as "Read this aloud."
"""


class OmniPrompter(Prompter):
    """The prompter of Qwen3-Omni."""

    def __init__(
        self,
        config: Config,
        tokenizer: TextTokenizer,
        text: TextEmbedder,
        frames: FrameEmbedder,
        place: Place = torch.from_numpy,
        user_turn: str | None = USER_TURN,
    ) -> None:
        super().__init__(text, frames, config.text.pad, place)
        self._config, self._tokenizer = config, tokenizer
        self._turn_before = [] if user_turn is None else self._turn(user_turn)

    def draft(self, request: Request) -> Draft:
        speaker = self._speaker(request)
        body = self._tokenizer.encode(text_to_speak(request.text))
        return self._draft(speaker, [*body, self._config.text.end], len(body))

    def live(self, request: Request, first: str) -> tuple[Draft, LiveRows]:
        """The text arrives later; `first` must hold at least one word and what ends it."""
        speaker = self._speaker(request)
        arriving = Arriving(self._tokenizer)
        known = arriving.write(first)
        if not known:
            raise TooEarly("no token of the text is known yet", hint="give more of the text first, or all of it")
        draft = self._draft(speaker, known, len(known), closed=False)
        return draft, LiveRows(self.text, self._config.text.end, arriving.write, arriving.close)

    def answer(self, request: Request, turns: Turns, ids: Sequence[int], more: bool) -> tuple[Draft, LiveRows | None]:
        """After the user turns of a conversation; its system prompt and earlier answers are not read."""
        end = self._config.text.end
        body = [*ids] if ids and more else [*ids, end]
        draft = self._draft(self._speaker(request), body, len(ids), closed=not more, turns=turns)
        return draft, LiveRows(self.text, end) if more else None

    def _speaker(self, request: Request) -> int:
        """The speaker's id, once nothing is asked that this family cannot do."""
        match request.voice:
            case Named(speaker=name):
                pass
            case other:
                raise wrong_kind(type(other).__name__.lower(), ["named"])
        if request.style and request.style.strip():
            raise no_instructions()
        if request.text_mode == "whole":
            raise UsageError(
                "this model takes its text word by word, not whole",
                hint="leave --text-mode out, or use -m 0.6b or -m 1.7b",
            )
        language = request.language or "auto"
        if language.lower() not in ("auto", *self._config.languages):
            raise unknown_language(language, self._config.languages)
        speakers = self._config.speakers
        if not name:
            return next(iter(speakers.values())).id
        if name.lower() not in speakers:
            raise unknown_voice(name, speakers)
        return speakers[name.lower()].id

    def _turn(self, words: str) -> list[int]:
        ids, tokenizer = self._config.text, self._tokenizer
        return [ids.start, *tokenizer.encode(f"user\n{words}"), ids.stop, *tokenizer.newline]

    def _draft(
        self, speaker: int, body: list[int], spoken: int, closed: bool = True, turns: Turns | None = None
    ) -> Draft:
        """The codec's side goes with the text from the tags on; the first token of the body ends the prompt."""
        before = self._turn_before if turns is None else turns.ids
        ids, control = self._config.text, self._config.control
        codec = [control.no_think, control.think_begin, control.think_end, speaker, control.pad, control.begin]
        text = [*before, ids.start, ids.assistant, *self._tokenizer.newline]
        text += [*[ids.pad] * (len(codec) - 2), ids.begin, body[0]]
        shared = len(text) - 1 if turns is None else 0  # no two conversations begin alike
        draft = Draft(text, codec, body[1:], closed, spoken, shared=shared, turns=turns)
        refuse_too_long(draft, self._config.max_positions)
        return draft
