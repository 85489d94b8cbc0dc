"""Lexicons: case, whole words, one pass, many rows."""

from pathlib import Path

import pytest
from growth import grows_linearly

from omnitts_cli.errors import InputError, TextError
from omnitts_cli.text.lexicon import Lexicon, load_lexicon


def lexicon(*entries: tuple[str, str]) -> Lexicon:
    made = Lexicon()
    made.add(entries)
    return made


@pytest.mark.parametrize(
    ("entries", "text", "expected"),
    [
        ([("sql", "sequel")], "SQL, sql and MySQL. sqlite", "sequel, sequel and MySQL. sqlite"),
        ([("IT", "eye tee")], "IT is what it is", "eye tee is what it is"),
        ([("new york", "nu jork"), ("new", "nju")], "New York is new", "nu jork is nju"),
        ([("东京", "とうきょう")], "我在东京住", "我在とうきょう住"),
        ([("c++", "see plus plus")], "I like C++!", "I like see plus plus!"),
        ([("&", "and")], "you & me", "you and me"),
        ([("don't", "do not")], "Don't go", "do not go"),
        ([("x", "")], "a x b", "a  b"),
        ([], "nothing", "nothing"),
        ([("a", "b"), ("b", "c"), ("c", "a"), ("d", "d d")], "a b c d", "b c a d d"),  # one pass: cycles are harmless
        ([("a", "1"), ("a", "2")], "a", "2"),
        ([("gif", "jif"), ("GUI", "gooey")], "GIFs, a GIF's end, GUIs", "jifs, a jif's end, gooeys"),
        ([("SQL", "S Q L"), ("box", "bocks")], "two SQLs in boxes, boxs", "two S Q L's in bockses, boxs"),
        ([("gif", "jif"), ("gifs", "many")], "GIFs", "many"),
        ([("hi", "hoy"), ("as", "az"), ("glas", "x"), ("red cat", "dog")], "his glass red cats", "his glass dogs"),
    ],
)
def test_words(entries: list[tuple[str, str]], text: str, expected: str) -> None:
    assert lexicon(*entries).apply(text) == expected


def test_files(tmp_path: Path) -> None:
    one, other = tmp_path / "one.tsv", tmp_path / "other.tsv"
    one.write_bytes("\ufeff# comment\r\nGIF\tjif\r\n\r\nnaïve\tna-eve\r\n".encode())
    other.write_text("gif\tghif\n")
    assert load_lexicon([one, other]).apply("GIF gif Naïve") == "jif ghif na-eve"


@pytest.mark.parametrize(
    ("line", "words"),
    [("no tab here", "no tab"), ("\tspoken", "no word"), (" \tx", "no word"), ("x" * 201 + "\ty", "a word over 200")],
)
def test_wrong_lines_are_reported_with_their_numbers(line: str, words: str, tmp_path: Path) -> None:
    path = tmp_path / "l.tsv"
    path.write_text(f"ok\tfine\n{line}\n")
    with pytest.raises(InputError, match=f"line 2: {words}"):
        load_lexicon([path])


def test_a_missing_file() -> None:
    with pytest.raises(InputError, match=r"cannot read lexicon /no/such\.tsv"):
        load_lexicon([Path("/no/such.tsv")])


def test_many_rows_take_linear_time(tmp_path: Path) -> None:
    lexicons: dict[int, Lexicon] = {}

    def load(rows: int) -> None:
        lexicons[rows] = load_lexicon([tmp_path / f"{rows}.tsv"])

    for rows in (20_000, 200_000):
        with open(tmp_path / f"{rows}.tsv", "w") as file:
            file.writelines(f"same word{n}\tspoken {n}\n" for n in range(rows // 2))
            file.writelines(f"word{n}\tspoken {n}\n" for n in range(rows // 2))
    grows_linearly(load, 20_000, 200_000)
    made = lexicons[200_000]
    assert len(made) == 200_000
    assert made.apply("same word7 word99999 nothing same ") == "spoken 7 spoken 99999 nothing same "
    grows_linearly(lambda count: made.apply("same word7 word99999 nothing same " * count), 2_000, 20_000)
    text = "same word7 word9999 nothing same " * 2_000
    grows_linearly(lambda rows: lexicons[rows].apply(text), 20_000, 200_000, slack=0.4)  # more rows cost nothing


def test_spoken_forms_cannot_multiply_a_text_without_end() -> None:
    lexicon = Lexicon(1000)
    lexicon.add([("a", "x" * 100)])
    assert len(lexicon.apply("a b a")) == 203
    assert len(lexicon.apply("b " * 300)) == 600
    with pytest.raises(TextError, match="too long"):
        lexicon.apply("a a a")
