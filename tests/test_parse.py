"""The strict reader of JSON and TOML: what it refuses, by kind; and that nothing else parses what others have made."""

import re
from pathlib import Path

import pytest

from omnitts_cli import parse
from omnitts_cli.parse import Limits, ParseError

PACKAGE = Path(parse.__file__).parent
OWN = {
    "parse.py",
    "cli/complete.py", "text/american/dictionary.py",  # files of the package
    "server/clips.py",  # from a process that this one has started
    "tuning/trainer.py",  # its own state, in which a loss may be no number
    "fleet/report.py", "fleet/run.py", "fleet/job.py", "fleet/store.py",  # records with a checksum, a million of them
}  # fmt: skip
"""Who may parse JSON or TOML in another way."""

JSON = {
    "nothing": (b"", "json"),
    "half": (b'{"a"', "json"),
    "two values": (b"{}{}", "json"),
    "a control character": (b'{"a": "\n"}', "json"),
    "not UTF-8": (b'{"a": "\xff"}', "encoding"),
    "a surrogate": (b'{"a": "\xed\xa0\x80"}', "encoding"),
    "UTF-16": ('{"a": "ä"}'.encode("utf-16"), "encoding"),
    "a list": (b"[]", "object"),
    "a key twice": (b'{"a": 1, "a": 2}', "duplicate"),
    "a key twice, below": (b'[{"b": {"a": 1, "\\u0061": 2}}]', "duplicate"),
    "NaN": (b'{"a": NaN}', "finite"),
    "-Infinity": (b'{"a": [-Infinity]}', "finite"),
    "too large for a float": (b'{"a": 1e999}', "finite"),
    "a long whole number": (b'{"a": %b}' % (b"9" * 401), "digits"),
    "a long fraction": (b'{"a": 0.%b}' % (b"1" * 400), "digits"),
    "deep": (b'{"a": ' * 33 + b"1" + b"}" * 33, "depth"),
    "very deep": (b"[" * 30_000, "depth"),
    "large": (b" " * 1_000_001, "size"),
    "values": (b"[" + b"1," * 40_000 + b"1]", "values"),
    "fields": (str({f"{n}": n for n in range(201)}).replace("'", '"'), "fields"),
}

TOML = {
    "half": ("a = ", "toml"),
    "a key twice": ("a = 1\na = 2", "toml"),
    "digits": ("a = " + "9" * 60_000, "toml"),
    "hexadecimal": ("a = 0x" + "f" * 60_000, "bits"),
    "arrays": ("a = " + "[" * 20_000, "depth"),
    "closed arrays": ("a = " + "[" * 400 + "]" * 400, "depth"),
    "tables": ("a = " + "{b=" * 10_000, "depth"),
    "parts": (".".join(["a"] * 30_000) + " = 1", "parts"),
    "table of parts": ("[" + ".".join(["a"] * 30_000) + "]", "parts"),
    "spaced parts": ("[" + " . ".join(['"a b"'] * 7_000) + "]", "parts"),
    "not UTF-8": (b"a = '\xff'", "encoding"),
}


@pytest.mark.timeout(30)
@pytest.mark.parametrize("name", JSON)
def test_json_that_is_refused(name: str) -> None:
    text, kind = JSON[name]
    with pytest.raises(ParseError) as caught:
        parse.json_object(text, Limits(size=1_000_000, fields=200, values=40_000))
    assert caught.value.kind == kind and str(caught.value).isprintable() and len(str(caught.value)) < 200


@pytest.mark.timeout(30)
@pytest.mark.parametrize("name", TOML)
def test_toml_that_is_refused(name: str) -> None:
    text, kind = TOML[name]
    with pytest.raises(ParseError) as caught:
        parse.toml_tables(text)
    assert caught.value.kind == kind and len(str(caught.value)) < 300


def test_what_is_read() -> None:
    deep = "[" * 32 + "]" * 32
    assert str(parse.json_value(deep)) == deep
    assert parse.json_object(b'\xef\xbb\xbf {"a": 9223372036854775807, "b": [-0.5e3, null, true]} ') == {
        "a": 2**63 - 1,
        "b": [-500.0, None, True],
    }
    assert parse.toml_tables("a = -9223372036854775808\n[b.c]\nd = [1.5]")["b"] == {"c": {"d": [1.5]}}


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [('{"a": 1 "b"', 1, 9), ('{\n  "a": 1,\n  "b"\n}', 4, 1), ('{"a": 1 "b"\n', 1, 9), ('{"a": \n', 1, 6)],
)
def test_where_json_is_wrong(text: str, line: int, column: int) -> None:
    with pytest.raises(ParseError) as caught:
        parse.json_value(text)
    assert (caught.value.line, caught.value.column) == (line, column)


def test_where_toml_is_wrong() -> None:
    with pytest.raises(ParseError) as caught:
        parse.toml_tables("a = 1\nb = \n")
    assert caught.value.line == 2


def test_a_hostile_key_is_safe_to_print() -> None:
    with pytest.raises(ParseError) as caught:
        parse.json_value(b'{"\\u001b[2J": 1, "\\u001b[2J": 2}')
    assert str(caught.value).isprintable()


def test_nothing_else_parses_json_or_toml() -> None:
    parser = re.compile(r"\b(?:json|tomllib)\.loads?\b")
    found = {
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*.py")
        if "training" not in path.parts and parser.search(path.read_text("utf-8"))
    }
    assert found == OWN
