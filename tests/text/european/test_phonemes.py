"""The string that a model of four languages reads: one run of letters a word, and where the voice rises."""

import unicodedata

import pytest

from omnitts_cli.text.european.phonemes import ArrivingClauses, phonemes

TEXTS = {
    "es": "¿Tienes hambre? ¿Cuándo llega el tren? Sí, mañana.",
    "fr": "Un bon vin blanc, s'il vous plaît. Est-ce que tu viens? Où vas-tu?",
    "it": "Hai già mangiato la pizza? Dov'è Marco? Il software.",
    "pt": "Não há pão. Onde fica a rua? Você não vai?",
}


@pytest.mark.parametrize("language", TEXTS)
def test_words_are_runs_of_letters_in_normal_form(language: str) -> None:
    said = phonemes(TEXTS[language], language)
    assert said == unicodedata.normalize("NFC", said)
    assert all(letter.isalpha() or letter in " ,.!?" for letter in said), said


@pytest.mark.parametrize(("language", "marks"), [("es", "?.,."), ("fr", ",.?."), ("it", "?.."), ("pt", "..?")])
def test_a_question_with_a_word_that_asks_falls(language: str, marks: str) -> None:
    assert "".join(letter for letter in phonemes(TEXTS[language], language) if letter in ",.!?") == marks


def test_words_before_the_one_that_asks_do_not_matter() -> None:
    assert phonemes("¿Y de dónde vienes?", "es")[-1] == "." and phonemes("¿Y tú?", "es")[-1] == "?"


@pytest.mark.parametrize("language", TEXTS)
@pytest.mark.parametrize("step", [1, 7, 1000])
def test_arriving_text_is_read_as_the_whole(language: str, step: int) -> None:
    live, text = ArrivingClauses(language), TEXTS[language]
    pieces = [live.write(text[at : at + step]) for at in range(0, len(text), step)]
    assert "".join([*pieces, live.close()]) == phonemes(text, language)
