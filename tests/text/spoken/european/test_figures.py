"""Number words by the tables."""

from importlib import import_module

import pytest

from omnitts_cli.text.spoken.european import MODULES
from omnitts_cli.text.spoken.european.figures import cardinal, counted, ordinal, parted
from omnitts_cli.text.spoken.european.table import LanguageTable

TABLES: dict[str, LanguageTable] = {
    language: import_module(f"omnitts_cli.text.spoken.european.{module}").TABLE for language, module in MODULES.items()
}


@pytest.mark.parametrize(("language", "number", "words"), [
    ("es", 100, "cien"), ("es", 116, "ciento dieciséis"), ("es", 21_000, "veintiún mil"),
    ("es", 1_000_000_000, "mil millones"), ("es", 21_000_001, "veintiún millones uno"),
    ("fr", 71, "soixante et onze"), ("fr", 80, "quatre-vingts"), ("fr", 91, "quatre-vingt-onze"),
    ("fr", 200, "deux cents"), ("fr", 201, "deux cent un"), ("fr", 80_000, "quatre-vingt mille"),
    ("it", 21, "ventuno"), ("it", 28, "ventotto"), ("it", 33, "trentatré"), ("it", 180, "centottanta"),
    ("it", 2_001, "duemilauno"), ("it", 1_000_000, "un milione"),
    ("pt", 100, "cem"), ("pt", 101, "cento e um"), ("pt", 1_100, "mil e cem"), ("pt", 1_101, "mil cento e um"),
    ("pt", 2_005, "dois mil e cinco"), ("pt", 10**9, "um bilhão"),
])  # fmt: skip
def test_cardinals(language: str, number: int, words: str) -> None:
    assert cardinal(TABLES[language], number) == words


@pytest.mark.parametrize("language", TABLES)
def test_every_number_has_words_of_its_own(language: str) -> None:
    said = [cardinal(TABLES[language], number) for number in (*range(2_300), *(10**n + 1 for n in range(4, 15)))]
    assert len(set(said)) == len(said)


@pytest.mark.parametrize(("language", "number", "noun", "words"), [
    ("es", 1, "mesa", "una"), ("es", 31, "días", "treinta y un"), ("es", 200, "mujeres", "doscientas"),
    ("es", 200, "problemas", "doscientos"), ("es", 2_000_000, "casas", "dos millones de"),
    ("fr", 21, "minutes", "vingt et une"), ("fr", 21, "musées", "vingt et un"),
    ("it", 1, "zaino", "uno"), ("it", 1, "libro", "un"), ("it", 1, "amica", "un'"), ("it", 1, "casa", "una"),
    ("pt", 2, "irmãs", "duas"), ("pt", 2, "irmãos", "dois"), ("pt", 22, "horas", "vinte e duas"),
])  # fmt: skip
def test_the_noun_decides_the_gender(language: str, number: int, noun: str, words: str) -> None:
    assert counted(TABLES[language], number, noun) == words


@pytest.mark.parametrize(("language", "number", "feminine", "words"), [
    ("es", 3, False, "tercero"), ("es", 21, True, "vigésima primera"), ("fr", 1, True, "première"),
    ("fr", 9, False, "neuvième"), ("fr", 21, False, "vingt et unième"), ("fr", 80, False, "quatre-vingtième"),
    ("it", 11, True, "undicesima"), ("it", 23, False, "ventitreesimo"), ("it", 1000, False, "millesimo"),
    ("pt", 44, True, "quadragésima quarta"),
])  # fmt: skip
def test_ordinals(language: str, number: int, feminine: bool, words: str) -> None:
    assert ordinal(TABLES[language], number, feminine) == words


@pytest.mark.parametrize(
    ("figure", "parts"),
    [("1.234,56", ("1234", ",", "56")), ("1 234", ("1234", "", "")), ("1,234.5", ("1234", ".", "5")),
     ("3.14", ("3", ".", "14")), ("15.000", ("15000", "", ""))],
)  # fmt: skip
def test_the_parts_of_a_figure(figure: str, parts: tuple[str, str, str]) -> None:
    assert parted(figure) == parts
