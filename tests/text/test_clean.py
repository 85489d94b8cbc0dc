"""Cleaning: what leaves a text, what stays, any cuts, and a terminal that nothing can wreck."""

import unicodedata

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from omnitts_cli.errors import InputError
from omnitts_cli.text.clean import Cleaner, clean, has_speech, nothing_to_speak, safe_for_terminal


@pytest.mark.parametrize(("dirty", "expected"), [
    ("a\x00b\x07c\x08d\x7fe", "abcde"), ("\x1b[1;31mred\x1b[0m \x1b]0;title\x07text\x1bM", "red text"),
    ("\ufeffstart\ufeff", "start"), ("so\u00adft zero\u200bwidth\u200djoin\u2060er", "soft zerowidthjoiner"),
    ("a\u202ereversed\u202c\u2066x\u2069", "areversedx"),
    ("tab\there nb\u00a0space\u3000wide", "tab here nb space wide"),
    ("line\u2028next\x85more\x0bagain", "line\nnext\nmore\nagain"),
    ("para\u2029graph\x0cpage", "para\n\ngraph\n\npage"), ("tag\U000e0041\U000e007f vs\ufe0f", "tag vs"),
    ("cafe\u0301 \u1112\u1161\u11ab", "café 한"), ("H\u0336e\u0336y", "H\u0336e\u0336y"),
    ("Z" + "\u0335" * 500 + "x", "Z" + "\u0335" * 8 + "x"), ("１２３ ｆｕｌｌ", "１２３ ｆｕｌｌ"),
])  # fmt: skip
def test_what_cannot_be_spoken_leaves(dirty: str, expected: str) -> None:
    assert clean(dirty) == expected


@pytest.mark.parametrize(
    "text", ["שלום עולם", "مرحبا", "नमस्ते", "ไทย", "\U00020000\U0010ffff", "\u0378 unassigned", "Tiếng Việt"]
)
def test_other_scripts_come_through(text: str) -> None:
    assert clean(text) == unicodedata.normalize("NFC", text)


def test_a_lone_surrogate_is_reported_with_its_place() -> None:
    with pytest.raises(InputError, match="broken at character 3"):
        clean("abc\udcff")
    cleaner = Cleaner()
    cleaner.feed("abc\n")
    with pytest.raises(InputError, match="broken at character 5"):
        cleaner.feed("d\ud800")
        cleaner.flush()


def test_a_finished_line_never_waits() -> None:
    for end in ("\n", "\r\n", "\r"):
        cleaner = Cleaner()
        assert cleaner.feed(f"line{end}") == "line\n"
        assert cleaner.feed("next") + cleaner.flush() == "next"


TRICKY = [
    "a", "e", "\u0301", "\u0308" * 10, "\r", "\n", "\r\n", "\x1b[31m", "\x1b", "[", "\x08", "\u200b", " ", "字", "か",
    "\u3099", "\u1161", "\u1100", "가", "\x1b]0;t\x07", "\u2028", "\ufeff",
]  # fmt: skip


@settings(max_examples=500, deadline=None)
@example("\r\x1b]0;t\x07\n", [1])
@given(st.lists(st.sampled_from(TRICKY), max_size=30).map("".join), st.lists(st.integers(0, 100), max_size=12))
def test_any_cuts_are_the_whole(text: str, cuts: list[int]) -> None:
    cleaner, parts, last = Cleaner(), [], 0
    for cut in [*sorted({min(cut, len(text)) for cut in cuts}), len(text)]:
        parts.append(cleaner.feed(text[last:cut]))
        last = cut
    assert "".join(parts) + cleaner.flush() == clean(text)


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"])))
def test_clean_text_is_clean_again(text: str) -> None:
    once = clean(text)
    assert not set(once) & {chr(c) for c in range(32)} - {"\n"}
    assert clean(once) == once


@pytest.mark.parametrize("text", ["", "  \n", "…?!", "🙂", "---", "\u200b", "«»", "+ = %"])
def test_nothing_to_speak(text: str) -> None:
    assert not has_speech(clean(text))
    error = nothing_to_speak(text)
    assert error.exit_code == 3 and "nothing to speak" in error.message


@pytest.mark.parametrize("text", ["a", "1", "1次", "哈", "я", "5%", "①"])
def test_a_letter_or_a_digit_is_something(text: str) -> None:
    assert has_speech(clean(text))


@given(st.text())
def test_shown_text_cannot_move_the_cursor(text: str) -> None:
    shown = safe_for_terminal(text)
    shown.encode("utf-8")
    assert not any(unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp") for c in shown)
    assert not set(shown) & set("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200f\u200e\ufeff")


def test_what_is_shown_is_short_and_on_one_line() -> None:
    assert safe_for_terminal("a\nb\x1b[31m\x07\udcff") == r"a b\x1b[31m\x07\udcff"
    assert safe_for_terminal("x" * 100, 10) == "x" * 9 + "…"
