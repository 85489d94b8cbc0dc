"""What a tokenizer reads: the known names, and their readers."""

import sys

import pytest

from omnitts_cli.text.model_input import TEXT_INPUTS, TextInput

NAMES = ("english", "spanish", "french", "italian", "portuguese")


@pytest.mark.parametrize("name", TEXT_INPUTS)
def test_every_name_has_a_reader(name: str) -> None:
    made = TextInput(name, NAMES)
    assert made.read("Hello.") == "həlˈoʊ."
    live = made.arriving()
    assert live.write("Hello there") + live.close() == "həlˈoʊ ðˈɛɹ"


@pytest.mark.parametrize("language", ["spanish", None])
def test_a_text_is_read_in_its_own_language(language: str | None) -> None:
    made, text = TextInput("phonemes-2", NAMES), "¿Dónde está el queso de la casa?"
    assert made.read(text, language) == "dˈonde estˈa el kˈeso ðe la kˈasa."
    assert made.read(text, "english") != made.read(text, language)
    assert made.read(text, "english") == TextInput("phonemes-en-us", NAMES).read(text)
    live = made.arriving(text, language)
    assert "".join([live.write(text[:9]), live.write(text[9:]), live.close()]) == made.read(text, language)


def test_a_model_reads_its_languages_and_an_unknown_name_is_a_mistake() -> None:
    french, fewer = "Le chat est dans la maison avec les enfants.", TextInput("phonemes-2", ("english", "spanish"))
    assert fewer.read(french, "french") == fewer.read(french, "english")
    assert TextInput("phonemes-2", NAMES).read(french) not in (fewer.read(french, one) for one in ("english", None))
    with pytest.raises(AssertionError, match="morse"):
        TextInput("morse", NAMES)


def test_the_dictionary_is_read_with_the_first_text() -> None:
    kept = {name: sys.modules.pop(name) for name in list(sys.modules) if ".text.american" in name}
    TextInput("phonemes-en-us", NAMES)
    assert not any(".text.american" in name for name in sys.modules)
    sys.modules |= kept
