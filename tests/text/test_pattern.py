"""Patterns that are compiled when they are first used find the same as compiled ones."""

import re

import pytest

from omnitts_cli.text import boundary, language, split
from omnitts_cli.text.pattern import LatePattern, WidePattern

TEXTS = ["", "plain words, 12.", "漢字 and kana かな", "naïve café", "한국어\n日本", "смешно"]
WIDE = [boundary.CJK, boundary.HIRAGANA, split.WIDE_CHARACTER, split.CJK_NEWLINE, language.NOT_RUSSIAN]


@pytest.mark.parametrize("wide", WIDE)
def test_a_wide_pattern_finds_what_its_expression_finds(wide: WidePattern) -> None:
    plain = re.compile(wide.pattern)
    assert not any(plain.search(chr(code)) for code in range(128))
    for text in TEXTS:
        assert wide.findall(text) == plain.findall(text)
        assert bool(wide.match(text)) == bool(plain.match(text))
        assert wide.sub("", text) == plain.sub("", text)
        assert (wide.search(text) and wide.search(text).span()) == (plain.search(text) and plain.search(text).span())  # type: ignore[union-attr]


def test_only_text_that_needs_a_pattern_compiles_it() -> None:
    wide, late = WidePattern("[一-龥]"), LatePattern("[a-z]+")
    assert wide.search("words") is None and "compiled" not in vars(wide.late) and "compiled" not in vars(late)
    assert wide.search("a 字", 1) is not None and "compiled" in vars(wide.late)
    assert late.match("abc1", 1).end() == 3 and late.findall("a1b") == ["a", "b"]
    with pytest.raises(AttributeError):
        late.unknown  # noqa: B018
