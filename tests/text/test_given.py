"""Words with given sounds: through every step to the phonemes, and back to words for other models."""

from io import BytesIO

import pytest

from omnitts_cli.text.american.phonemes import phonemes
from omnitts_cli.text.european.phonemes import phonemes as european
from omnitts_cli.text.given import as_words, given, of_ipa, sounds_of
from omnitts_cli.text.inputs import TextOptions, pieces_of_document
from omnitts_cli.text.lexicon import Lexicon
from omnitts_cli.text.model_input import text_to_speak
from omnitts_cli.text.reading import readings
from omnitts_cli.text.spell_out import plain_letters


def test_other_languages_have_given_sounds_too() -> None:
    word = given("hola", "ˈola")
    assert european(f"Mi {word} es buena, {given('chef', 'ʃɛf')}.", "es") == "mˈi ˈola ˈes βwˈena, ʃɛf."


@pytest.mark.parametrize(("ipa", "sounds"), [
    ("təˈmeɪtoʊ", "təmˈeɪtoʊ"), ("/pɪˈkɑːn/", "pɪkˈɑn"), ("ˈtʃɝ.tʃɪl", "ʧˈɜɹʧɪl"), ("re", "ɹeɪ"), ("ʁa", None),
    ("", None),
])  # fmt: skip
def test_ipa_becomes_the_sounds_of_the_model(ipa: str, sounds: str | None) -> None:
    assert of_ipa(ipa) == sounds


@pytest.mark.parametrize("word", ["tomato", "New York", "Iraq's", "quick-quack", "Q"])
def test_a_word_comes_back(word: str) -> None:
    run = given(word, "ˈoʊkeɪ")
    assert run is not None and run.isascii() and sounds_of(run) == "ˈoʊkeɪ"
    assert as_words(f"A {run}, {run.capitalize()[0]}{run[1:]}.") == f"A {word}, {word}."
    assert given("b4d", "ˈoʊ") is None and given("x" * 99, "ˈoʊ") is None and sounds_of(word) is None


def test_ssml_gives_a_word_its_sounds() -> None:
    source = (
        '<speak>I say <phoneme alphabet="ipa" ph="təˈmɑːtoʊ">tomato</phoneme>. <phoneme ph="ʁ">B</phoneme> 5.</speak>'
    )
    lexicon = Lexicon()
    lexicon.add([("tomato", "potato")])
    options = TextOptions(lexicon=lexicon)
    pieces = list(pieces_of_document(BytesIO(source.encode()), "ssml", options, "a.ssml"))
    assert [piece.as_written for piece in pieces] == ["I say tomato.", "B 5."]
    assert len(options.notices) == 1 and "<phoneme>" in options.notices[0]
    ((_, spoken),) = readings(pieces[0], plain_letters, 110)
    assert phonemes(spoken).endswith("təmˈɑtoʊ.")
    assert text_to_speak(spoken) == "I say tomato."
