"""Lexicon: words and how they are to be spoken. One pass over a text; what was put in is not looked at again.

A file has a line `word<TAB>spoken form` for each. A word in small letters stands for any case, one with a
capital for exactly itself. Only whole words are replaced, except in scripts without spaces; a word of
three letters or more also stands for its plural. Of several words that fit at one place the longest wins; of two lines
for one word the later.
"""

import math
import shlex
from collections.abc import Iterable
from pathlib import Path

from omnitts_cli import files
from omnitts_cli.errors import InputError, TextError
from omnitts_cli.text.boundary import CJK
from omnitts_cli.text.clean import clean
from omnitts_cli.text.decode import decode
from omnitts_cli.text.pattern import LatePattern

LONGEST_WORD = 200
LARGEST_FILE = 256 * 2**20
SHORTEST_PLURAL = 3  # letters of a word that stands for its plural too
HISSING = ("s", "x", "z", "ch", "sh")
CJK_CLASS = CJK.pattern[1:-1]
TOKEN = LatePattern(rf"[{CJK_CLASS}]|(?:(?![{CJK_CLASS}])\w)+|[^\w\s]")


class Lexicon:
    """Replacements, ready for use; empty at first. `most`: characters that all texts together may become."""

    def __init__(self, most: int | None = None) -> None:
        self._left = math.inf if most is None else most
        self._words: dict[str, str] = {}
        self._lengths: dict[str, list[int]] = {}  # first token in small letters -> lengths of words, longest first

    def __len__(self) -> int:
        return len(self._words)

    def add(self, entries: Iterable[tuple[str, str]]) -> None:
        """Takes (word, spoken form) pairs."""
        lengths = {first: set(known) for first, known in self._lengths.items()}
        for word, spoken in entries:
            self._words[word] = spoken
            first = TOKEN.match(word)
            assert first is not None, "a word does not begin with a space"
            lengths.setdefault(first[0].lower(), set()).add(len(word))
        self._lengths = {first: sorted(known, reverse=True) for first, known in lengths.items()}

    def apply(self, text: str) -> str:
        """The text with every known word replaced."""
        if not self._words:
            return text
        parts, done, at = [], 0, 0
        while (token := TOKEN.search(text, at)) is not None:
            start, at = token.start(), token.end()
            found = self._find(text, start, token[0].lower())
            if found is not None:
                at = start + found[0]
                parts += [text[done:start], found[1]]
                self._count(start - done + len(found[1]))
                done = at
        self._count(len(text) - done)
        return "".join([*parts, text[done:]])

    def _count(self, length: int) -> None:
        self._left -= length
        if self._left < 0:
            raise TextError("with the spoken forms of the lexicon, the text is too long", hint="shorter spoken forms")

    def _find(self, text: str, start: int, first: str) -> tuple[int, str] | None:
        for key in (first, first.removesuffix("s"), first.removesuffix("es")):  # GIFs, boxes
            for length in self._lengths.get(key, ()):
                written = text[start : start + length]
                if len(written) < length or (spoken := self._spoken(written)) is None:
                    continue
                if ends_word(text, start + length):
                    return length, spoken
                if (ending := plural_ending(text, start + length, written)) and ends_word(
                    text, start + length + ending
                ):
                    return length + ending, plural(spoken)
        return None

    def _spoken(self, written: str) -> str | None:
        spoken = self._words.get(written)
        return self._words.get(written.lower()) if spoken is None else spoken


def plural_ending(text: str, end: int, word: str) -> int:
    """How many letters of a plural stand behind a word, by the way English writes it."""
    if len(word) < SHORTEST_PLURAL or not word[-1].isalpha() or word[-1] in "sS":
        return 0
    if word.endswith(HISSING):
        return 2 if text.startswith("es", end) else 0
    return int(text.startswith("s", end))


def plural(spoken: str) -> str:
    """The spoken form in the plural; a letter by itself keeps its name: S Q L's."""
    last = spoken.rpartition(" ")[2]
    if len(last) == 1:
        return f"{spoken}'s"
    return spoken + ("es" if spoken.endswith(HISSING) else "s") if spoken else spoken


def ends_word(text: str, end: int) -> bool:
    """Whether a word may end here: not between two letters of a script with spaces."""
    if end >= len(text) or CJK.match(text, end) or CJK.match(text, end - 1):
        return True
    return not ((text[end].isalnum() or text[end] == "_") and (text[end - 1].isalnum() or text[end - 1] == "_"))


def load_lexicon(paths: Iterable[Path], most: int | None = None) -> Lexicon:
    """The lexicon of one or more files, in their order."""
    lexicon = Lexicon(most)
    for path in paths:
        lexicon.add(read_entries(path))
    return lexicon


def read_entries(path: Path) -> Iterable[tuple[str, str]]:
    """The lines of a lexicon file; empty lines and `#` comments are left out."""
    try:
        text = decode(files.read(path, LARGEST_FILE, pipes=True), name=f"lexicon {path}")
    except OSError as error:
        raise InputError(
            f"cannot read lexicon {path}: {(error.strerror or str(error)).lower()}",
            hint=f"ls {shlex.quote(str(path.parent))}",
        ) from error
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        word, tab, spoken = line.partition("\t")
        word = clean_field(word).strip()
        if not tab or not word or len(word) > LONGEST_WORD:
            problem = (
                "no tab" if not tab else "no word before the tab" if not word else f"a word over {LONGEST_WORD} letters"
            )
            raise InputError(
                f"lexicon {path} line {number}: {problem}",
                hint="each line is: word<TAB>spoken form",
                where=(str(path), number),
            )
        yield word, clean_field(spoken)


def clean_field(field: str) -> str:
    """Most fields are plain ASCII and clean already; a million of them must not take long."""
    field = field.strip()
    return field if field.isascii() and field.isprintable() else clean(field)
