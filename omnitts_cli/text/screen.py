"""Text as screen readers say it: characters and keys by their names, words spelled, punctuation spoken."""

import re
import unicodedata

SOME, MOST, ALL = 1, 2, 3
LEVELS = {"none": 0, "some": SOME, "most": MOST, "all": ALL}
"""Modes of punctuation: the higher, the more signs are named."""

SIGNS: dict[str, tuple[str, int]] = {
    **{sign: (name, SOME) for sign, name in {
        "@": "at", "#": "number", "$": "dollar", "%": "percent", "^": "caret", "&": "and", "*": "star", "+": "plus",
        "=": "equals", "<": "less", ">": "greater", "|": "bar", "\\": "backslash", "/": "slash", "~": "tilde",
        "_": "underscore", "€": "euro", "£": "pound", "°": "degrees", "§": "section", "©": "copyright", "×": "times",
        "÷": "divided by", "±": "plus or minus", "•": "bullet", "→": "right arrow", "←": "left arrow",
    }.items()},
    **{sign: (name, MOST) for sign, name in {
        "(": "left paren", ")": "right paren", "[": "left bracket", "]": "right bracket", "{": "left brace",
        "}": "right brace", '"': "quote", ":": "colon", ";": "semicolon", "`": "backquote", "«": "left guillemet",
        "»": "right guillemet", "“": "left quote", "”": "right quote", "„": "low quote", "–": "en dash",
        "—": "em dash", "…": "ellipsis",
    }.items()},
    **{sign: (name, ALL) for sign, name in {
        ",": "comma", ".": "dot", "!": "exclamation mark", "?": "question mark", "-": "dash", "'": "apostrophe",
        "’": "apostrophe", "‘": "left single quote",
    }.items()},
}  # fmt: skip
"""Sign -> its name, and from which level on text names it."""

SPACES = {" ": "space", "\t": "tab", "\n": "new line", "\r": "carriage return", "\xa0": "no-break space"}
KEYS = {
    "kp": "keypad", "prior": "page up", "next": "page down", "return": "enter", "backspace": "backspace",
    "iso": "", "esc": "escape", "ctrl": "control", "del": "delete", "ins": "insert",
}  # fmt: skip
"""Parts of the names of keys that are not said as they are written."""
USUAL = (
    *"abcdefghijklmnopqrstuvwxyz0123456789 ",
    *(sign for sign in SIGNS if sign.isascii()),
    *"return enter space tab backspace delete insert escape up down left right home end prior next".split(),
    *"shift control alt super menu print pause caps-lock num-lock".split(),
    *(f"f{number}" for number in range(1, 13)),
    *"ABCDEFGHIJKLMNOPQRSTUVWXYZ",
)
"""Characters and keys of a usual keyboard, by the names that Speech Dispatcher has for them; the likeliest first."""
UNSPOKEN = re.compile(r"[\W_]")
SENTENCE_END = re.compile(r"[.!?,;:](?=\s|$)")
"""A mark that is named still ends its phrase."""


def character(letter: str, *, capitals: bool = False) -> str:
    """The name of a character. `capitals`: whether it says that a letter is one."""
    if letter in SPACES:
        return SPACES[letter]
    if letter in SIGNS:
        return SIGNS[letter][0]
    if letter.isalpha():
        capital = capitals and letter.isupper()
        return f"capital {letter.upper()}" if capital else letter.upper()
    if letter.isdecimal():
        return letter
    return unicodedata.name(letter, "unknown character").lower()


def key(name: str, *, capitals: bool = False) -> str:
    """The name of a key as it is said: shift_a is "shift A", KP_Enter "keypad enter"."""
    if len(name) == 1:
        return character(name, capitals=capitals)
    parts = [part for part in re.split(r"[_\s]+", name) if part]
    said = [character(part) if len(part) == 1 else KEYS.get(part.lower(), part.replace("-", " ")) for part in parts]
    return " ".join(word for word in said if word) or name


def spelled(text: str, *, capitals: bool = False) -> str:
    """Every character of a text by its name; words apart."""
    words = [", ".join(character(letter, capitals=capitals) for letter in word) for word in text.split()]
    return ". ".join(words)


def with_signs(text: str, level: int) -> str:
    """The text with the signs of a level as words."""
    if not level:
        return text

    def named(found: re.Match[str]) -> str:
        sign = found[0]
        if sign not in SIGNS or SIGNS[sign][1] > level:
            return sign
        ends = SENTENCE_END.match(text, found.start())
        return f" {SIGNS[sign][0]}{sign if ends else ' '}"

    return UNSPOKEN.sub(named, text)
