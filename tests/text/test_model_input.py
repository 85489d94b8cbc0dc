"""What a tokenizer reads: the known names, and their readers."""

from __future__ import annotations

import sys

import pytest

from omnitts_cli.text.model_input import TEXT_INPUTS, TextInput


@pytest.mark.parametrize("name", TEXT_INPUTS)
def test_every_name_has_a_reader(name: str) -> None:
    made = TextInput(name)
    assert made.read("Hello.") == "həlˈoʊ."
    live = made.arriving()
    assert live.write("Hello there") + live.close() == "həlˈoʊ ðˈɛɹ"


@pytest.mark.parametrize("language", ["spanish", None])
def test_a_text_is_read_in_its_own_language(language: str | None) -> None:
    made, text = TextInput("phonemes-2"), "¿Dónde está el queso de la casa?"
    assert made.read(text, language) == "dˈonde estˈa el kˈeso ðe la kˈasa."
    assert made.read(text, "english") != made.read(text, language) != TextInput("phonemes-en-us").read("El queso.")
    live = made.arriving(text, language)
    assert "".join([live.write(text[:9]), live.write(text[9:]), live.close()]) == made.read(text, language)


def test_an_unknown_name_is_a_mistake_of_the_caller() -> None:
    with pytest.raises(AssertionError, match="morse"):
        TextInput("morse")


def test_the_dictionary_is_read_with_the_first_text() -> None:
    kept = {name: sys.modules.pop(name) for name in list(sys.modules) if ".text.american" in name}
    TextInput("phonemes-en-us")
    assert not any(".text.american" in name for name in sys.modules)
    sys.modules |= kept
