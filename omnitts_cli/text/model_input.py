"""What a model's tokenizer reads in place of letters: `text_input` of its config.json.

`phonemes-en-us` reads English only; `phonemes-2` each text in its own language.
"""

from collections.abc import Collection
from typing import Protocol

from omnitts_cli.errors import TextError
from omnitts_cli.text.given import as_words
from omnitts_cli.text.language import LANGUAGES, likeliest
from omnitts_cli.text.spoken.european import MODULES

TEXT_INPUTS = ("phonemes-en-us", "phonemes-2")


class ArrivingText(Protocol):
    """Text that is still arriving."""

    def write(self, text: str) -> str:
        """More text -> what is certain by now."""
        ...

    def close(self) -> str:
        """The rest."""
        ...


class TextInput:
    """Letters -> what the tokenizer reads. The dictionary of a language is loaded with its first text. `language`: its
    name, or None where the text must tell it. `languages`: names of those that the model speaks.
    """

    def __init__(self, name: str, languages: Collection[str]) -> None:
        assert name in TEXT_INPUTS, f"unknown text input {name}"
        several = name != TEXT_INPUTS[0]
        self._codes = [code for code in ("en", *MODULES) if several and LANGUAGES[code] in languages]

    def read(self, text: str, language: str | None = None) -> str:
        if (code := self._code(text, language)) != "en":
            from omnitts_cli.text.european import phonemes as european

            return european.phonemes(text, code)
        from omnitts_cli.text.american.phonemes import phonemes

        return phonemes(text)

    def arriving(self, text: str = "", language: str | None = None) -> ArrivingText:
        """`text`: its beginning, which tells the language."""
        if (code := self._code(text, language)) != "en":
            from omnitts_cli.text.european import phonemes as european

            return european.ArrivingClauses(code)
        from omnitts_cli.text.american.phonemes import ArrivingPhonemes

        return ArrivingPhonemes()

    def _code(self, text: str, language: str | None) -> str:
        if language is None:
            return likeliest(text, self._codes, "en")
        return next((code for code in self._codes if LANGUAGES[code] == language), "en")


def text_input_of(name: str | None, languages: Collection[str]) -> TextInput | None:
    """None: letters."""
    return TextInput(name, languages) if name else None


def text_to_speak(text: str, text_input: TextInput | None = None, language: str | None = None) -> str:
    """The text as the tokenizer reads it, without white space around it, which the template would mix with its own;
    TextError if none is left.
    """
    text = (as_words(text) if text_input is None else text_input.read(text, language)).strip()
    if not text:
        raise TextError("no text to speak", hint="give at least one word")
    return text
