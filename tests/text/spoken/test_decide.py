"""Neighbours decide what a letter, a hyphen or a stroke beside a number is."""

import re

import pytest

from omnitts_cli.text.spoken.decide import hyphen, labelled, letter_after_number, stroke

LETTER = re.compile(r"(?P<figure>\d+(?:\.\d+)?)(?P<gap> ?)(?P<letter>[A-Za-z])\b")


@pytest.mark.parametrize(("text", "kind"), [
    ("Apt. 4B", "name"), ("seats 12A and 12B", "name"), ("see Figs. 2A, 2B and 3C", "name"),
    ("He lives at 12B Main St.", "name"), ("12B) at the start", "name"), ("a 7B model", "scale"),
    ("about 3B people", "scale"), ("a Llama 70B", "scale"), ("10M users", "scale"), ("3M tape", "name"),
    ("a 15A breaker", "unit"), ("12 V, 5 A", "unit"), ("gate 7A", "name"), ("5 N of force", "unit"),
    ("wind 5 N of town", "name"), ("H: 80 L: 65", "name"), ("2 L of milk", "unit"), ("Bake at 180 C", "degrees"),
    ("Vitamin 5 C", "name"),
])  # fmt: skip
def test_a_letter_after_a_number(text: str, kind: str) -> None:
    *_, found = LETTER.finditer(text) if "80 L" not in text else [LETTER.search(text)]
    assert found is not None
    said = letter_after_number(text, found.start(), found["figure"], found["gap"], found["letter"], found.end())
    assert said == kind


@pytest.mark.parametrize(("text", "said"), [
    ("pages 3-5", "to"), ("won 4-1", "to"), ("$5-10", "to"), ("a Boeing 737-800", "nothing"), ("x86-64", "nothing"),
    ("978-0", "nothing"), ("Invoice #2024-118", "dash"), ("libxz 5.6.1-2", "dash"),
])  # fmt: skip
def test_a_hyphen_between_numbers(text: str, said: str) -> None:
    at = text.rindex("-")
    assert hyphen(text, at, at + 1) == said


@pytest.mark.parametrize(("text", "kind"), [
    ("Dinner on 12/25", "date"), ("until 5/6", "date"), ("12/24-1/2 away", "date"), ("failed 3/5 times", "of"),
    ("lap 12/58", "of"), ("3/4 cup", "fraction"), ("on 3/4 of it", "fraction"), ("on 31/12", "date"),
])  # fmt: skip
def test_a_stroke_between_numbers(text: str, kind: str) -> None:
    found = re.search(r"(\d+)/(\d+)", text)
    assert found is not None
    assert stroke(text, found.start(), found.end(), int(found[1]), int(found[2])) == kind


def test_labels_reach_over_a_list_but_not_over_words() -> None:
    text = "gates 7A, 8B and 9"
    assert labelled(text, text.rindex("9"))
    text = "the gate was 9"
    assert not labelled(text, text.rindex("9"))
