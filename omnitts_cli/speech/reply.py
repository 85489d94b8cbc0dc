"""Reply: an answer that is being made, as text or as text and speech; Answer: a finished one."""

from __future__ import annotations

import codecs
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol, Self

import numpy as np

from omnitts_cli.audio.chunk import Chunk
from omnitts_cli.errors import Notice
from omnitts_cli.request import Failed
from omnitts_cli.speech.clip import Clip, join

if TYPE_CHECKING:
    from omnitts_cli.engine.engine import News
    from omnitts_cli.engine.text_slots import Token

NO_SAMPLES = np.zeros(0, np.float32)
CUT = {
    "limit": "the speech was cut at its longest",
    "stall": "the speech was cut because it did not end",
    "silence": "the speech was cut because it fell silent",
}


class Maker(Protocol):
    """What makes replies: an Assistant."""

    def wait_for(self, reply: Reply) -> None:
        """Runs the model until there is news of the reply."""
        ...

    def cancel(self, reply: Reply) -> None:
        """Stops its text and its speech."""
        ...

    def bytes_of(self, token: int) -> bytes:
        """Returns the UTF-8 bytes of a token."""
        ...


@dataclass(frozen=True)
class Answer:
    """A finished answer. `stopped`: end, limit (of its tokens) or cancelled."""

    text: str
    tokens: tuple[int, ...]
    stopped: str
    prompt_tokens: int | None  # None where it is not known
    cached_tokens: int  # of the prompt, from an earlier conversation that began alike
    seed: int
    first_s: float | None  # from the question to the first token; None for an empty answer
    text_s: float  # to the end of the text
    wall_s: float  # to the end of text and speech
    notices: tuple[Notice, ...] = ()
    clip: Clip | None = None  # its speech; None for an answer in text only
    first_sound_s: float | None = None  # from the question to the first sample
    count: int | None = None  # of tokens, as a server counts them

    @property
    def tokens_out(self) -> int | None:
        """Returns how many tokens it has; None where that is not known."""
        return self.count if self.count is not None or self.prompt_tokens is None else len(self.tokens)

    @property
    def tokens_per_s(self) -> float | None:
        """Returns the rate after the first token; None for fewer than two tokens."""
        count = self.tokens_out or 0
        if self.first_s is None or count < 2 or self.text_s <= self.first_s:
            return None
        return (count - 1) / (self.text_s - self.first_s)

    @property
    def rtf(self) -> float | None:
        """Returns the time it took, as a share of the length of its speech; None without speech."""
        return self.wall_s / self.clip.seconds if self.clip and self.clip.samples.size else None


class Event(NamedTuple):
    """More of a spoken answer: more text, or more sound. The other one is empty."""

    text: str
    samples: np.ndarray  # [samples] float32


class Reply:
    """An answer that is being written: iterate over its text, piece by piece. Closing it early frees its slot."""

    PARTS: ClassVar[int] = 1

    def __init__(self, maker: Maker, name: str, prompt_tokens: int, seed: int) -> None:
        self._maker, self.name = maker, name
        self._news: deque[Token | News] = deque()
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")  # characters may be split between tokens
        self._prompt_tokens, self._seed = prompt_tokens, seed
        self._begun, self._ended = time.perf_counter(), 0.0
        self._text_ended: float | None = None
        self._first: float | None = None
        self._pieces: list[str] = []
        self._text_stopped: str | None = None
        self._coming = self._parts = self.PARTS  # not delivered to the end, and not looked at to the end
        self.cached = 0
        self.tokens: list[int] = []
        self.stopped: str | None = None

    def __iter__(self) -> Iterator[str]:
        yield from (event.text for event in self.events())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the answer here, if it has not ended."""
        if self.stopped is None:
            self._maker.cancel(self)
            self._finish("cancelled")

    def answer(self) -> Answer:
        """Returns the whole answer, for which it waits."""
        for _ in self.events():
            pass
        assert self.stopped is not None
        return Answer(
            text="".join(self._pieces),
            tokens=tuple(self.tokens),
            stopped=self.stopped,
            prompt_tokens=self._prompt_tokens,
            cached_tokens=self.cached,
            seed=self._seed,
            first_s=None if self._first is None else self._first - self._begun,
            text_s=(self._text_ended or self._ended) - self._begun,
            wall_s=self._ended - self._begun,
        )

    def deliver(self, news: Token | News) -> bool:
        """Keeps news until `events` reads them; returns whether they are the last. For `Assistant`."""
        self._news.append(news)
        if isinstance(news, Failed):
            return True
        self._coming -= news.last
        return not self._coming

    def has_news(self) -> bool:
        """Returns whether there is something to look at. For `Assistant`."""
        return bool(self._news)

    def events(self) -> Iterator[Event]:
        """Returns its text, and its sound if it is spoken, as they are made."""
        while self.stopped is None:
            self._maker.wait_for(self)
            news = self._news.popleft()
            if isinstance(news, Failed):
                self._finish("failed")
                raise news.error
            event = self._event(news)
            self._parts -= news.last
            if not self._parts:
                self._finish(self._text_stopped or "end")
            if event.text or event.samples.size:
                yield event

    def _event(self, news: Any) -> Event:
        return Event(self._read(news), NO_SAMPLES)

    def _read(self, news: Token) -> str:
        """The text of a token; at the end, half a character if the answer was cut inside one."""
        if news.id is not None:
            self._first = self._first or time.perf_counter()
            self.tokens.append(news.id)
            text = self._decoder.decode(self._maker.bytes_of(news.id))
        else:
            self._text_stopped, self.cached, self._text_ended = news.stopped, news.cached, time.perf_counter()
            text = self._decoder.decode(b"", final=True)
        if text:
            self._pieces.append(text)
        return text

    def _finish(self, stopped: str) -> None:
        self.stopped, self._ended = stopped, time.perf_counter()


class SpokenReply(Reply):
    """An answer that is spoken while it is written: iterate over its text and its sound as they are made.

    Each event has text or samples, and the text of a word comes before its sound.
    """

    PARTS: ClassVar[int] = 2  # text and sound end in any order

    def __init__(self, maker: Maker, name: str, prompt_tokens: int, seed: int, sample_rate: int) -> None:
        super().__init__(maker, name, prompt_tokens, seed)
        self.sample_rate = sample_rate
        self._chunks: list[Chunk] = []
        self._first_sound: float | None = None

    def __iter__(self) -> Iterator[Event]:  # type: ignore[override]
        return self.events()

    @property
    def seconds(self) -> float:
        """Returns the seconds of speech so far."""
        return sum(chunk.pcm.size for chunk in self._chunks) / self.sample_rate

    def answer(self) -> Answer:
        """Returns the whole answer with its speech, for which it waits."""
        written = super().answer()
        why = self._chunks[-1].stopped if self._chunks else None
        notices = (Notice(CUT[why]),) if why in CUT else ()
        codes = np.concatenate([chunk.codes for chunk in self._chunks]) if self._chunks else np.zeros((0, 0), np.int64)
        clip = Clip(
            join([chunk.pcm for chunk in self._chunks]), self.sample_rate, self._seed, notices=notices, codes=codes
        )
        first = None if self._first_sound is None else self._first_sound - self._begun
        return replace(written, clip=clip, first_sound_s=first, notices=notices)

    def _event(self, news: Any) -> Event:
        if not isinstance(news, Chunk):
            return super()._event(news)
        self._chunks.append(news)
        if news.pcm.size:
            self._first_sound = self._first_sound or time.perf_counter()
        return Event("", news.pcm)
