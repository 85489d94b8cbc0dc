"""Karaoke: which line is shown at which time, and which word is marked in it."""

import os

import pytest

from omnitts_cli.terminal.console import console
from omnitts_cli.terminal.karaoke import Line, line_at, lines_of
from omnitts_cli.terminal.progress import Progress
from omnitts_cli.text.subtitles import Sentence, Word

WORDS = (Word(0.5, 1.0, "The"), Word(1.0, 1.5, "brown"), Word(2.0, 2.5, "dog"), Word(2.5, 3.0, "ran."))
SENTENCES = [Sentence(0.2, 3.0, "The brown dog ran.", WORDS), Sentence(4.0, 5.0, "Yes.", (Word(4.0, 5.0, "Yes."),))]


@pytest.mark.parametrize(("at_s", "line"), [
    (0.1, None), (0.3, Line("The brown")), (0.5, Line("", "The", " brown")), (1.2, Line("The ", "brown", "")),
    (1.7, Line("The brown")), (2.0, Line("", "dog", " ran.")), (2.9, Line("dog ", "ran.", "")),
    (3.5, Line("dog ran.")), (4.5, Line("", "Yes.", "")), (9.0, Line("Yes.")),
])  # fmt: skip
def test_the_word_that_is_played(at_s: float, line: Line | None) -> None:
    assert line_at(SENTENCES, at_s, 9) == line


def test_lines_are_not_wider_than_the_terminal_and_need_words() -> None:
    assert line_at([], 1.0, 80) is None and line_at([Sentence(0.0, 1.0, "Hm")], 0.5, 80) is None
    words = [Word(0, 1, text) for text in ("an", "extraordinarily", "long", "one", "\u4e2d", "\u6587")]
    shown = [[word.text for word in line] for line in lines_of(words, 10)]
    assert shown == [["an"], ["extraordinarily"], ["long", "one"], ["\u4e2d", "\u6587"]]


def test_the_word_is_marked_in_colour_and_the_line_is_cut(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("shutil.get_terminal_size", lambda: os.terminal_size((8, 20)))
    progress = Progress("playing", "none")
    for colour, drawn in (("always", "a \x1b[7mbcd\x1b[0m e"), ("never", "a bcd e")):
        monkeypatch.setattr(console, "color", colour)
        progress.draw("a ", "bcd", " efg")
        assert capsys.readouterr().err == f"\r\x1b[K{drawn}"
    progress.clear()
    assert capsys.readouterr().err == "\r\x1b[K"
