"""Assistant: an open model that answers questions in text. Used by the command line, the bench and Python programs."""

from __future__ import annotations

import codecs
import secrets
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, BinaryIO, Self

from omnitts_cli.errors import InputError, Notice, UsageError

if TYPE_CHECKING:
    from omnitts_cli.engine.text_loop import TextLoop, Token
    from omnitts_cli.models.audio_tower import Sound
    from omnitts_cli.models.thinker import Message

MOST_TOKENS = 1024
LONGEST_S = 600.0  # of one recording

__all__ = ["Answer", "Assistant", "Conversation", "Reply", "load_assistant"]


def load_assistant(
    model: str | PathLike[str] = "omni",
    *,
    device: str = "auto",
    dtype: str = "auto",
    slots: int | None = None,
    context: int | None = None,
    sound: bool = False,
    **machine: Any,
) -> Assistant:
    """Returns an open model that answers questions: a name, a folder, or `hf:ORG/REPO[@REV]`.

    `slots` are questions answered at the same time, `context` the tokens of one conversation with its answer. With
    `sound`, questions may be recordings.
    """
    from omnitts_cli.speech import load_thinker

    given = {"device": device, "dtype": dtype, "slots": slots, **machine}
    return Assistant(load_thinker.open_text_loop(fspath(model), positions=context, sound=sound, **given))


@dataclass(frozen=True)
class Answer:
    """A finished answer. `stopped`: end, limit (of its tokens) or cancelled."""

    text: str
    tokens: tuple[int, ...]
    stopped: str
    prompt_tokens: int
    cached_tokens: int  # of the prompt, from an earlier conversation that began alike
    seed: int
    first_s: float | None  # from the question to the first token; None for an empty answer
    wall_s: float
    notices: tuple[Notice, ...] = ()

    @property
    def tokens_per_s(self) -> float | None:
        """Returns the rate after the first token; None for fewer than two tokens."""
        if self.first_s is None or len(self.tokens) < 2 or self.wall_s <= self.first_s:
            return None
        return (len(self.tokens) - 1) / (self.wall_s - self.first_s)


class Reply:
    """An answer that is being written: iterate over its text, piece by piece. Closing it early frees its slot."""

    def __init__(self, assistant: Assistant, number: int, prompt_tokens: int, seed: int) -> None:
        self._assistant, self._number = assistant, number
        self._news: deque[Token] = deque()
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")  # characters may be split between tokens
        self._prompt_tokens, self._seed = prompt_tokens, seed
        self._begun, self._ended = time.perf_counter(), 0.0
        self._first: float | None = None
        self._pieces: list[str] = []
        self.cached = 0
        self.tokens: list[int] = []
        self.stopped: str | None = None

    def __iter__(self) -> Iterator[str]:
        while self.stopped is None:
            piece = self._take(self._assistant.next_token(self))
            if piece:
                self._pieces.append(piece)
                yield piece

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the answer here, if it has not ended."""
        if self.stopped is None:
            self._assistant.cancel(self)
            self._finish("cancelled")

    def answer(self) -> Answer:
        """Returns the whole answer, for which it waits."""
        for _ in self:
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
            wall_s=self._ended - self._begun,
        )

    def _take(self, news: Token) -> str:
        if news.error is not None:
            self._finish("failed")
            raise news.error
        if news.id is not None:
            self._first = self._first or time.perf_counter()
            self.tokens.append(news.id)
            return self._decoder.decode(self._assistant.bytes_of(news.id))
        assert news.stopped is not None
        self.cached = news.cached
        self._finish(news.stopped)
        return self._decoder.decode(b"", final=True)  # half a character, if the answer was cut inside one

    def _finish(self, stopped: str) -> None:
        self.stopped, self._ended = stopped, time.perf_counter()


class Assistant:
    """An open model. Its methods may be called from several threads at once: their answers are written together."""

    def __init__(self, loop: TextLoop) -> None:
        self.loop = loop
        self._lock = threading.Lock()
        self._replies: dict[int, Reply] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends all answers."""
        for reply in list(self._replies.values()):
            reply.close()

    def ask(
        self,
        question: str = "",
        *,
        audio: str | PathLike[str] | None = None,
        system: str | None = None,
        **options: Any,
    ) -> Answer:
        """Returns the answer to one question in words, a recording, or both. `options` are those of `reply`."""
        sounds = (listen(audio),) if audio is not None else ()
        return self.reply(conversation(question, system, sounds), **options).answer()

    def ask_all(self, questions: Iterable[str], *, system: str | None = None, **options: Any) -> list[Answer]:
        """Returns the answers to several questions, in their order. They are written together."""
        return [reply.answer() for reply in [self.reply(conversation(one, system), **options) for one in questions]]

    def stream(self, question: str, *, system: str | None = None, **options: Any) -> Reply:
        """Returns the answer to one question as it is written."""
        return self.reply(conversation(question, system), **options)

    def conversation(self, messages: Sequence[Message] = (), *, system: str | None = None) -> Conversation:
        """Returns a conversation, which remembers its questions and answers."""
        first = conversation(None, system) if system else []
        return Conversation(self, [*first, *messages])

    def reply(
        self,
        messages: Sequence[Message],
        *,
        max_tokens: int | None = None,
        temperature: float = 0.0,
        top_p: float = 1.0,
        top_k: int = 0,
        seed: int | None = None,
    ) -> Reply:
        """Returns the answer that follows `messages`, as it is written. Temperature 0 takes the likeliest tokens.

        Without `max_tokens` it may have 1024, or as many as fit.
        """
        from omnitts_cli.engine.text_loop import TextRequest

        if not any(message.role == "user" for message in messages):
            raise UsageError("a conversation needs a question", hint='omnitts ask "a question"')
        prompt = self.loop.model.chat.prompt(messages)
        seed = secrets.randbelow(2**31) if seed is None else seed
        most = max(1, min(MOST_TOKENS, self.loop.plan.positions - len(prompt))) if max_tokens is None else max_tokens
        sounds = tuple(sound for message in messages for sound in message.sounds)
        request = TextRequest(prompt, most, temperature, top_k, top_p, seed, sounds=sounds)
        with self._lock:
            number = self.loop.submit(request)
            reply = self._replies[number] = Reply(self, number, len(prompt), seed)
        return reply

    def bytes_of(self, token: int) -> bytes:
        """Returns the UTF-8 bytes of a token."""
        return self.loop.model.chat.bytes_of(token)

    def next_token(self, reply: Reply) -> Token:
        """Returns the next news of a reply; runs the model until there is some. For `Reply`."""
        while not reply._news:
            with self._lock:
                if reply._news:  # another thread has just run the model
                    break
                for news in self.loop.step():
                    owner = self._replies.get(news.request)
                    if owner is None:  # cancelled
                        continue
                    owner._news.append(news)
                    if news.stopped is not None:
                        del self._replies[news.request]
        return reply._news.popleft()

    def cancel(self, reply: Reply) -> None:
        """Stops a reply. For `Reply`."""
        with self._lock:
            if self._replies.pop(reply._number, None) is not None:
                self.loop.cancel(reply._number)


@dataclass
class Conversation:
    """Questions and answers, all of which the next answer depends on. Only what is new is computed."""

    assistant: Assistant
    messages: list[Message] = field(default_factory=list)

    def ask(self, question: str = "", *, audio: str | PathLike[str] | None = None, **options: Any) -> Answer:
        """Returns the answer. A cancelled answer is not remembered, nor is its question."""
        sounds = (listen(audio),) if audio is not None else ()
        return self.keep(question, self.stream(question, sounds, **options).answer(), sounds)

    def stream(self, question: str, sounds: Sequence[Sound] = (), **options: Any) -> Reply:
        """Returns the answer as it is written; `keep` remembers it."""
        return self.assistant.reply([*self.messages, *conversation(question, None, sounds)], **options)

    def keep(self, question: str, answer: Answer, sounds: Sequence[Sound] = ()) -> Answer:
        """Remembers a question and its answer, which it returns."""
        from omnitts_cli.models.thinker import Message

        if answer.stopped != "cancelled":
            asked = Message("user", question, sounds=tuple(sounds))
            self.messages += [asked, Message("assistant", answer.text, answer.tokens)]
        return answer


def conversation(question: str | None, system: str | None, sounds: Sequence[Sound] = ()) -> list[Message]:
    """The turns of one question; InputError if it has neither words nor sound."""
    from omnitts_cli.models.thinker import Message

    if question is not None and not question.strip() and not sounds:
        raise InputError("the question is empty", hint='omnitts ask "a question"')
    first = [Message("system", system)] if system else []
    return [*first, Message("user", question, sounds=tuple(sounds))] if question is not None else first


def listen(source: str | PathLike[str], stdin: BinaryIO | None = None) -> Sound:
    """A recording of 0.1 s to 10 minutes as a question; `-` reads `stdin`. InputError for what is not sound."""
    from omnitts_cli.audio.read import read_clip
    from omnitts_cli.models.audio_tower import RATE, SHORTEST_S, Sound

    try:
        clip = read_clip(source, rate=RATE, stdin=stdin, longest_s=LONGEST_S, shortest_s=SHORTEST_S)
    except InputError as error:  # its words are about clips to clone
        message = error.message.replace("reference clip", "sound")
        message = message.replace("1-30 s of one speaker is needed", f"at most {LONGEST_S / 60:g} minutes are answered")
        hint = None if error.hint and "voice" in error.hint else error.hint
        hint = None if hint and ("clone" in hint or "--ref-" in hint) else hint
        raise InputError(message, cause=error.cause, hint=hint or f"a recording of {SHORTEST_S} s or more") from None
    return Sound.of(clip.sound)
