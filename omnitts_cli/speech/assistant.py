"""Assistant: an open model that answers questions, in text or in text and speech. For the command line and programs."""

from __future__ import annotations

import os
import secrets
import stat
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol, Self

from omnitts_cli.audio.read import read_sound
from omnitts_cli.errors import InputError, UsageError
from omnitts_cli.request import Request, Sampling
from omnitts_cli.speech.reply import Answer, Reply, SpokenReply
from omnitts_cli.speech.voices import Voice, voice_for

if TYPE_CHECKING:
    from omnitts_cli.engine.answer_loop import AnswerLoop
    from omnitts_cli.models.audio_tower import Sound
    from omnitts_cli.models.thinker import Message

MOST_TOKENS = 1024
LONGEST_S = 600.0  # of one recording

__all__ = ["Assistant", "Conversation", "load_assistant"]


class Answers(Protocol):
    """What answers questions: an Assistant, or a ChatAssistant with a model that is not ours."""

    @property
    def voices(self) -> tuple[str, ...]:
        """Returns the names of the voices; none if it does not speak."""

    @property
    def sample_rate(self) -> int:
        """Returns the sample rate of its speech."""

    @property
    def spoken_style(self) -> str:
        """Returns the system prompt for answers that are spoken, unless another one is given."""

    def check_voice(self, voice: str | Voice | None) -> None:
        """Raises an error for a voice that it does not have."""

    def conversation(self, messages: Sequence[Message] = (), *, system: str | None = None) -> Conversation:
        """Returns a conversation, which remembers its questions and answers."""

    def reply(self, messages: Sequence[Message], **options: Any) -> Reply:
        """Returns the answer that follows `messages`, as it is written."""

    def spoken_reply(self, messages: Sequence[Message], *, voice: str | Voice | None = None, **options: Any) -> Reply:
        """Returns the answer that follows `messages`, as it is written and spoken."""


def load_assistant(
    model: str | PathLike[str] = "omni",
    *,
    device: str = "auto",
    dtype: str = "auto",
    slots: int | None = None,
    context: int | None = None,
    sound: bool = False,
    speech: bool = False,
    **machine: Any,
) -> Assistant:
    """Returns an open model that answers questions: a name, a folder, or `hf:ORG/REPO[@REV]`.

    `slots` are questions answered at the same time, `context` the tokens of one conversation with its answer. With
    `sound`, questions may be recordings; with `speech`, answers may be spoken.
    """
    from omnitts_cli.speech import load_thinker

    given = {"device": device, "dtype": dtype, "slots": slots, **machine}
    loop = load_thinker.open_answer_loop(fspath(model), positions=context, sound=sound, speech=speech, **given)
    return Assistant(loop)


class Assistant:
    """An open model. Its methods may be called from several threads at once: their answers are written together."""

    def __init__(self, loop: AnswerLoop) -> None:
        self.loop = loop
        self._lock = threading.Lock()
        self._replies: dict[str, Reply] = {}

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

    @property
    def voices(self) -> tuple[str, ...]:
        """Returns the names of the voices; none if the model was opened without `speech`."""
        return tuple(self.loop.speech.model.speakers) if self.loop.speech else ()

    @property
    def sample_rate(self) -> int:
        """Returns the sample rate of its speech."""
        assert self.loop.speech is not None
        return self.loop.speech.model.facts.sample_rate

    def check_voice(self, voice: str | Voice | None) -> None:
        """Raises an error for a voice that the model does not have."""
        self._voice_for(voice)

    @property
    def spoken_style(self) -> str:
        """Returns the system prompt for answers that are spoken, unless another one is given."""
        return self.loop.model.spoken_style

    def speak(
        self,
        question: str = "",
        *,
        audio: str | PathLike[str] | None = None,
        system: str | None = None,
        voice: str | Voice | None = None,
        **options: Any,
    ) -> SpokenReply:
        """Returns the answer as it is written and spoken: `for text, samples in assistant.speak("Why?")`.

        Without `system`, the model is asked for sentences that can be read aloud; "" leaves it out. `options` are
        those of `reply`, and `speech_sampling`, a Sampling for the voice.
        """
        sounds = (listen(audio),) if audio is not None else ()
        style = self.spoken_style if system is None else system
        return self.spoken_reply(conversation(question, style, sounds), voice=voice, **options)

    def conversation(self, messages: Sequence[Message] = (), *, system: str | None = None) -> Conversation:
        """Returns a conversation, which remembers its questions and answers."""
        first = conversation(None, system) if system else []
        return Conversation(self, [*first, *messages])

    def reply(self, messages: Sequence[Message], **options: Any) -> Reply:
        """Returns the answer that follows `messages`, as it is written.

        Options: max_tokens (1024, or as many as fit), temperature (0 takes the likeliest tokens), top_p, top_k, seed.
        """
        return self._reply(messages, None, **options)

    def spoken_reply(
        self,
        messages: Sequence[Message],
        *,
        voice: str | Voice | None = None,
        speech_sampling: Sampling | None = None,
        **options: Any,
    ) -> SpokenReply:
        """Returns the answer that follows `messages`, as it is written and spoken."""
        who = self._voice_for(voice)
        reply = self._reply(messages, Request("", who.identity, sampling=speech_sampling or Sampling()), **options)
        assert isinstance(reply, SpokenReply)
        return reply

    def _voice_for(self, voice: str | Voice | None) -> Voice:
        if self.loop.speech is None:
            raise UsageError("the model was opened without speech", hint="load_assistant(..., speech=True)")
        return voice_for(voice, self.loop.speech.model)

    def _reply(
        self,
        messages: Sequence[Message],
        voice: Request | None,
        *,
        max_tokens: int | None = None,
        temperature: float = 0.0,
        top_p: float = 1.0,
        top_k: int = 0,
        seed: int | None = None,
    ) -> Reply:
        from omnitts_cli.engine.text_slots import TextRequest

        questions = sum(message.role == "user" for message in messages)
        if not questions:
            raise UsageError("a conversation needs a question", hint='omnitts ask "a question"')
        prompt = self.loop.model.chat.prompt(messages)
        seed = secrets.randbelow(2**31) if seed is None else seed
        most = max(1, min(MOST_TOKENS, self.loop.plan.positions - len(prompt))) if max_tokens is None else max_tokens
        sounds = tuple(sound for message in messages for sound in message.sounds)
        request = TextRequest(prompt, most, temperature, top_k, top_p, seed, sounds=sounds, questions=questions)
        with self._lock:
            name = self.loop.submit(request, replace(voice, seed=seed) if voice else None)
            reply = Reply(self, name, len(prompt), seed)
            if voice is not None:
                reply = SpokenReply(self, name, len(prompt), seed, self.sample_rate)
            self._replies[name] = reply
        return reply

    def bytes_of(self, token: int) -> bytes:
        """Returns the UTF-8 bytes of a token."""
        return self.loop.model.chat.bytes_of(token)

    def wait_for(self, reply: Reply) -> None:
        """Runs the model until there is news of a reply. For `Reply`."""
        while not reply.has_news():
            with self._lock:
                if reply.has_news():  # another thread has just run the model
                    break
                for news in self.loop.step():
                    owner = self._replies.get(news.request)  # None: cancelled
                    if owner is not None and owner.deliver(news):
                        del self._replies[news.request]

    def cancel(self, reply: Reply) -> None:
        """Stops a reply, its text and its speech. For `Reply`."""
        with self._lock:
            if self._replies.pop(reply.name, None) is not None:
                self.loop.cancel(reply.name)


@dataclass
class Conversation:
    """Questions and answers, all of which the next answer depends on. Only what is new is computed."""

    assistant: Answers
    messages: list[Message] = field(default_factory=list)

    def ask(self, question: str = "", *, audio: str | PathLike[str] | None = None, **options: Any) -> Answer:
        """Returns the answer. A cancelled answer is not remembered, nor is its question."""
        sounds = (listen(audio),) if audio is not None else ()
        return self.keep(question, self.stream(question, sounds, **options).answer(), sounds)

    def stream(self, question: str, sounds: Sequence[Sound] = (), **options: Any) -> Reply:
        """Returns the answer as it is written; `keep` remembers it."""
        return self.assistant.reply([*self.messages, *conversation(question, None, sounds)], **options)

    def speak(self, question: str = "", sounds: Sequence[Sound] = (), **options: Any) -> Reply:
        """Returns the answer as it is written and spoken; `keep` remembers it."""
        return self.assistant.spoken_reply([*self.messages, *conversation(question, None, sounds)], **options)

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
    from omnitts_cli.models.audio_tower import RATE, SHORTEST_S, Sound

    record = f"a recording of {SHORTEST_S} s to {LONGEST_S / 60:g} minutes"
    limits: dict[str, Any] = {"rate": RATE, "longest_s": LONGEST_S, "shortest_s": SHORTEST_S, "record": record}
    try:
        if stdin is None and is_pipe(source):  # such as <(sox in.wav -t wav -)
            with open(source, "rb") as pipe:
                clip = read_sound("-", stdin=pipe, **limits)
        else:
            clip = read_sound(source, stdin=stdin, **limits)
    except InputError as error:
        hint = error.hint
        if not hint and " lasts " in error.message:  # too long
            hint = f"ffmpeg -i {fspath(source)} -t {LONGEST_S:g} short.wav"
        elif not hint and "not found" not in error.message:
            hint = record
        raise InputError(error.message, cause=error.cause, hint=hint) from None
    return Sound.of(clip.sound)


def is_pipe(source: str | PathLike[str]) -> bool:
    """Returns whether it is a pipe with a name."""
    try:
        return stat.S_ISFIFO(os.stat(source).st_mode)
    except (OSError, ValueError):
        return False
