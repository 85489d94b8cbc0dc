"""ChatModel: what writes answers, be it a library or a server. ChatAssistant: one with a TTS, which speaks the answers.

It has the methods of an Assistant. The words of an answer go into live text, so that they are spoken as they arrive.
"""

import re
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from queue import SimpleQueue
from typing import Any, Protocol, Self

import numpy as np

from omnitts_cli.errors import UsageError
from omnitts_cli.models.thinker import Message
from omnitts_cli.settings.table import Speech, TextIn
from omnitts_cli.speech.assistant import MOST_TOKENS, Conversation, conversation
from omnitts_cli.speech.clip import Clip, join
from omnitts_cli.speech.live import LiveStream
from omnitts_cli.speech.reply import NO_SAMPLES, Answer, Event, Reply
from omnitts_cli.speech.script import Fed
from omnitts_cli.speech.tts import TTS
from omnitts_cli.speech.voices import VoiceLike, voice_for

SPOKEN_STYLE = (
    "Your answer will be read aloud. Use a few short sentences of plain words, without lists, headings, tables, code, "
    "symbols and emoji."
)


@dataclass(frozen=True)
class Wish:
    """How an answer is sampled. `max_tokens`: None for as many as usual."""

    max_tokens: int | None = None
    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0
    seed: int = 0


@dataclass(frozen=True)
class Written:
    """More of an answer. The last one says why it `stopped`, end or limit, and how many tokens there were, if known."""

    text: str = ""
    tokens: tuple[int, ...] = ()
    stopped: str | None = None
    tokens_in: int | None = None
    tokens_out: int | None = None


THOUGHT, ANSWER = "<think>", "</think>"
TAG = re.compile(f"{THOUGHT}|{ANSWER}")
CUT = re.compile("</?(?:t(?:h(?:i(?:nk?)?)?)?)?$|<$")
"""The beginning of a tag at the end of a text."""


class Unthought:
    """Removes what a model thinks before it answers, between <think> and </think>. The tags may be cut anywhere."""

    def __init__(self) -> None:
        self._held = ""  # the beginning of a tag, perhaps
        self._thinks = self._blank = False

    def add(self, text: str) -> str:
        """What of the text belongs to the answer, as far as it is known."""
        text, self._held, said = self._held + text, "", ""
        while found := TAG.search(text):
            said += self._answer(text[: found.start()])
            self._thinks, self._blank, text = found[0] == THOUGHT, True, text[found.end() :]
        if cut := CUT.search(text):
            text, self._held = text[: cut.start()], cut[0]
        return said + self._answer(text)

    def rest(self) -> str:
        """What looked like the beginning of a tag and is none."""
        held, self._held = self._held, ""
        return self._answer(held)

    def _answer(self, text: str) -> str:
        """Nothing while the model thinks; else the text, without the empty lines after a thought."""
        if self._thinks:
            return ""
        text = text.lstrip() if self._blank else text
        self._blank = self._blank and not text
        return text


class ChatModel(Protocol):
    """What writes answers."""

    name: str

    def write(self, messages: Sequence[Message], wish: Wish, left: threading.Event) -> Iterator[Written]:
        """Yields the answer that follows the messages as it is written. Ends early when `left` is set."""


class ChatAssistant:
    """A chat model and, for spoken answers, a TTS."""

    spoken_style = SPOKEN_STYLE

    def __init__(self, model: ChatModel, tts: TTS | None = None) -> None:
        self.model, self.tts = model, tts

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends all answers."""
        if self.tts is not None:
            self.tts.close()

    @property
    def voices(self) -> tuple[str, ...]:
        """Returns the names of the voices; none without a TTS."""
        return self.tts.voices if self.tts is not None else ()

    @property
    def sample_rate(self) -> int:
        """Returns the sample rate of its speech."""
        return self._speaker.sample_rate

    @property
    def _speaker(self) -> TTS:
        if self.tts is None:
            raise UsageError("this chat model was opened without a voice", hint="ChatAssistant(model, tts)")
        return self.tts

    def check_voice(self, voice: VoiceLike | None) -> None:
        """Raises an error for a voice that the TTS does not have."""
        voice_for(voice, self._speaker.engine.model)

    def conversation(self, messages: Sequence[Message] = (), *, system: str | None = None) -> Conversation:
        """Returns a conversation, which remembers its questions and answers."""
        return Conversation(self, [*(conversation(None, system) if system else []), *messages])

    def reply(self, messages: Sequence[Message], **options: Any) -> "ChatReply":
        """Returns the answer that follows `messages`, as it is written. The options are those of Assistant.reply."""
        return ChatReply(self.model, messages, wish_of(messages, options))

    def spoken_reply(
        self, messages: Sequence[Message], *, voice: VoiceLike | None = None, **options: Any
    ) -> "ChatReply":
        """Returns the answer that follows `messages`, as it is written and spoken."""
        wish, tts = wish_of(messages, options), self._speaker

        def speech(notify: Callable[[], None]) -> LiveStream:
            how = Speech(seed=wish.seed)
            stream = tts.open(Fed(), voice, TextIn(), how, safe=False, urgent=True, keep_codes=True, notify=notify)
            assert isinstance(stream, LiveStream)
            return stream

        return ChatReply(self.model, messages, wish, speech)


def wish_of(messages: Sequence[Message], options: dict[str, Any]) -> Wish:
    """The options, with a seed; UsageError for a conversation without a question."""
    if not any(message.role == "user" for message in messages):
        raise UsageError("a conversation needs a question", hint='omnitts ask "a question"')
    if any(message.sounds for message in messages):
        raise UsageError("this chat model takes text only", hint="leave the recording out")
    seed = options.pop("seed", None)
    return Wish(seed=secrets.randbelow(2**31) if seed is None else seed, **options)


class ChatReply(Reply):
    """An answer of a chat model. A thread reads it and gives its words to the speech; `events` has both."""

    def __init__(
        self,
        model: ChatModel,
        messages: Sequence[Message],
        wish: Wish,
        speech: Callable[[Callable[[], None]], LiveStream] | None = None,
    ) -> None:
        super().__init__(self, 0, 0, wish.seed)  # type: ignore[arg-type]  # it is its own maker
        self._model, self._messages, self._wish = model, messages, wish
        self._inbox: SimpleQueue[Written | Exception | None] = SimpleQueue()
        self._left = threading.Event()
        self._speech = None if speech is None else speech(lambda: self._inbox.put(None))
        self._sound: list[np.ndarray] = []
        self._first_sound: float | None = None
        self._counts: tuple[int | None, int | None] = (None, None)
        self._error: Exception | None = None
        self._thread: threading.Thread | None = None

    def cancel(self, reply: Reply) -> None:
        """Ends it: `close` of Reply."""
        self._left.set()
        if self._speech is not None:
            self._speech.close()

    def events(self) -> Iterator[Event]:
        """Returns its text, and its sound if it is spoken, as they are made. What was written before a failure is
        spoken to its end, and then the failure is raised.
        """
        if self._thread is None:  # the question is sent when its answer is wanted
            self._begun = time.perf_counter()
            self._thread = threading.Thread(target=self._write, name="omnitts answer", daemon=True)
            self._thread.start()
        while self.stopped is None:
            if isinstance(news := self._inbox.get(), Written):
                if text := self._taken(news):
                    yield Event(text, NO_SAMPLES)
            elif isinstance(news, Exception):
                self._error, self._text_stopped = news, "failed"
            for samples in self._spoken():
                yield Event("", samples)
            if self._text_stopped is not None and (self._speech is None or self._speech.complete):
                self._finish(self._text_stopped)
        if self._error is not None:
            raise self._error

    def answer(self) -> Answer:
        """Returns the whole answer, for which it waits."""
        written, clip = super().answer(), None
        notices = tuple(self._speech.account.notices) if self._speech is not None else ()
        if self._speech is not None:
            account = self._speech.account
            codes = np.concatenate(account.codes) if account.codes else np.zeros((0, 0), np.int64)
            clip = Clip(join(self._sound), self._speech.sample_rate, self._seed, notices=notices, codes=codes)
        first = None if self._first_sound is None else self._first_sound - self._begun
        tokens_in, tokens_out = self._counts
        return replace(
            written, clip=clip, first_sound_s=first, notices=notices, prompt_tokens=tokens_in, count=tokens_out
        )

    def _taken(self, news: Written) -> str:
        """The text of news."""
        if news.text or news.tokens:
            self._first = self._first or time.perf_counter()
        self.tokens += news.tokens
        if news.text:
            self._pieces.append(news.text)
        if news.stopped is not None:
            self._text_stopped, self._text_ended = news.stopped, time.perf_counter()
            self._counts = news.tokens_in, news.tokens_out
        return news.text

    def _spoken(self) -> Iterator[np.ndarray]:
        """The sound that is ready."""
        for chunk in self._speech.poll() if self._speech is not None else ():
            if chunk.samples.size:
                self._first_sound = self._first_sound or time.perf_counter()
                self._sound.append(chunk.samples)
                yield chunk.samples

    # ---- on a thread of its own

    def _write(self) -> None:
        failure: Exception | None = None
        answer = Unthought()
        try:
            for news in self._model.write(self._messages, self._wish, self._left):
                text = answer.add(news.text) + (answer.rest() if news.stopped is not None else "")
                self._inbox.put(replace(news, text=text))  # before its sound
                if self._speech is not None and text:
                    self._speech.write(text)
        except Exception as error:  # raised again where the answer is wanted
            failure = error
        if self._speech is not None:
            self._speech.end()
        if failure is not None:
            self._inbox.put(failure)


def most_tokens(wish: Wish, room: int) -> int:
    """The tokens of an answer, where there is room for so many."""
    return max(1, min(MOST_TOKENS, room)) if wish.max_tokens is None else wish.max_tokens
