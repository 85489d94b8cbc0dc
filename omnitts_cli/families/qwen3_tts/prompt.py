"""Prompter: a request -> the rows that open it. Every mode of the family ends here.

A row of the prompt is the sum of a text row and, except in the first rows, a row of the codec's side (a
control id, the speaker, a frame of the reference). So a prompt is first written down as a `Plan` of
ids, which can be read and compared, and becomes numbers in one place.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from hashlib import blake2b

import numpy as np
import torch
from torch import Tensor

from omnitts_cli.errors import InputError
from omnitts_cli.families.qwen3_tts.config import Config
from omnitts_cli.families.qwen3_tts.live import Arriving, LiveRows
from omnitts_cli.families.qwen3_tts.opening import Opening, opening
from omnitts_cli.families.qwen3_tts.text import TextTokenizer
from omnitts_cli.models.embed import FrameEmbedder
from omnitts_cli.models.roles import LiveText, Prompt, TextFeed, TooEarly
from omnitts_cli.models.text_rows import TextEmbedder
from omnitts_cli.request import Request, TextMode

Place = Callable[[np.ndarray], Tensor]
"""Puts an array where the model is."""


@dataclass(frozen=True)
class Plan:
    """Ids of the rows, before they are numbers. `codec` belongs to the last rows of `text`, one to one.

    At `speaker_at` (an index of `codec`) stands the speaker's row and from `frames_at` on the frames of
    the reference; the id written there is not used.
    """

    text: list[int]
    codec: list[int]
    feed: list[int] = field(default_factory=list)  # text heard later, one id per frame
    speaker_at: int | None = None
    frames_at: int | None = None
    shared: int = 0  # rows at the front that do not depend on the text


class Qwen3Prompter:
    """Fills the Prompter role."""

    def __init__(
        self,
        config: Config,
        tokenizer: TextTokenizer,
        text: TextEmbedder,
        frames: FrameEmbedder,
        place: Place = torch.from_numpy,
    ) -> None:
        self._config, self._tokenizer, self._place = config, tokenizer, place
        self._text, self._frames = text, frames

    def prompt(self, request: Request) -> Prompt:
        """The whole text is known."""
        start = opening(request, self._config, self._tokenizer)
        body = self._tokenizer.encode(spoken(request.text))
        mode = request.text_mode or ("streamed" if start.cloned else "whole")
        plan = self._plan(start, [*body, self._config.text.end], mode)
        self._fits(plan)
        return self._numbers(plan, start, len(body), closed=True)

    def live(self, request: Request, first: str) -> tuple[Prompt, LiveText]:
        """The text arrives later; `first` must hold at least one word and what ends it.

        A voice with a reference needs a word for about every row of it, as the first rows hear both.
        """
        start = opening(request, self._config, self._tokenizer)
        arriving = Arriving(self._tokenizer)
        known = arriving.write(first)
        needed = 1 if start.codes is None else max(1, len(start.codes) + 1 - len(start.transcript))
        if len(known) < needed:
            raise TooEarly(
                f"{len(known)} tokens of text are known; this voice needs {needed} to begin",
                hint="give more of the text first, or all of it",
            )
        plan = self._plan(start, known, "streamed")
        self._fits(plan)
        prompt = self._numbers(plan, start, len(known), closed=False)
        return prompt, LiveRows(arriving, self._rows_of_text, self._config.text.end)

    def _plan(self, start: Opening, body: list[int], mode: TextMode) -> Plan:
        """The head, then one of four endings: text whole or streamed, with or without a reference."""
        ids, control = self._config.text, self._config.control
        head = self._head(start)
        if start.codes is None and mode == "streamed":
            return replace(
                head,
                text=[*head.text, body[0]],
                codec=[*head.codec, control.begin],
                feed=body[1:],
                shared=len(head.text),
            )
        if start.codes is None:
            text = [*body, ids.pad]
            codec = [*[control.pad] * len(body), control.begin]
            return replace(head, text=head.text + text, codec=head.codec + codec, shared=len(head.text))
        return self._continued(head, start, body, mode, len(start.codes))

    def _continued(self, head: Plan, start: Opening, body: list[int], mode: TextMode, frames: int) -> Plan:
        """The talker goes on after the reference's last frame, as if it had said the reference itself."""
        ids, control = self._config.text, self._config.control
        text = [*start.transcript, *body]
        reference = [control.begin] * (frames + 1)  # the frames' own rows replace all but the first
        if mode == "whole":
            codec, frames_at = [control.pad] * len(text) + reference, len(text) + 1
            text, feed = text + [ids.pad] * len(reference), []
            known = len(start.transcript)
        else:
            codec, frames_at = reference, 1
            text, feed = text + [ids.pad] * (len(reference) - len(text)), text[len(reference) :]
            text = text[: len(reference)]
            known = min(len(start.transcript), len(reference) - 1)
        return replace(
            head,
            text=head.text + text,
            codec=head.codec + codec,
            feed=feed,
            frames_at=len(head.codec) + frames_at,
            shared=len(head.text) + known,
        )

    def _head(self, start: Opening) -> Plan:
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
        return Plan(text, [*codec, control.pad], speaker_at=speaker_at)

    def _fits(self, plan: Plan) -> None:
        rows, most = len(plan.text) + len(plan.feed), self._config.max_positions
        if rows >= most:
            raise InputError(
                f"text and reference need {rows} positions; the model has {most}, and speech needs some of them",
                hint="split the text, or use a shorter reference clip",
            )

    @torch.no_grad()
    def _numbers(self, plan: Plan, start: Opening, text_tokens: int, closed: bool) -> Prompt:
        ids = self._place(np.array([*plan.text, *plan.feed, self._config.text.pad, *plan.codec]))
        texts = self._text.rows(ids[: -len(plan.codec)])
        codecs = self._frames.control(ids[-len(plan.codec) :])
        rows, feed, pad = texts[: len(plan.text)], texts[len(plan.text) : -1], texts[-1]
        if plan.speaker_at is not None:
            codecs[plan.speaker_at] = self._place(start.embedding).to(codecs.dtype)
        if plan.frames_at is not None:
            frames = self._place(start.codes)
            codecs[plan.frames_at : plan.frames_at + len(frames)] = self._frames.frame(frames)
        rows[-len(plan.codec) :] += codecs
        return Prompt(
            rows=rows,
            text=TextFeed(feed, closed),
            pad=pad,
            text_tokens=text_tokens,
            shared=plan.shared,
            shared_key=self._key(plan, start),
            reference=start.codes,
        )

    def _rows_of_text(self, ids: list[int]) -> Tensor:
        with torch.no_grad():
            return self._text.rows(self._place(np.array(ids, np.int64)))

    def _key(self, plan: Plan, start: Opening) -> tuple[object, ...]:
        """Equal keys, equal shared rows: everything that those rows are made of."""
        spoken_rows = plan.shared - (len(plan.text) - len(plan.codec))  # shared rows with a codec side
        content = blake2b(digest_size=16)
        if start.embedding is not None:
            content.update(start.embedding.tobytes())
        if plan.frames_at is not None and spoken_rows > plan.frames_at:
            content.update(start.codes[: spoken_rows - plan.frames_at].tobytes())
        return (tuple(plan.text[: plan.shared]), tuple(plan.codec[:spoken_rows]), content.digest())


def spoken(text: str) -> str:
    """The text without white space around it, which the template would mix with its own; or an error."""
    text = text.strip()
    if not text:
        raise InputError("there is no text to speak", hint="give at least one word")
    return text
