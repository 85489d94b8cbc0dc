"""What a screen reader says for characters, keys and punctuation."""

import pytest

from omnitts_cli.text import screen


@pytest.mark.parametrize(
    ("letter", "said"),
    [("a", "A"), ("5", "5"), (" ", "space"), ("\t", "tab"), (",", "comma"), ("@", "at"), ("(", "left paren"),
     ("é", "É"), ("\x01", "unknown character"), ("☃", "snowman")],
)  # fmt: skip
def test_a_character_has_a_name(letter: str, said: str) -> None:
    assert screen.character(letter) == said


def test_capitals_are_named_where_that_is_asked_for() -> None:
    assert screen.character("A", capitals=True) == "capital A"
    assert screen.character("a", capitals=True) == screen.character("A") == "A"


@pytest.mark.parametrize(
    ("name", "said"),
    [("a", "A"), ("shift_a", "shift A"), ("control_alt_Delete", "control alt Delete"), ("KP_Enter", "keypad Enter"),
     ("Return", "enter"), ("Prior", "page up"), ("double-quote", "double quote"), ("F12", "F12"), ("_", "underscore")],
)  # fmt: skip
def test_a_key_is_said_by_its_parts(name: str, said: str) -> None:
    assert screen.key(name) == said


def test_the_usual_keys_have_names() -> None:
    names = {screen.key(one) for one in screen.USUAL}
    assert all(names) and {"A", "0", "space", "comma", "page up", "f12"} <= names and 90 < len(names) < 130


def test_words_are_spelled() -> None:
    assert screen.spelled("Hi b2.") == "H, I. B, 2, dot"
    assert screen.spelled("Hi", capitals=True) == "capital H, I"


@pytest.mark.parametrize(
    ("mode", "said"),
    [("none", "Hi, (a@b)."), ("some", "Hi, (a at b)."), ("most", "Hi,  left paren a at b right paren ."),
     ("all", "Hi comma,  left paren a at b right paren  dot.")],
)  # fmt: skip
def test_the_mode_of_punctuation_decides_which_signs_are_words(mode: str, said: str) -> None:
    assert screen.with_signs("Hi, (a@b).", screen.LEVELS[mode]) == said
