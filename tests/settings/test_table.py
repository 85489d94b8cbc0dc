"""The table of settings: values that are accepted in more than one spelling."""

import pytest

from omnitts_cli.settings.table import LANGUAGE


@pytest.mark.parametrize(("typed", "code"), [("en", "en"), ("English", "en"), ("GERMAN", "de"), ("auto", "auto")])
def test_a_language_may_be_named_in_english(typed: str, code: str) -> None:
    assert LANGUAGE.read(typed) == code


def test_a_language_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError):
        LANGUAGE.read("klingon")
