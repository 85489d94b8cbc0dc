"""Text of a language with a table -> the same with numbers, dates, money, units and short forms as words."""

import re
from collections.abc import Callable
from functools import cache
from importlib import import_module

from omnitts_cli.text.spoken.european import MODULES, dates, names, quantities
from omnitts_cli.text.spoken.european.table import LanguageTable
from omnitts_cli.text.spoken.rules import ReadingRules

PLACES = re.compile(r"\d+|(?<![^\W_])[^\W\d_ºª]+| (?=[-–+=×<>&] )|[^\w\s.,:;!?\")\]]")
"""Where a form can begin."""


@cache
def speller(language: str) -> Callable[[str], str]:
    """Reads a text of the language."""
    table: LanguageTable = import_module(f"{__package__}.{MODULES[language]}").TABLE
    forms = ReadingRules((
        *quantities.telephones(table), *dates.rules(table), *names.rules(table), *quantities.rules(table),
    ))  # fmt: skip

    def spell_out(text: str) -> str:
        text = text.translate(quantities.VULGAR)
        return re.sub(" {2,}", " ", forms.read(text, PLACES))

    return spell_out
