"""What the teacher reads: prose that Debian ships, docstrings of Python's library, and made-up sentences.

Made-up sentences give coverage of words; prose gives their order. No sentence that evaluation speaks
gets in.
"""

from __future__ import annotations

import ast
import random
import re
import sysconfig
from collections.abc import Iterable, Iterator
from pathlib import Path

PROSE = ("/usr/share/games/fortunes", "/usr/share/common-licenses", "/usr/share/doc")
WORDS = "/usr/share/dict/american-english"
LONGEST = 150  # characters; about ten seconds
_SPOKEN = re.compile(r"[A-Za-z0-9 ,.!?'-]+")
_FUNCTION_WORDS = (
    "the a an of to in on at by for with from and or but not is was are were be has had have will would can could "
    "may must this that these those his her its our your their he she it we you they who which when where there "
    "here very so too as than then if because after before under over about into up down out off all some no one two"
).split()


def collect(seed: int, made_up: int, avoid: Iterable[str] = ()) -> list[str]:
    """Every usable sentence of the sources, and `made_up` new ones; shuffled, each once."""
    draw = random.Random(seed)
    words = [w for w in Path(WORDS).read_text().split() if w.isascii() and "'" not in w and len(w) > 1]
    prose = sorted({s for text in _prose() for s in sentences(text)})
    found = {plain(s): s for s in prose}
    common = [w.strip(",.!?").lower() for s in prose for w in s.split()]
    for _ in range(made_up):
        sentence = _invent(draw, words, common)
        found[plain(sentence)] = sentence
    for sentence in avoid:
        found.pop(plain(sentence), None)
    texts = list(found.values())
    draw.shuffle(texts)
    return texts


def plain(sentence: str) -> str:
    """Letters and digits only: two spellings of one sentence are the same sentence."""
    return re.sub(r"[^a-z0-9]+", " ", sentence.lower()).strip()


def sentences(text: str) -> Iterator[str]:
    """Sentences of 1 to 150 characters that consist of what the model can read."""
    flowing = re.sub(r"\s+", " ", text.replace('"', "").replace(";", ",").replace(":", ",").replace("--", ", "))
    for sentence in re.split(r"(?<=[.!?]) ", flowing):
        sentence = sentence.strip(" -,'")
        letters = sum(c.isalpha() for c in sentence)
        if _SPOKEN.fullmatch(sentence) and len(sentence) <= LONGEST and letters > max(2, 0.65 * len(sentence)):
            yield sentence


def _prose() -> Iterator[str]:
    for root in PROSE:
        for path in sorted(Path(root).rglob("*")):
            if path.is_file() and path.suffix in {"", ".txt", ".md"} and path.stat().st_size < 1 << 20:
                # an empty line or a lone % (fortunes) ends a paragraph, and so a sentence
                yield from re.split(r"\n\s*\n|\n%\n", path.read_text(errors="ignore"))
    for path in sorted(Path(sysconfig.get_path("stdlib")).glob("*.py")):
        tree = ast.parse(path.read_text(errors="ignore"))
        for node in ast.walk(tree):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
                yield from re.split(r"\n\s*\n", ast.get_docstring(node) or "")


def _invent(draw: random.Random, words: list[str], common: list[str]) -> str:
    """Function words, common words and rare words in turn; sometimes a number, a comma, a question."""
    length = draw.choice((1, 1, 2, 2, 3, 3, 4, 4, 5, 6, 7, 8, 10, 12, 15))  # short ones teach how words sound
    chosen: list[str] = []
    for _ in range(length):
        kind = draw.random()
        if kind < 0.36 and length > 2:
            chosen.append(draw.choice(_FUNCTION_WORDS))
        elif kind < 0.62:
            chosen.append(draw.choice(common) or "a")
        elif kind < 0.97:
            chosen.append(draw.choice(words))
        else:
            chosen.append(str(draw.choice((draw.randrange(20), draw.randrange(100), draw.randrange(1900, 2100)))))
    if length > 6 and draw.random() < 0.4:
        chosen[draw.randrange(2, length - 2)] += ","
    sentence = " ".join(chosen)[: LONGEST - 1]
    return sentence[0].upper() + sentence[1:] + draw.choice("......?!")
