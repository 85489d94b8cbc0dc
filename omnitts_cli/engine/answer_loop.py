"""AnswerLoop: submit, cancel, step. A thinker writes answers, and a talker speaks them while they are written.

One turn of both: calls, admission, one token for every answer, one frame for every voice, the codec. The tokens of an
answer go to the talker as soon as the host knows them. Frames do not depend on when they arrive: without the next token
a voice misses a frame, and goes on afterwards.
"""

from __future__ import annotations

from dataclasses import dataclass

from omnitts_cli.audio.chunk import Chunk
from omnitts_cli.engine.engine import Engine
from omnitts_cli.engine.engine import News as SpeechNews
from omnitts_cli.engine.text_loop import TextLoop
from omnitts_cli.engine.text_slots import TextRequest, Token
from omnitts_cli.errors import OmniError
from omnitts_cli.models.prompts import Turns
from omnitts_cli.request import Request

LEAD = 8
"""Tokens that the talker has not read yet. If every voice has as many, the thinker's step gives way to frames."""


@dataclass(frozen=True)
class Sound:
    """News of one voice: sound, or with `error` the end."""

    request: int
    chunk: Chunk | None = None
    error: OmniError | None = None

    @property
    def last(self) -> bool:
        """Whether no more sound follows."""
        return self.chunk is None or self.chunk.last


@dataclass(eq=False)
class Voice:
    """The talker's part of one answer."""

    request: Request
    name: str = ""  # in the engine, from the moment when it is known what the talker reads
    fed: int = 0  # tokens
    closed: bool = False  # no more tokens follow


class AnswerLoop:
    """Answers of one model. All methods belong to one thread. Without an engine, answers are text only."""

    def __init__(self, text: TextLoop, speech: Engine | None = None) -> None:
        self.text, self.speech = text, speech
        self.model, self.plan, self.device = text.model, text.plan, text.device
        self._voices: dict[int, Voice] = {}  # of answers whose sound has not ended, by number
        self._numbers: dict[str, int] = {}  # by name in the engine
        self._silent: list[Sound] = []  # ends of voices that had nothing to say

    def submit(self, request: TextRequest, voice: Request | None = None) -> int:
        """Queue a question and return its number. `voice`: how to speak the answer; its text is not used."""
        assert voice is None or (self.speech is not None and request.spoken)
        number = self.text.submit(request)
        if voice is not None:
            self._voices[number] = Voice(voice)
        return number

    def cancel(self, number: int) -> None:
        """Stop text and speech of a request in whatever state."""
        self.text.cancel(number)
        voice = self._voices.pop(number, None)
        if voice is not None and voice.name:
            del self._numbers[voice.name]
            self._speaking.cancel(voice.name)

    @property
    def _speaking(self) -> Engine:
        assert self.speech is not None, "an answer has a voice only if there is a talker"
        return self.speech

    @property
    def busy(self) -> bool:
        """Whether anything is left for `step`."""
        return self.text.busy or bool(self._silent) or (self.speech is not None and self.speech.busy)

    def step(self) -> list[Token | Sound]:
        """One turn; returns the tokens, the sound and the ends that have arrived."""
        news: list[Token | Sound] = []
        if self.text.busy:
            for one in self.text.step(hold=self._ahead()):
                self._pass_on(one)
                if one.turns is None:
                    news.append(one)
        if self.speech is not None and self.speech.busy and not self.speech.sleeps:
            news += [made for one in self.speech.step() if (made := self._sound(one)) is not None]
        news += self._silent
        self._silent = []
        return news

    def _ahead(self) -> bool:
        """Whether frames are more urgent than tokens: every answer that could gain one is far ahead of its voice."""
        if not self._numbers:
            return False
        voices = [self._voices.get(number) for number in self.text.ready]
        return bool(voices) and all(
            voice is not None and voice.name and not voice.closed and self._speaking.unread(voice.name) >= LEAD
            for voice in voices
        )

    def _pass_on(self, news: Token) -> None:
        """Give the talker what the thinker has read or written."""
        voice = self._voices.get(news.request)
        if voice is None or voice.closed:
            return
        if news.turns is not None:
            self._open(news.request, voice, news.turns)
        elif news.error is not None:
            self.cancel(news.request)
        elif news.id is None or self.model.chat.is_control(news.id):
            self._close(news.request, voice)
        else:
            voice.fed += 1
            self._speaking.feed(voice.name, [news.id])

    def _open(self, number: int, voice: Voice, turns: Turns) -> None:
        voice.name = self._speaking.submit(voice.request, live=True, turns=turns)
        self._numbers[voice.name] = number

    def _close(self, number: int, voice: Voice) -> None:
        """The text has ended; without a word the talker does not begin."""
        voice.closed = True
        if voice.fed:
            self._speaking.finish(voice.name)
            return
        if voice.name:
            del self._numbers[voice.name]
            self._speaking.cancel(voice.name)
        del self._voices[number]
        self._silent.append(Sound(number))

    def _sound(self, news: SpeechNews) -> Sound | None:
        number = self._numbers.get(news.request)
        if number is None:  # cancelled
            return None
        made = Sound(number, news) if isinstance(news, Chunk) else Sound(number, error=news.error)
        if made.last:
            del self._numbers[news.request], self._voices[number]
        if made.error is not None:
            self.text.cancel(number)
        return made
