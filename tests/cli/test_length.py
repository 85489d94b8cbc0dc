"""Long texts: their length is said before they begin; beyond --max-hours they are asked about, or refused."""

from pathlib import Path

import pytest
from books import epub, page
from command import Omnitts

from omnitts_cli.terminal.console import Console

LINE = "This is a sentence of a book, which is about as long as others are.\n"
NO_MODEL = 4  # all calls name a model that is not there, so this code says that the text was accepted


def say(omnitts: Omnitts, *words: str, stdin: bytes = b"") -> tuple[int, str]:
    done = omnitts("say", "-m", "nowhere", "-o", "x.wav", *words, stdin=stdin)
    assert not Path("x.wav").exists()
    return done.code, done.err


def book(chars: int, name: str = "book.epub") -> str:
    pages = [(title, page(LINE * (chars // len(LINE) // 2), title)) for title in ("One", "Two")]
    Path(name).write_bytes(epub(pages))
    return name


def test_a_text_of_more_than_a_hundred_hours_is_refused(omnitts: Omnitts) -> None:
    text = LINE * (101 * 3600 * 18 // len(LINE))
    Path("long.txt").write_text(text)
    code, said = say(omnitts, "-f", "long.txt")
    assert code == 3 and "about 101 hours" in said and "try: --max-hours 102" in said
    assert say(omnitts, "-f", "long.txt", "--max-hours", "102")[0] == NO_MODEL
    assert say(omnitts, "-f", "long.txt", "--max-hours", "off")[0] == NO_MODEL
    assert say(omnitts, "-f", "long.txt", "--speed", "2")[0] == NO_MODEL
    assert say(omnitts, stdin=text.encode())[0] == NO_MODEL, "a pipe may stay open"


@pytest.mark.parametrize("name", ["a.txt", "a.md", "a.html", "a.ssml"])
def test_every_kind_of_file_is_counted(omnitts: Omnitts, name: str) -> None:
    Path(name).write_text(f"<speak>{LINE * 400}</speak>" if name == "a.ssml" else LINE * 400)
    code, said = say(omnitts, "-f", name)
    assert code == NO_MODEL and "of speech" in said
    Path("b.txt").write_text(LINE)
    assert say(omnitts, "-f", name, "-f", "b.txt", "--max-hours", "0.1")[0] == 3
    folder = omnitts("say", "-m", "nowhere", "-f", name, "-f", "b.txt", "-O", "out", "--max-hours", "0.1")
    assert folder.code == 3 and not Path("out").exists()


def test_a_short_text_begins_without_a_word(omnitts: Omnitts) -> None:
    Path("a.txt").write_text(LINE)
    assert "of speech" not in say(omnitts, "-f", "a.txt")[1]


def test_a_book_says_its_length_before_a_model_is_loaded(omnitts: Omnitts) -> None:
    code, said = say(omnitts, "-f", book(30_000))
    assert code == NO_MODEL and "2 chapters, about " in said


def test_a_long_book_is_refused_before_it_is_split(omnitts: Omnitts, monkeypatch: pytest.MonkeyPatch) -> None:
    name = book(30_000)
    listed = omnitts("say", "-f", name, "--list-chapters", "--max-hours", "0.1")
    assert listed.code == 0 and len(listed.out.splitlines()) == 2
    assert say(omnitts, "-f", name, "--max-hours", "0.3", "--chapters", "1")[0] == NO_MODEL
    monkeypatch.setattr("omnitts_cli.books.job.units_of", lambda *words: pytest.fail("it was split"))
    code, said = say(omnitts, "-f", name, "--max-hours", "0.3")
    assert code == 3 and "--max-hours" in said


@pytest.mark.parametrize(("answer", "words", "code"), [(True, [], NO_MODEL), (False, [], 3), (True, ["--no-input"], 3)])
def test_on_a_terminal_a_long_text_is_asked_about(
    omnitts: Omnitts, monkeypatch: pytest.MonkeyPatch, answer: bool, words: list[str], code: int
) -> None:
    monkeypatch.setattr(Console, "asks", lambda self: True)
    monkeypatch.setattr(Console, "confirm", lambda self, question: answer)
    Path("a.txt").write_text(LINE * 400)
    assert say(omnitts, "-f", "a.txt", "--max-hours", "0.1", *words)[0] == code
