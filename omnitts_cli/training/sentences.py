"""Sentences and words of the other languages, as `languages.py` reads them, from collections that the user has got.

Common Voice: `server/data` of its repository, as of July 2021 (commit 168898f4). Sayings: a folder with the folders
`es` and `it` of Debian's fortunes-es and fortunes-it, such as /usr/share/games/fortunes. Lexicons: the folder where
the packages gruut-lang-es, -fr, -it and -pt are installed.

The tests and the judge speak sentences that must be in no training text, so lines with these are left out.
"""

from __future__ import annotations

import random
import re
import sqlite3
from collections.abc import Iterator, Set
from contextlib import closing
from pathlib import Path

import omnitts_cli
from omnitts_cli.errors import InputError
from omnitts_cli.training.judge_languages import judged_sentences
from omnitts_cli.training.languages import LETTERS, sentences
from omnitts_cli.training.texts import plain
from omnitts_cli.tuning.journal import Journal

TESTED = Path(omnitts_cli.__file__).parents[1] / "tests/text/languages"
SAYINGS = ("es", "it")
"""The languages whose sayings are used."""
LARGEST, LINES_OF_LARGEST = "issue2259", 9000
"""A French file of old books, twice as long as all others together: this many of its lines are used."""
SHOUTED = re.compile(r"[^\W\d_a-z]{4,}[ ,.!?:]+[^\W\d_a-z]{2,}\b")
"""Two words in capitals: a heading, or letters to be read one by one."""
INDENTED = re.compile(r"\s*(--|—|\t)")
"""How the line begins that says whose saying it is."""
APOSTROPHE = re.compile(r"(?<![\w'])(\w*)([aeiouAEIOU])'(?![\w'])")
SHORTENED = {"po", "di", "fa", "va", "sta", "da", "be", "mo", "to", "ca"}
"""Italian words that end in an apostrophe and not in an accent."""
ACCENTED = {"è", "più", "può", "ciò", "già", "giù", "là", "lì", "né", "sé", "sì", "dà", "tè"}
NO_WORD = {"dé"}


def write(folder: Path, common_voice: Path, sayings: Path, lexicons: Path, seed: int, work: Path) -> None:
    """Writes `es.txt`, `es.words` and so on into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    journal = Journal(work / "sentences.jsonl", "sentences")
    for code in LETTERS:
        words = listed_words(lexicons, code)
        lines = common_voice_lines(common_voice, code, seed)
        if code in SAYINGS:
            found = list(sayings_of(sayings / code))
            lines += with_accents(found, known_words(words, lines)) if code == "it" else found
        kept = usable(lines, code)
        (folder / f"{code}.words").write_text("".join(f"{word}\n" for word in words), encoding="utf-8")
        (folder / f"{code}.txt").write_text("".join(f"{line}\n" for line in kept), encoding="utf-8")
        journal.write(language=code, lines=len(kept), left_out=len(set(lines)) - len(kept), words=len(words))


def listed_words(lexicons: Path, code: str) -> list[str]:
    """The words of a lexicon that a text could have."""
    file = lexicons / f"gruut_lang_{code}" / "lexicon.db"
    try:
        with closing(sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True)) as lexicon:
            rows = lexicon.execute("select distinct word from word_phonemes order by word").fetchall()
    except sqlite3.Error as error:
        hint = f"pip install gruut-lang-{code}, and name its folder, which has gruut_lang_{code}"
        raise InputError(f"{file} cannot be read", cause=str(error), hint=hint) from None
    usable_word = re.compile(f"[a-z{LETTERS[code]}]{{2,}}")
    return [word for (word,) in rows if usable_word.fullmatch(word)]


def common_voice_lines(folder: Path, code: str, seed: int) -> list[str]:
    """The lines of all files of a language, with single spaces."""
    files = sorted((folder / code).glob("*.txt"))
    if not files:
        raise InputError(f"{folder / code} has no texts", hint="server/data of the repository mozilla/common-voice")
    found: list[str] = []
    for file in files:
        lines = [" ".join(line.split()) for line in file.read_text(encoding="utf-8").splitlines()]
        if file.name.startswith(LARGEST):
            lines = random.Random(seed).sample(lines, min(len(lines), LINES_OF_LARGEST))
        found += lines
    return found


def sayings_of(folder: Path) -> Iterator[str]:
    """The sayings of a folder of fortunes, each as one line, without the names of those who said them."""
    try:
        files = sorted(path for path in folder.iterdir() if path.is_file() and path.suffix not in {".dat", ".u8"})
    except OSError as error:
        raise InputError(f"{folder} cannot be read", cause=error.strerror) from None
    for file in files:
        text = file.read_bytes().decode("utf-8", "replace")
        for saying in re.split(r"\n%\n", f"\n{text}"):
            kept = [line for line in saying.splitlines() if not INDENTED.match(line) and "%" not in line]
            flat = re.sub(r"\s+", " ", " ".join(kept)).strip()
            if flat and "\ufffd" not in flat:
                yield flat


def known_words(words: list[str], lines: list[str]) -> set[str]:
    """The words of the lexicon and of the Italian texts so far."""
    return {*words, *ACCENTED, *(word for line in lines for word in re.findall(r"\w+", line.lower()))} - NO_WORD


def with_accents(lines: list[str], known: Set[str]) -> Iterator[str]:
    """The lines with `è` for `e'`, as old Italian files write it; without those where no word is known with an
    accent."""

    def accented(found: re.Match[str]) -> str:
        start, vowel = found.groups()
        if (start + vowel).lower() in SHORTENED:
            return found[0]
        for accents in ("àèìòù", "áéíóú"):
            word = start + accents["aeiou".index(vowel.lower())]
            if word.lower() in known:
                return word if vowel.islower() else word.upper()
        raise KeyError(start)

    for line in lines:
        try:
            yield APOSTROPHE.sub(accented, line)
        except KeyError:
            continue


def usable(lines: list[str], code: str) -> list[str]:
    """The lines without duplicates, without headings and without sentences that tests and the judge speak."""
    tested = [
        line.split("\t")[0]
        for name in ("lines.tsv", "numbers.tsv")
        for line in (TESTED / code / name).read_text(encoding="utf-8").splitlines()
    ]
    avoided = {plain(text) for line in (*tested, *judged_sentences(code)) for text in (line, *sentences(line, code))}

    def allowed(line: str) -> bool:
        parts = (line, *re.split(r"(?<=[.!?]) ", line))
        return avoided.isdisjoint(map(plain, parts)) and not SHOUTED.search(re.sub(r"[à-ÿ]", "a", line))

    return [line for line in dict.fromkeys(lines) if line and allowed(line)]
