"""The strict reader of JSON and TOML that someone else may have made.

No key may appear twice, a number must be finite and of sane length, and size and depth have limits. A ParseError says
what is not accepted; its words continue a sentence: `f"{path} {error}"`.
"""

import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NoReturn

from omnitts_cli.files import LARGE, readable

MOST_DIGITS = 400  # the time for a whole number grows with the square of its digits
MOST_SHOWN = 60  # characters of a name in a message
TOML_DEPTH, TOML_PARTS = 8, 32
_PART = r"""(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')"""
LONG_KEY = re.compile(rf"(?<![\w-]){_PART}(?:[ \t]*+\.[ \t]*+{_PART}){{{TOML_PARTS}}}")

WRONG = {
    "size": "is larger than {detail}",
    "encoding": "is not UTF-8",
    "json": "is not valid JSON: {detail}",
    "toml": "is not valid TOML: {detail}",
    "object": "is not a JSON object",
    "duplicate": "has '{detail}' twice",
    "depth": "is nested more than {detail} deep",
    "fields": "has an object with more than {detail} fields",
    "values": "has too many values",
    "digits": "has a number with more than {detail} digits",
    "finite": "has {detail}, which is not a finite number",
    "bits": "has a whole number with more than {detail} bits",
    "parts": "has a key with more than {detail} parts",
}
"""What can be wrong with a text, by its kind."""


class ParseError(ValueError):
    """A text that is not accepted. `line` and `column` count from 1, where they are known."""

    def __init__(self, kind: str, detail: object = "", line: int | None = None, column: int | None = None) -> None:
        super().__init__(WRONG[kind].format(detail=detail))
        self.kind, self.line, self.column = kind, line, column


@dataclass(frozen=True)
class Limits:
    """How large a text may be. `fields`: in one object; `values`: in all, counted before any is parsed."""

    size: int = LARGE
    depth: int = 32
    fields: int | None = None
    values: int | None = None


USUAL = Limits()


def json_object(data: bytes | str, limits: Limits = USUAL) -> dict[str, Any]:
    """The JSON object in a text."""
    found = json_value(data, limits)
    if not isinstance(found, dict):
        raise ParseError("object")
    return found


def json_value(data: bytes | str, limits: Limits = USUAL) -> Any:
    """The JSON value in a text."""
    text = text_of(data, limits)
    if limits.values is not None and sum(map(text.count, ",[{")) > limits.values:
        raise ParseError("values")
    try:
        found = DECODER.decode(text)
    except RecursionError:
        raise ParseError("depth", limits.depth) from None
    except json.JSONDecodeError as error:
        at = min(error.pos, len(text.rstrip()))
        line, column = text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)
        place = f"line {line} column {column}" if "\n" in text.strip() else f"column {column}"
        raise ParseError("json", f"{error.msg}, {place}", line, column) from None
    if limits.fields is not None or text.count("{") + text.count("[") > limits.depth:
        for level in levels(found, limits.depth):
            if any(isinstance(one, dict) and len(one) > (limits.fields or len(one)) for one in level):
                raise ParseError("fields", limits.fields)
    return found


def toml_tables(data: bytes | str) -> dict[str, Any]:
    """The tables in a text of TOML, in which a number may be `nan` or `inf`."""
    import tomllib

    text = text_of(data)
    if LONG_KEY.search(text):  # the parser takes minutes for one
        raise ParseError("parts", TOML_PARTS)
    try:
        tables = tomllib.loads(text)
    except RecursionError:
        raise ParseError("depth", TOML_DEPTH) from None
    except ValueError as error:
        line = re.search(r"at line (\d+)", str(error))
        raise ParseError("toml", str(error)[:200], int(line[1]) if line else None) from None
    for level in levels(tables, TOML_DEPTH):
        items = (item for one in level for item in (one.values() if isinstance(one, dict) else one))
        if any(isinstance(item, int) and not -(1 << 63) <= item < 1 << 63 for item in items):
            raise ParseError("bits", 64)
    return tables


def text_of(data: bytes | str, limits: Limits = USUAL) -> str:
    """The text in bytes, without a byte order mark."""
    if len(data) > limits.size:
        raise ParseError("size", readable(limits.size))
    try:
        text = data.decode("utf-8") if isinstance(data, bytes) else data
    except UnicodeDecodeError:
        raise ParseError("encoding") from None
    return text.removeprefix("\ufeff")


def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object, in which no key may appear twice."""
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        name = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise ParseError("duplicate", "".join(c if c.isprintable() else "?" for c in name[:MOST_SHOWN]))
    return found


def whole(digits: str) -> int:
    """A whole number."""
    if len(digits) > MOST_DIGITS:
        raise ParseError("digits", MOST_DIGITS)
    return int(digits)


def finite(digits: str) -> float:
    """Any other number."""
    if len(digits) > MOST_DIGITS:
        raise ParseError("digits", MOST_DIGITS)
    found = float(digits)
    return found if math.isfinite(found) else not_finite(digits)


def not_finite(word: str) -> NoReturn:
    """NaN and Infinity are not JSON, and 1e999 would become infinite."""
    raise ParseError("finite", word[:MOST_SHOWN])


DECODER = json.JSONDecoder(
    object_pairs_hook=unique, parse_int=whole, parse_float=finite, parse_constant=not_finite
)  # made once: for a short row, making it takes longer than parsing


def levels(value: Any, most: int) -> Iterator[list[Any]]:
    """The objects and lists in a value, level by level; ParseError if there are more than `most` levels."""
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(most):
        if not level:
            return
        yield level
        items = (item for one in level for item in (one.values() if isinstance(one, dict) else one))
        level = [item for item in items if isinstance(item, dict | list)]
    if level:
        raise ParseError("depth", most)
