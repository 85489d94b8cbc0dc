"""The training texts: prose from Debian packages, docstrings of Python's library, and made-up sentences; in phonemes.

Made-up sentences cover words; prose has real word order. Sentences that evaluation speaks are left out. The teacher
reads American or British phonemes; the model always reads the American ones.
"""

from __future__ import annotations

import ast
import random
import re
import sysconfig
from collections.abc import Iterable, Iterator
from dataclasses import astuple, dataclass
from pathlib import Path

from omnitts_cli.errors import OmniError
from omnitts_cli.text.american.phonemes import IPA
from omnitts_cli.text.american.questions import falls
from omnitts_cli.text.american.sentence import TOKEN
from omnitts_cli.training.teacher import STYLE, Facts
from omnitts_cli.training.unnamed_speakers import describe

PROSE = ("/usr/share/games/fortunes", "/usr/share/common-licenses", "/usr/share/doc")
WORDS = "/usr/share/dict/american-english"
LONGEST = 150  # characters; about ten seconds
_SPOKEN = re.compile(r"[A-Za-z0-9 ,.!?'-]+")
_FUNCTION_WORDS = (
    "the a an of to in on at by for with from and or but not is was are were be has had have will would can could "
    "may must this that these those his her its our your their he she it we you they who which when where there "
    "here very so too as than then if because after before under over about into up down out off all some no one two"
).split()


PHONEMES = re.compile(r"[ ,.!?ˈˌːAIOQTWYabdfhijklmnpstuvwzæðŋɑɒɔəɐɛɜɡɪɹɾʃʊʌʒʤʧθᵊᵻ]+")


@dataclass(frozen=True)
class TrainingLine:
    """`said` and `british` are phonemes in the teacher's alphabet. English has both, `said` being American; the other
    languages have `said` only, and `sounds`, as the model reads them."""

    text: str
    said: str
    british: str
    language: str = "en"
    sounds: str = ""

    @property
    def read(self) -> str:
        """The phonemes that the model reads."""
        return self.sounds or self.said.translate(IPA)


def phonemes(texts: Iterable[str]) -> Iterator[TrainingLine]:
    """The lines whose words are all known, with their phonemes from hibari-tts."""
    try:
        from hibari.g2p import G2P
    except ImportError:
        raise OmniError("the training texts need phonemes", hint="pip install hibari-tts") from None
    american, british = G2P(oov=False, unk="❓"), G2P(oov=False, unk="❓", british=True)
    for text in texts:
        mark = "." if _falls(text) else "?"
        line = TrainingLine(
            text, *(re.sub(" +", " ", g2p(text)).strip().replace("?", mark) for g2p in (american, british))
        )
        if PHONEMES.fullmatch(line.said) and PHONEMES.fullmatch(line.british):
            yield line


def _falls(text: str) -> bool:
    """Whether a question, which is one sentence, is read with a falling voice."""
    words = TOKEN.findall(text)
    return words[-1:] == ["?"] and falls(words, len(words) - 1)


def descriptions(seed: int, count: int) -> list[str]:
    """Descriptions of voices, whose letters the tokenizer must know too."""
    draw = random.Random(seed)
    style = (0.0,) * STYLE
    made = (Facts(draw.random(), draw.random(), draw.uniform(70, 300), draw.uniform(3, 7), style) for _ in range(count))
    return [describe(facts, draw) for facts in made]


def write(path: Path, lines: Iterable[TrainingLine]) -> None:
    rows = (astuple(line) if line.sounds else (line.text, line.said, line.british) for line in lines)
    path.write_text("".join("\t".join(row) + "\n" for row in rows), encoding="utf-8")


def read(path: Path) -> list[TrainingLine]:
    return [TrainingLine(*line.split("\t")) for line in path.read_text(encoding="utf-8").splitlines()]


def collect(seed: int, made_up: int, avoid: Iterable[str] = ()) -> list[str]:
    """Every usable sentence of the sources and `made_up` new ones, shuffled, without duplicates."""
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
    """A sentence reduced to letters and digits, to find duplicates."""
    return re.sub(r"[\W_]+", " ", sentence.lower()).strip()


def sentences(text: str) -> Iterator[str]:
    """Sentences of 1 to 150 characters that the model can read."""
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
    """A random sentence of function words, common words and rare words; sometimes with a number, a comma, a question
    mark."""
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
