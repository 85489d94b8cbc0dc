"""Every sentence that a person may read: printed as one list with `pytest -s`, and held to plain English.

pytest -s -n 0 tests/test_messages.py -k printed
"""

import ast
import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

HOUSE = Path(__file__).parent.parent
PACKAGE = HOUSE / "omnitts_cli"
DOCUMENTS = [HOUSE / "README.md", HOUSE / "CHANGELOG.md", HOUSE / "CONTRIBUTING.md", *PACKAGE.glob("help/*.md")]

SPEAKING = re.compile(
    r"(?:Error|Setting|for_[a-z]+|Option|Argument|Check|Kind|note|warning|detail|problem|group|confirm|append|line|result|wrong|unusable"
    r"|Notice|notice|tell|extend)$"
)
"""Calls whose words are for people, by the end of their names."""

WORDS = re.compile(r"[A-Za-z']{2,},? [a-zA-Z'-]{2,}")
"""Two words side by side: a sentence, wherever it stands."""

DIALECT = {
    r"(?<!\b[Tt]here )\b(?:is|are|was|were|be|am) no (?!longer\b|more\b|such\b|\w+ than\b|one\b)\w+": "is not a ...",
    r"\b(?:is|are|be) none\b(?! of\b)": "is not one",
    r"\b(?:a|an) \w+(?: \w+)? and no (?:voice|number|file|model|text)\b": "..., not a ...",
    r"\bexclude each other\b": "use either ... or ..., not both",
    r"\b(?:nobody|whoever|somebody|anybody)\b": "the user, the caller, nothing",
    r"\b(?:is|are|was|be|and) told\b": "is printed, is reported",
    r"\b(?:hears|obeys?)\b": "reads, follows, supports",
    r"\bkept in\b": "saved to",
    r"\bbehind the (?:command|option|clip|last)\b": "after",
    r"\bso (?:many|long)\b(?! as\b)": "that many, that long",
    r"\bis to be\b": "will be, should be",
    r"\bby itself(?! a\b)": "on its own, by default",
    r"\bof its own accord\b": "on its own",
    r"\bthe whole(?: to|,)": "all of it",
}
"""What a native reader stumbles over, and what to write instead."""


@dataclass(frozen=True)
class Message:
    """One sentence and where it stands."""

    file: str
    line: int
    text: str


def shown(node: ast.expr) -> str | None:
    """A string as its reader sees it: what is put in stands as {name}."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if isinstance(node, ast.JoinedStr):
        parts = [
            part.value if isinstance(part, ast.Constant) else "{" + ast.unparse(part.value)[:30] + "}"
            for part in node.values
            if isinstance(part, ast.Constant | ast.FormattedValue)
        ]
        return "".join(map(str, parts))
    return None


def name_of(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def docstrings(tree: ast.Module) -> set[int]:
    """The ids of the strings that stand alone: docstrings, and the notes below constants."""
    return {
        id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }


def read_aloud(tree: ast.Module) -> set[int]:
    """The ids of the strings in a table SENTENCES: a voice speaks them, and nothing prints them."""
    tables = [
        node for node in tree.body if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "SENTENCES"
    ]
    return {id(part) for table in tables for part in ast.walk(table.value)}


def is_command(path: Path, node: ast.AST) -> bool:
    """Whether the docstring of a function is its help: public functions of a file of commands."""
    return path.parent.name == "cli" and isinstance(node, ast.FunctionDef) and any(
        "Messages" in ast.unparse(arg.annotation) for arg in node.args.args if arg.annotation
    )  # fmt: skip


def messages_of(path: Path) -> Iterator[Message]:
    tree = ast.parse(path.read_text("utf-8"))
    name, silent = str(path.relative_to(HOUSE)), docstrings(tree) | read_aloud(tree)
    inner = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    spoken = {
        id(word)
        for call in ast.walk(tree)
        if isinstance(call, ast.Call) and SPEAKING.search(name_of(call))
        for word in [*call.args, *(keyword.value for keyword in call.keywords if keyword.arg != "pattern")]
    }
    for node in ast.walk(tree):
        if is_command(path, node):
            yield Message(name, node.lineno, ast.get_docstring(node) or "")  # type: ignore[attr-defined,arg-type]
        if not isinstance(node, ast.Constant | ast.JoinedStr) or id(node) in silent | inner:
            continue
        text = shown(node)
        if text and "(?" not in text and (WORDS.search(text) or (id(node) in spoken and " " in text)):
            yield Message(name, node.lineno, text)


@functools.cache
def every_message() -> list[Message]:
    """What the package may say, in the order of its files."""
    found = [message for path in sorted(PACKAGE.rglob("*.py")) for message in messages_of(path)]
    return list(dict.fromkeys(found))


def dialect(text: str) -> list[str]:
    return [f"'{found[0]}' -> {better}" for bad, better in DIALECT.items() for found in re.finditer(bad, text)]


def test_every_message_printed() -> None:
    messages = every_message()
    for message in messages:
        print(f"{message.file}:{message.line}: {message.text}")
    assert len(messages) > 400
    texts = {message.text for message in messages}
    assert any("did you mean" in text for text in texts) and any("not found" in text for text in texts)


def test_messages_are_plain_english() -> None:
    assert [f"{m.file}:{m.line}: {found}" for m in every_message() for found in dialect(m.text)] == []


def test_sizes_are_in_binary_units() -> None:
    """As nvidia-smi and free show them. A size that the user types, such as 500MB, is decimal."""
    decimal = re.compile(r"[\d}\])] (?:[kKMGT]B)\b")
    helps = [Message(path.name, 0, path.read_text("utf-8")) for path in PACKAGE.glob("help/*.md")]
    found = [(one.file, one.line, decimal.findall(one.text)) for one in [*every_message(), *helps]]
    assert [one for one in found if one[2] and not one[0].startswith("omnitts_cli/training")] == []


def test_nothing_in_the_package_is_no_noun() -> None:
    """The first rule holds for comments and docstrings too."""
    pattern = re.compile(next(iter(DIALECT)))
    lines = [
        (path, number, line)
        for path in sorted(PACKAGE.rglob("*.py"))
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
    ]
    assert [f"{path.name}:{number}: {line.strip()}" for path, number, line in lines if pattern.search(line)] == []


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_documents_are_plain_english(path: Path) -> None:
    lines = enumerate(path.read_text("utf-8").splitlines(), 1)
    assert [f"{path.name}:{number}: {found}" for number, line in lines for found in dialect(line)] == []


@pytest.mark.parametrize(
    "text",
    ["bob.wav is a file and no voice", "x is no setting", "'你好' are none", "--a and --b exclude each other",
     "the seed is told", "the model hears it", "voice 'x' is kept in x.voice"],
)  # fmt: skip
def test_the_dialect_is_recognised(text: str) -> None:
    assert dialect(text)


@pytest.mark.parametrize(
    "text",
    ["there is no voice 'x'", "it is no longer there", "no such voice", "no space left", "this is no more than 3",
     "none of these", "so that it works", "is not one of a, b"],
)  # fmt: skip
def test_plain_english_passes(text: str) -> None:
    assert dialect(text) == []


def test_no_hint_names_a_package_of_ours() -> None:
    """Until the name is the project's own on a package index, it asks people to install a stranger's."""
    ours = re.compile(r"pip install (?:-\S+ )*[\"']?omnitts")
    assert [one for one in every_message() if ours.search(one.text)] == []
