"""Text -> the string of phonemes that a model of `"text_input": "phonemes-en-us"` was taught; whole or as it arrives.

The string has words apart by one space, stress marks right before vowels, and `,.!?` after words. "?" is where the
voice rises: a question whose voice falls ends in a full stop (`questions.py`). Diphthongs are two letters of the
phonetic alphabet, where misaki and our dictionary have one capital.
"""

import re
from itertools import zip_longest

from omnitts_cli.errors import TextError
from omnitts_cli.text.american.questions import ENDS
from omnitts_cli.text.american.sentence import MARKS, TOKEN, reader

IPA = str.maketrans({"A": "eɪ", "I": "aɪ", "O": "oʊ", "W": "aʊ", "Y": "ɔɪ", "T": "ɾ", "ɐ": "ə"})
UNREAD = re.compile(r"[^A-Za-z ,.!?'-]")
LAST_RUN = re.compile(r"\S*\Z")
INITIAL = re.compile(r"(?<![A-Za-z])([A-Z])\.(?= [A-Z])")  # of a name, whose stop is not a pause
RUN = re.compile(r"\S+")
CONTEXT = 120  # letters before a word that may say how it is read, while text is arriving
SENTENCE = 400  # letters kept of a longer sentence, whose beginning says how a question ends


def phonemes(text: str) -> str:
    """The string for a text. Numbers and signs become words first, unless they have already."""
    return reader().spoken(INITIAL.sub(r"\1", in_letters(text))).strip().translate(IPA)


def in_letters(text: str) -> str:
    """The text in English letters and simple marks; TextError where it has letters of another script."""
    if not UNREAD.search(text):
        return text
    from omnitts_cli.text.spell_out import plain_part

    return plain_part(text)


class ArrivingPhonemes:
    """Text that is still arriving: a word is read when the next one is complete, whatever pieces the text comes in."""

    def __init__(self) -> None:
        self._unfinished = ""  # the letters after the last space
        self._said = ""  # the end of what was read
        self._held = ""  # words that are complete but not read yet
        self._begun = False

    def write(self, text: str) -> str:
        """More text -> what is certain by now."""
        text = self._unfinished + text
        end = len(text) - len(LAST_RUN.search(text)[0])  # type: ignore[index]
        self._unfinished = text[end:]
        return self._read(text[:end], ended=False)

    def close(self) -> str:
        """The rest."""
        text, self._unfinished = self._unfinished, ""
        return self._read(text, ended=True)

    def _read(self, text: str, ended: bool) -> str:
        self._held += readable(text)
        found: list[str] = []
        tokens = list(TOKEN.finditer(self._held))
        start = 0
        for token, after in zip_longest(tokens, tokens[1:]):
            if after is None and not ended and token[0] not in MARKS:
                break
            context = self._said + self._held[start : after.end() if after else None]
            found.append(reader().spoken(context, len(self._said), len(self._said) + token.end() - start))
            self._said = _context(self._said + self._held[start : token.end()])
            start = token.end()
        self._held = self._held[start:]
        read = "".join(found).translate(IPA)
        if not self._begun:
            read = read.lstrip()
            self._begun = bool(read)
        return read


def _context(said: str) -> str:
    """The end of what was read: the sentence that has not ended, or more."""
    begun = 1 + max(said.rfind(mark) for mark in ENDS)
    return said[max(0, len(said) - SENTENCE, min(begun, len(said) - CONTEXT)) :]


def readable(text: str) -> str:
    """The same as `in_letters`, word by word. Words of another script are left out: those before them may be spoken
    already.
    """
    if not UNREAD.search(text):
        return text
    return RUN.sub(lambda word: or_nothing(word[0]), text)


def or_nothing(word: str) -> str:
    try:
        return in_letters(word)
    except TextError:
        return ""
