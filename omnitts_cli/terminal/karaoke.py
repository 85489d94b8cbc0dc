"""Karaoke: the line of text that is being spoken, and in it the current word."""

from collections.abc import Sequence
from dataclasses import dataclass

from omnitts_cli.terminal.console import cell_width
from omnitts_cli.text.subtitles import Sentence, Word, between


@dataclass(frozen=True)
class Line:
    """The text before the current word, the word, and the text after it. In a pause there is no current word."""

    before: str
    word: str = ""
    after: str = ""


def line_at(sentences: Sequence[Sentence], at_s: float, width: int) -> Line | None:
    """The line at this time; None before the first one. A line changes when the first word of the next one begins."""
    sentence = next((one for one in reversed(sentences) if one.start_s <= at_s), None)
    if sentence is None or not sentence.words:
        return None
    lines = lines_of(sentence.words, width)
    line = next((one for one in reversed(lines) if one[0].start_s <= at_s), lines[0])
    for number, word in enumerate(line):
        if word.start_s <= at_s < word.end_s:
            whole, until = joined(line), joined(line[: number + 1])
            start = len(until) - len(word.text)
            return Line(whole[:start], word.text, whole[len(until) :])
    return Line(joined(line))


def lines_of(words: Sequence[Word], width: int) -> list[list[Word]]:
    """The words in lines that are not wider; a word that is wider is a line."""
    lines: list[list[Word]] = []
    for word in words:
        if lines and cell_width(joined([*lines[-1], word])) <= width:
            lines[-1].append(word)
        else:
            lines.append([word])
    return lines


def joined(words: Sequence[Word]) -> str:
    found = ""
    for word in words:
        found += (between(found, word.text) if found else "") + word.text
    return found
