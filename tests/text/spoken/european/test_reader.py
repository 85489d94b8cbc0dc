"""The key files of the languages with a table: what may be said for 100 written forms each."""

import subprocess
import sys
import time

import pytest
from languages import LANGUAGES, rows, wrong_numbers

from omnitts_cli.text.spoken.european import MODULES
from omnitts_cli.text.spoken.european.reader import speller

LEAST = {"es": 100, "fr": 99, "it": 100, "pt": 100}
"""How many of the forms are read right. May only rise."""


@pytest.mark.parametrize("language", LANGUAGES)
def test_written_forms_are_read_as_the_key_says(language: str) -> None:
    forms = rows(language, "numbers")
    assert len(forms) == len({form[0] for form in forms}) == 100
    wrong = wrong_numbers(language)
    assert 100 - len(wrong) >= LEAST[language], wrong


@pytest.mark.parametrize("language", LANGUAGES)
def test_prose_without_figures_stays_as_it_is(language: str) -> None:
    read = speller(language)
    assert [text for text, *_ in rows(language, "lines") if read(text) != text] == []


@pytest.mark.parametrize(
    ("language", "written", "said"),
    [
        ("es", "Tel.: 612 345 678", "Teléfono: seis uno dos, tres cuatro cinco, seis siete ocho"),
        ("es", "Hay 612 345 678 estrellas", "Hay seiscientos doce millones trescientas cuarenta y cinco mil "
         "seiscientas setenta y ocho estrellas"),
        ("es", "Carlos V y el grupo V", "Carlos quinto y el grupo V"),
        ("es", "versión 2.0.1", "versión dos punto cero punto uno"),
        ("es", "21 de abril", "veintiuno de abril"),
        ("fr", "Vers 8h, Le-Mans", "Vers huit heures, Le-Mans"),
        ("fr", "M. et Mme Dupont", "Monsieur et madame Dupont"),
        ("fr", "200 000 et 80 millions", "deux cent mille et quatre-vingts millions"),
        ("it", "I ragazzi e Francesco I", "I ragazzi e Francesco primo"),
        ("it", "20° C e 20° anniversario", "venti gradi e ventesimo anniversario"),
        ("it", "alle 8.30 costa 8,30", "alle otto e trenta costa otto virgola trenta"),
        ("it", "1 h, 1 h 30 min", "un'ora, un'ora e trenta minuti"),
        ("pt", "2 mil pessoas", "duas mil pessoas"),
        ("pt", "CEP 01310-100", "CEP zero um três um zero, um zero zero"),
        ("pt", "2.000.000 de casas", "dois milhões de casas"),
    ],
)  # fmt: skip
def test_the_words_around_a_form_decide(language: str, written: str, said: str) -> None:
    assert speller(language)(written) == said


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("piece", ["1", "1 ", "1.", "1,1", "1-", "I", "IV ", "a. ", "€", "1/1", "1 h ", "n.º "])
def test_hostile_text_is_read_in_linear_time(language: str, piece: str) -> None:
    read = speller(language)
    read(piece * 20)
    start = time.thread_time()
    read(piece * (2_000 // len(piece)))
    assert time.thread_time() - start < 1.0


def test_english_loads_no_table() -> None:
    code = (
        "import sys; from omnitts_cli.text.reading import normaliser; normaliser('en')('5 km'); "
        "print([m for m in sys.modules if 'european.' in m])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]" and set(MODULES) == set(LANGUAGES)
