"""Cleaning: removes what no voice can speak from text as it arrives. Also makes text safe for a terminal."""

import re
import unicodedata
from collections.abc import Sequence

from omnitts_cli.errors import InputError, TextError
from omnitts_cli.text.pattern import LatePattern

MOST_MARKS = 8
"""Combining marks kept on one letter; no language needs more, and Zalgo text has hundreds."""

LONGEST_ESCAPE = 64
LONGEST_HOLD = 4096

ESCAPE = re.compile("\x1b(?:\\[[0-?]{0,48}[ -/]{0,4}[@-~]|\\][^\x07\x1b\n]{0,56}(?:\x07|\x1b\\\\)|[@-Z\\\\^_])")
PARAGRAPH_BREAKS = re.compile("[\x0c\u2029]")
LINE_BREAKS = re.compile("\r\n?|[\x0b\x1c-\x1e\x85\u2028]")
SPACES = re.compile("[\t\x1f\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000]")
INVISIBLE = (
    "\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f"
    "\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff\U000e0000-\U000e0fff"
)
UNSPEAKABLE = re.compile(f"[{INVISIBLE}]")
MARKS = "\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\u3099\u309a\ufe20-\ufe2f"
TOO_MANY_MARKS = re.compile(f"([{MARKS}]{{{MOST_MARKS}}})[{MARKS}]+")
SURROGATE = re.compile("[\ud800-\udfff]")
UNUSUAL = re.compile(r"[^\n -~]")
"""Text without such a character is clean."""

# A character that composes with nothing in front of it, so that text may be normalised up to it.
SAFE_START = LatePattern(
    "[\n\t -~\u00a1-\u00ac\u00ae-\u02ff\u0370-\u0482\u048a-\u0590\u3000-\u3098\u309b-\u3163\u3165-\u9fff\uac00-\ud7a3]"
)


class Cleaner:
    """Cleans text as it arrives; the result does not depend on how it is cut. A finished line never waits."""

    def __init__(self) -> None:
        self._held = ""
        self._after_return = False
        self._position = 0

    def feed(self, text: str) -> str:
        """The clean text that is certain by now."""
        held = self._held + text
        cut = safe_cut(held)
        self._held = held[cut:]
        return self._wash(held[:cut])

    def flush(self, text: str = "") -> str:
        """The rest, and the last of the text."""
        rest, self._held = self._held + text, ""
        return self._wash(rest)

    def _wash(self, text: str) -> str:
        if not self._after_return and not UNUSUAL.search(text):
            self._position += len(text)
            return text
        broken = SURROGATE.search(text)
        if broken:
            raise InputError(
                f"the text is broken at character {self._position + broken.start()}: one half of a surrogate pair",
                hint="the text may be in another encoding: --encoding NAME with -f FILE",
            )
        self._position += len(text)
        text = ESCAPE.sub("", text)
        if text:  # a CR LF that was cut in two is one line end, also with a terminal sequence in between
            text, self._after_return = text.removeprefix("\n" if self._after_return else ""), text.endswith("\r")
        text = PARAGRAPH_BREAKS.sub("\n\n", LINE_BREAKS.sub("\n", text))
        text = UNSPEAKABLE.sub("", SPACES.sub(" ", text))
        return unicodedata.normalize("NFC", TOO_MANY_MARKS.sub(r"\1", text))


def safe_cut(text: str) -> int:
    """How much of `text` can be cleaned now, whatever follows."""
    if text.endswith(("\n", "\r")):
        return len(text)
    lowest = max(0, len(text) - LONGEST_HOLD)
    cut = previous_start(text, len(text), lowest)
    escape = text.rfind("\x1b", max(0, cut - LONGEST_ESCAPE), cut)
    while escape >= 0 and open_escape(text, escape, cut):
        cut = previous_start(text, escape, lowest)
        escape = text.rfind("\x1b", max(0, cut - LONGEST_ESCAPE), cut)
    return cut


def previous_start(text: str, end: int, lowest: int) -> int:
    """The last place before `end` where nothing composes backwards."""
    for at in range(end - 1, lowest - 1, -1):
        if " " <= text[at] <= "~" or SAFE_START.match(text, at):
            return at
    return lowest


def open_escape(text: str, escape: int, cut: int) -> bool:
    """Whether the terminal sequence at `escape` continues beyond `cut`."""
    found = ESCAPE.match(text, escape)
    if found:
        return found.end() > cut
    return len(text) - escape < LONGEST_ESCAPE and "\n" not in text[escape:]


def clean(text: str) -> str:
    """The whole text, clean."""
    return Cleaner().flush(text)


def has_speech(text: str) -> bool:
    """Whether there is a letter or a digit: something a voice can say."""
    return text[:1].isalnum() or any(character.isalnum() for character in text)


def nothing_to_speak(text: str, names: Sequence[str] = ()) -> TextError:
    """The error for a text, or files of these names, without a letter or digit."""
    if names:
        files = safe_for_terminal(", ".join("standard input" if name == "-" else name for name in names), 200)
        return TextError(f"nothing to speak in {files}", hint="-f FILE   with a file that contains words")
    shown = safe_for_terminal(text.strip(), 40)
    what = f"'{shown}' has no letter or digit" if shown else "the text is empty"
    return TextError(f"nothing to speak: {what}", hint="add some words")


def nothing_arrived(head: str) -> InputError:
    """The same for standard input, which begins with `head`."""
    if head.strip():
        return nothing_to_speak(head)
    return InputError(
        "nothing to speak: standard input is empty",
        hint="type some words, name a file with -f, or check the command before the pipe",
    )


def safe_for_terminal(text: str, most: int | None = None) -> str:
    """One line that cannot move a cursor, ring a bell, or turn the writing direction; at most `most` characters."""
    if most is not None and len(text) > most:
        text = text[: most - 1] + "…"
    return TOO_MANY_MARKS.sub(r"\1", UNSHOWABLE.sub(lambda found: SHOWN.get(found[0]) or escaped(found[0]), text))


SHOWN = {"\n": " ", "\r": " ", "\t": " "}
UNSHOWABLE = re.compile(f"[\n\r\t\x0b\x0c\x1c-\x1f\x85\u2028\u2029\ud800-\udfff{INVISIBLE}]")


def escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
