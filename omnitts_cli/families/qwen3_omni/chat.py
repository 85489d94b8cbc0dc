"""Chat: conversations as token ids, put together by number, so that user text never makes a control token."""

from collections.abc import Sequence
from dataclasses import dataclass

from omnitts_cli.errors import ModelError, UsageError
from omnitts_cli.families.common.tokenizer import TextTokenizer
from omnitts_cli.models.thinker import Message

ROLES = ("system", "user", "assistant")

SPOKEN_STYLE = (
    "You are Qwen-Omni, a smart voice assistant created by Alibaba Qwen. You are a virtual voice assistant with no "
    "gender or age. Interact with users using short (no more than 50 words), brief, straightforward language, "
    "maintaining a natural tone. Never use bullet points or overly structured language. Your output must consist only "
    "of the spoken content that the user should listen to, without symbols, in the user's language."
)
"""The system prompt for answers that will be spoken: without one, the talker reads markup aloud."""


@dataclass(frozen=True)
class SoundIds:
    """What stands for a sound: one pad token for each of its rows, between two others."""

    start: int
    pad: int
    end: int


@dataclass(frozen=True)
class ChatIds:
    """Tokens that the template places by number."""

    start: int  # of a turn
    stop: int
    guards: tuple[int, ...]  # end an answer too, although the model should not write them
    control: frozenset[int]  # never printed
    sound: SoundIds | None = None  # None: the model takes no sound


class OmniChat:
    """Fills the Chat role."""

    def __init__(self, tokenizer: TextTokenizer, ids: ChatIds) -> None:
        self._tokenizer, self._ids = tokenizer, ids
        self._bytes = tokenizer.token_bytes()
        self._user = tokenizer.encode("user")

    def prompt(self, messages: Sequence[Message]) -> list[int]:
        """The ids of all turns and of the beginning of the answer."""
        opening = [self._ids.start, *self._tokenizer.encode("assistant\n")]
        return [*(id for message in messages for id in self.turn(message)), *opening]

    def turn(self, message: Message) -> list[int]:
        """One complete turn. An answer is the tokens that it was made of, if they are known and still give its text."""
        if message.role not in ROLES:
            raise UsageError(f"'{message.role}' is not a role", hint=f"use one of {', '.join(ROLES)}")
        if message.sounds:
            at = self._ids.sound
            if at is None:
                raise ModelError("this model does not accept sound", hint='omnitts ask "a question"')
            clips = [[at.start, *[at.pad] * sound.tokens, at.end] for sound in message.sounds]
            body = [*self._tokenizer.encode(f"{message.role}\n"), *(id for clip in clips for id in clip)]
            body += self._tokenizer.encode(message.text)
        elif self._made_of(message.ids, message.text):
            body = [*self._tokenizer.encode(f"{message.role}\n"), *(message.ids or ())]
        else:  # role and text together, because white space at the front joins the newline
            body = self._tokenizer.encode(f"{message.role}\n{message.text}")
        return [self._ids.start, *body, self._ids.stop, *self._tokenizer.newline]

    def _made_of(self, ids: Sequence[int] | None, text: str) -> bool:
        """Whether the tokens, which may come from an edited file, are words and give this text."""
        if ids is None or not all(self.bytes_of(token) for token in ids):
            return False
        return b"".join(map(self.bytes_of, ids)).decode("utf-8", "replace") == text

    def user_positions(self, prompt: Sequence[int]) -> list[int]:
        """A turn reaches to the next one; the newline after it belongs to it."""
        ids, positions = list(prompt), list[int]()
        starts = [at for at, id in enumerate(ids) if id == self._ids.start]
        for start, end in zip(starts, [*starts[1:], len(ids)], strict=True):
            if ids[start + 1 : start + 1 + len(self._user)] == self._user:
                positions += range(start, end)
        return positions

    def is_control(self, token: int) -> bool:
        """Whether a token is not part of a text."""
        return token in self._ids.control

    def bytes_of(self, token: int) -> bytes:
        """The UTF-8 bytes of a token; empty for control tokens and ids without a word."""
        return b"" if token in self._ids.control else self._bytes.get(token, b"")
