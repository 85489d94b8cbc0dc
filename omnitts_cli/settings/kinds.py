"""Kind: the values that a setting accepts, from options, environment, settings files and presets alike."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?", re.ASCII)
WHOLE = re.compile(r"[+-]?\d{1,18}", re.ASCII)
STDOUT = ("/dev/stdout", "/dev/fd/1", "/proc/self/fd/1")  # other names of standard output, which a command moves away
YES, NO = ("1", "true", "yes", "on"), ("0", "false", "no", "off")


@dataclass(frozen=True)
class Kind:
    """`words` completes "is not ..."; `parse` reads typed text and raises ValueError."""

    words: str
    parse: Callable[[str], Any]
    accepts: Callable[[Any], bool]
    choices: tuple[str, ...] = ()
    limits: tuple[float, float] | None = None  # of numbers

    def example(self, text: str) -> str | None:
        """The nearest accepted number; None if `text` is not a number."""
        if self.limits is None:
            return None
        low, high = self.limits
        try:
            wanted = float(text)
        except ValueError:
            wanted = math.nan
        return f"{max(low, min(high, 1 if math.isnan(wanted) else wanted)):g}"

    def read(self, text: str) -> Any:
        """The value of `text`, or ValueError."""
        value = self.parse(text)
        if not self.accepts(value):
            raise ValueError(text)
        return value


def nearest(word: str, known: list[str]) -> str | None:
    """The known word that was most likely meant."""
    close = difflib.get_close_matches(word, known, n=1, cutoff=0.6)
    return close[0] if close else None


def parse_number(text: str) -> float:
    """Plain digits only: Python's float also accepts nan, inf, 1_0 and digits of other scripts."""
    if not NUMBER.fullmatch(text):
        raise ValueError(text)
    return float(text)


def parse_whole(text: str) -> int:
    if not WHOLE.fullmatch(text):
        raise ValueError(text)
    return int(text)


def parse_switch(text: str) -> bool:
    if text.lower() not in YES + NO:
        raise ValueError(text)
    return text.lower() in YES


def is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value)


def one_of(*words: str) -> Kind:
    return Kind("one of " + ", ".join(words), str.lower, lambda value: value in words, words)


def whole(low: int, high: int) -> Kind:
    return Kind(
        f"a whole number from {low} to {high}",
        parse_whole,
        lambda v: type(v) is int and low <= v <= high,
        limits=(low, high),
    )


def number(low: float, high: float) -> Kind:
    return Kind(
        f"a number from {low:g} to {high:g}",
        parse_number,
        lambda v: type(v) in (int, float) and low <= v <= high,
        limits=(low, high),
    )


UNITS = {"": 1, "s": 1, "ms": 0.001, "m": 60, "h": 3600}
TIME = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)(ms|[smh]?)", re.ASCII)
SIZE = re.compile(r"(\d{1,6})(?:MB?)?", re.ASCII | re.IGNORECASE)


def seconds() -> Kind:
    """A time: a number of seconds, or with a unit such as 500ms, 30s, 15m, 1h."""

    def parse(text: str) -> float:
        found = TIME.fullmatch(text.lower())
        if not found:
            raise ValueError(text)
        return float(found[1]) * UNITS[found[2]]

    return Kind(
        "a time such as 30, 30s or 15m", parse, lambda v: type(v) in (int, float) and 0 < v <= 1e6, limits=(1, 1e6)
    )


def megabytes(low: int, high: int) -> Kind:
    """A size in megabytes, with or without the unit."""

    def parse(text: str) -> int:
        found = SIZE.fullmatch(text)
        if not found:
            raise ValueError(text)
        return int(found[1]) * 1_000_000

    return Kind(
        f"a size from {low}MB to {high}MB",
        parse,
        lambda v: type(v) is int and low * 1_000_000 <= v <= high * 1_000_000,
        limits=(low, high),
    )


def either(word: str, kind: Kind) -> Kind:
    """`kind`, or one word such as "auto" or "off"."""

    def parse(text: str) -> Any:
        return word if text.lower() == word else kind.parse(text)

    return Kind(f"{kind.words}, or {word}", parse, lambda v: v == word or kind.accepts(v), limits=kind.limits)


def is_via(value: Any) -> bool:
    return isinstance(value, str) and (value in ("auto", "off") or value.startswith(("http://", "https://")))


VIA = Kind("auto, off or an http URL", lambda text: text.lower() if text.lower() in ("auto", "off") else text, is_via,
           ("auto", "off"))  # fmt: skip
TEXT = Kind("text", str, is_text)
TARGET = Kind("text", lambda text: "-" if text in STDOUT else text, is_text)
ANY_TEXT = Kind("text", str, lambda value: isinstance(value, str))
SWITCH = Kind("true or false", parse_switch, lambda value: isinstance(value, bool))
