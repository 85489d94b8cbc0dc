"""What a model's tokenizer reads in place of letters: `text_input` of its config.json."""

from __future__ import annotations

from typing import Protocol

from omnitts_cli.errors import TextError
from omnitts_cli.text.given import as_words

TEXT_INPUTS = ("phonemes-en-us",)


class ArrivingText(Protocol):
    """Text that is still arriving."""

    def write(self, text: str) -> str:
        """More text -> what is certain by now."""
        ...

    def close(self) -> str:
        """The rest."""
        ...


class TextInput:
    """Letters -> what the tokenizer reads. The dictionary is loaded with the first text."""

    def __init__(self, name: str) -> None:
        assert name in TEXT_INPUTS, f"unknown text input {name}"
        self.name = name

    def read(self, text: str) -> str:
        from omnitts_cli.text.american.phonemes import phonemes

        return phonemes(text)

    def arriving(self) -> ArrivingText:
        from omnitts_cli.text.american.phonemes import ArrivingPhonemes

        return ArrivingPhonemes()


def text_input_of(name: str | None) -> TextInput | None:
    """None: letters."""
    return TextInput(name) if name else None


def text_to_speak(text: str, text_input: TextInput | None = None) -> str:
    """The text as the tokenizer reads it, without white space around it, which the template would mix with its own;
    TextError if none is left.
    """
    text = (as_words(text) if text_input is None else text_input.read(text)).strip()
    if not text:
        raise TextError("no text to speak", hint="give at least one word")
    return text
