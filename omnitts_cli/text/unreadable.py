"""Words in letters that a model cannot read: left out, spelled by the names of their letters, or refused."""

import re
import unicodedata
from collections.abc import Callable, Iterator
from functools import lru_cache

from omnitts_cli.errors import Notice, TextError

BEYOND_LATIN = re.compile(r"[^\W\d_A-Za-z]+")
GREEK = re.compile(r"(?<![\u0370-\u03ff])[\u0391-\u03c9](?![\u0370-\u03ff])")
"""A Greek letter by itself is a sign: its name is said."""
READ_AS_LETTERS = frozenset("ßẞæÆœŒøØłŁđĐðÐþÞıĳµʼªº")
NAMED = re.compile(r"(?:LETTER|SYLLABLE|CHARACTER|MARK) (?:SMALL |FINAL )?([A-Z -]+?)(?: WITH .*)?\Z")
BETWEEN = re.compile(r"[ \u3000、・'’‘-]{1,2}")  # what stands between two words of one quotation
ONE_SCRIPT = {"HIRAGANA": "CJK", "KATAKANA": "CJK", "KATAKANA-HIRAGANA": "CJK", "IDEOGRAPHIC": "CJK"}
SHOWN = 40  # letters of a quotation
HINT = "-m 0.6b   or -m 1.7b (ten languages), or --lexicon FILE with spellings in Latin letters"


class Unreadable:
    """What is done with them, and which kinds have been told: a script is told once."""

    def __init__(self, policy: str, tell: Callable[[Notice], None] = lambda notice: None) -> None:
        self._policy, self._tell = policy, tell
        self._told: set[str] = set()

    def __call__(self, text: str) -> str:
        """The text in letters that can be read. TextError where it must not be changed."""
        spans = list(foreign(text)) if not text.isascii() else []
        if not spans:
            return text
        for quoted in quotations(text, spans):
            self._report(quoted, text)
        parts, end = [], 0
        for start, stop in spans:
            said = spelled(text[start:stop]) if self._policy == "spell" else ""
            parts += [text[end:start], f" {said} " if said else " "]
            end = stop
        return "".join(parts) + text[end:]

    def _report(self, quoted: str, text: str) -> None:
        shown = quoted if len(quoted) <= SHOWN else f"{quoted[: SHOWN - 1]}…"
        if self._policy == "fail":
            raise TextError(
                f"this model reads Latin letters only; cannot read '{shown}'", cause=f'text "{text[:60]}"', hint=HINT
            )
        script = script_of(quoted[0])
        if script not in self._told:
            self._told.add(script)
            done = "spelled" if self._policy == "spell" else "left out"
            self._tell(Notice(f"this model reads Latin letters only; {done}: '{shown}'", hint=HINT))


def foreign(text: str) -> Iterator[tuple[int, int]]:
    """Where letters stand that do not become English ones; marks that belong to them included."""
    for run in BEYOND_LATIN.finditer(text):
        start = None
        for at in range(run.start(), run.end() + 1):
            if at < run.end() and beyond(text, at):
                start = at if start is None else start
            elif start is not None:
                yield start, with_marks(text, at)
                start = None


def beyond(text: str, at: int) -> bool:
    return unread(text[at]) and not GREEK.match(text, at)


@lru_cache(maxsize=4096)
def unread(letter: str) -> bool:
    """Whether a letter has no English letter at its base."""
    if not letter.isalpha() or letter in READ_AS_LETTERS or "\u02b0" <= letter <= "\u02ff":
        return False  # a sign, which is left out or read by a rule
    return not any(part.isascii() and part.isalpha() for part in unicodedata.normalize("NFKD", letter))


def with_marks(text: str, end: int) -> int:
    while end < len(text) and unicodedata.category(text[end]).startswith("M"):
        end += 1
    return end


def quotations(text: str, spans: list[tuple[int, int]]) -> Iterator[str]:
    """The words as they stand in the text; those that follow each other, together."""
    start, end = spans[0]
    for begin, stop in spans[1:]:
        if end == begin or BETWEEN.fullmatch(text, end, begin):
            end = stop
            continue
        yield text[start:end]
        start, end = begin, stop
    yield text[start:end]


def spelled(word: str) -> str:
    """The names of the letters of a word; a Chinese character has none."""
    return " ".join(name_of(letter) for letter in word if letter.isalpha()).strip()


def name_of(letter: str) -> str:
    name = unicodedata.name(letter, "")
    if name.startswith("CJK "):
        return "character"
    found = NAMED.search(name)
    return found[1].lower().replace("-", " ") if found and "PROLONGED" not in name else ""


def script_of(letter: str) -> str:
    """The script of a letter, by its Unicode name; those of Japanese are one."""
    script = unicodedata.name(letter, "?").split(" ", 1)[0]
    return ONE_SCRIPT.get(script, script)
