"""Prompter: a request -> the draft of the rows that open it. Every mode of the family ends here."""

from __future__ import annotations

from dataclasses import replace

import torch

from omnitts_cli.families.common.live import Arriving, LiveRows
from omnitts_cli.families.common.refusals import text_to_speak
from omnitts_cli.families.common.tokenizer import TextTokenizer
from omnitts_cli.families.qwen3_tts.config import Config
from omnitts_cli.families.qwen3_tts.opening import Opening, opening
from omnitts_cli.models.embed import Drafter, FrameEmbedder, Place, PromptRows, TextEmbedder, refuse_too_long
from omnitts_cli.models.roles import Draft, LiveText, TooEarly
from omnitts_cli.request import Request, TextMode


class Qwen3Prompter(Drafter):
    """Fills the Prompter role."""

    def __init__(
        self,
        config: Config,
        tokenizer: TextTokenizer,
        text: TextEmbedder,
        frames: FrameEmbedder,
        place: Place = torch.from_numpy,
    ) -> None:
        super().__init__(PromptRows(text, frames, config.text.pad, place))
        self._config, self._tokenizer = config, tokenizer

    def draft(self, request: Request) -> Draft:
        start = opening(request, self._config, self._tokenizer)
        body = self._tokenizer.encode(text_to_speak(request.text))
        mode = request.text_mode or ("streamed" if start.cloned else "whole")
        return self._draft(start, [*body, self._config.text.end], mode, spoken=len(body))

    def live(self, request: Request, first: str) -> tuple[Draft, LiveText]:
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
        draft = self._draft(start, known, "streamed", spoken=len(known), closed=False)
        return draft, LiveRows(arriving, self._rows.text, self._config.text.end)

    def _draft(self, start: Opening, body: list[int], mode: TextMode, spoken: int, closed: bool = True) -> Draft:
        draft = self._ids(start, body, mode)
        draft = replace(draft, spoken=spoken, closed=closed, embedding=start.embedding, reference=start.codes)
        refuse_too_long(draft, self._config.max_positions)
        return draft

    def _ids(self, start: Opening, body: list[int], mode: TextMode) -> Draft:
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

    def _continued(self, head: Draft, start: Opening, body: list[int], mode: TextMode, frames: int) -> Draft:
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

    def _head(self, start: Opening) -> Draft:
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
        return Draft(text, [*codec, control.pad], speaker_at=speaker_at)
