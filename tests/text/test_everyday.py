"""Everyday text is read as people say it, and long sentences are cut where a phrase ends."""

import warnings

import pytest
from everyday import Line, cuts_of, expanded, is_right, known_wrong, lines_of, phrases, tell, wrong_lines

AT_A_PHRASE = 0.96
"""Of the cuts inside long sentences, how many stand at a phrase's border. May only rise."""


@pytest.mark.parametrize(("table", "least"), [("newcomer", 170), ("lines", 900), ("others", 600)])
def test_lines_are_read_as_the_tables_say(table: str, least: int) -> None:
    """No line but those of the list is wrong. `python tests/support/everyday.py -w` writes the list again."""
    lines, wrong = lines_of(table), wrong_lines(table)
    tell(f"{table}: {len(lines) - len(wrong)} of {len(lines)} lines are read right")
    assert len(lines) >= least and len({line.text for line in lines}) == len(lines)
    assert [(line.text, said) for line, said in wrong if line.text not in known_wrong(table)] == []
    mended = [text for text in known_wrong(table) if text not in {line.text for line, _ in wrong}]
    if mended:
        warnings.warn(f"no longer wrong: {mended}", stacklevel=1)


def test_long_sentences_are_cut_at_phrases() -> None:
    table = phrases()
    assert [kind for kind in ("news", "law", "fiction") if sum(kind == of for of, _, _ in table) < 100] == []
    assert all(111 <= len(text) <= 400 for _, text, _ in table)
    good = [cut in allowed for _, text, allowed in table for cut in cuts_of(text)]
    tell(f"{sum(good)} of {len(good)} cuts stand at a phrase's border")
    assert len(good) >= 300 and sum(good) >= AT_A_PHRASE * len(good)


def test_choices_are_expanded() -> None:
    assert set(expanded("{one {hundred |}{and |}two|2} dogs")) == {
        "one hundred and two dogs", "one hundred two dogs", "one and two dogs", "one two dogs", "2 dogs",
    }  # fmt: skip


@pytest.mark.parametrize(("said", "right"), [
    ("Gate seven A", True), ("gate seven ay.", True), ("gate / seven A", False), ("gate seven amps", False),
])  # fmt: skip
def test_what_counts_as_right(said: str, right: bool) -> None:
    assert is_right(Line("", "", "Gate 7A", ("gate seven A",)), said) is right
