"""Sentences of other languages are gathered from collections as their makers publish them."""

import sqlite3
from pathlib import Path

import pytest

from omnitts_cli.errors import InputError
from omnitts_cli.training import sentences
from omnitts_cli.training.judge_languages import judged_sentences
from omnitts_cli.training.languages import LETTERS

WORDS = {"es": "queso", "fr": "vin", "it": "città", "pt": "pão"}


@pytest.fixture
def collections(tmp_path: Path) -> Path:
    """A few lines of each collection."""
    for code, word in WORDS.items():
        texts = tmp_path / "voice" / code
        texts.mkdir(parents=True)
        (texts / "b.txt").write_text(f"{word} e {word}.\n{judged_sentences(code)[0]}\n", encoding="utf-8")
        (texts / "a.txt").write_text(f" Una  {word}. \nIL GRANDE {word.upper()}!\n\n", encoding="utf-8")
        lexicon = tmp_path / "lexicons" / f"gruut_lang_{code}" / "lexicon.db"
        lexicon.parent.mkdir(parents=True)
        with sqlite3.connect(lexicon) as made:
            made.execute("create table word_phonemes (word text)")
            made.executemany("insert into word_phonemes values (?)", [(word,), (word,), ("OTAN",), ("aa",)])
    (tmp_path / "voice" / "fr" / "issue2259_x.txt").write_text("".join(f"Page {n}.\n" for n in range(9100)))
    for code, sayings in (
        ("es", "Más vale\ntarde.\n\t\t-- Nadie\n%\n100 % seguro.\n%\nFin\n"),
        ("it", "La citta' e' grande.\n%\nUn po' di vino.\n%\nXyzzu' no.\n"),
    ):
        (tmp_path / "sayings" / code / "off").mkdir(parents=True)
        for name in ("all", "all.u8", "all.dat"):
            (tmp_path / "sayings" / code / name).write_text(sayings, encoding="utf-8")
    return tmp_path


def written(collections: Path) -> dict[str, list[str]]:
    """The lines of each file that the stage writes."""
    folder = collections / "out"
    names = ("voice", "sayings", "lexicons")
    sentences.write(folder, *(collections / name for name in names), seed=7, work=collections)
    return {path.name: path.read_text(encoding="utf-8").splitlines() for path in folder.iterdir()}


def test_lines_and_words_of_every_language(collections: Path) -> None:
    found = written(collections)
    assert found.keys() == {f"{code}.{kind}" for code in LETTERS for kind in ("txt", "words")}
    for code, word in WORDS.items():
        # in the order of the files; without capitals, and without what is judged
        assert found[f"{code}.txt"][:2] == [f"Una {word}.", f"{word} e {word}."]
        assert found[f"{code}.words"] == ["aa", word]
    assert found["es.txt"][2:] == ["Más vale tarde.", "Fin"]
    assert len(found["fr.txt"]) == 2 + sentences.LINES_OF_LARGEST
    assert found == written(collections)


def test_old_italian_spelling_gets_its_accents(collections: Path) -> None:
    # a line with a word that is not known is left out
    assert written(collections)["it.txt"][2:] == ["La città è grande.", "Un po' di vino."]


@pytest.mark.parametrize(
    ("missing", "words"),
    [
        ("voice", "voice/es has no texts"),
        ("sayings", "sayings/es cannot be read"),
        ("lexicons", "es/lexicon.db cannot"),
    ],
)
def test_a_collection_that_is_not_there_is_named(missing: str, words: str, collections: Path) -> None:
    (collections / missing).rename(collections / "elsewhere")
    with pytest.raises(InputError, match=words):
        written(collections)
