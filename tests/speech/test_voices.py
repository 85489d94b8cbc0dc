"""Voices: a named voice as a vector, which is the same voice; and blends of them."""

from types import SimpleNamespace

import numpy as np
import pytest

import omnitts_cli as omnitts
from omnitts_cli.errors import Notice, VoiceError
from omnitts_cli.speech.voices import Foreign, Voice, own_voice
from omnitts_cli.voices import Cloned


def test_the_vector_of_a_named_voice_is_that_voice() -> None:
    same = {"text_mode": "whole"}  # clones have another default
    with omnitts.load() as tts:
        model = tts.engine.model
        named = tts.speak("Hello there.", voice="clara", seed=3, max_frames=20, **same)
        assert model.vector_of is not None
        vector = tts.speak("Hello there.", voice=Voice(Cloned(model.vector_of("Clara"))), seed=3, max_frames=20, **same)
        assert np.array_equal(named.samples, vector.samples)
        alone = tts.speak("Hello there.", voice="clara:100,henry:0.0001", seed=3, max_frames=20, **same)
        assert alone.samples.size and own_voice(model, "nobody") is None
        with pytest.raises(VoiceError, match="voice 'nobody' not found"):
            tts.speak("Hello there.", voice="clara:60,nobody:40")


@pytest.mark.parametrize("plain", [True, False])
def test_a_pipe_that_turns_to_another_language_is_told_of_each_once(plain: bool) -> None:
    told: list[Notice] = []
    model = SimpleNamespace(plain_letters=plain, languages=("english",), name="tiny")
    read = Foreign(model, told.append).watched(str.upper)  # type: ignore[arg-type]
    assert read is not None
    for text in ("We left the house early.", "Der Zug fährt um fünf Uhr ab.", "EST, PT, ET, PST, GMT", "Ja.",
                 "Guten Tag, wie geht es Ihnen?", "El tren sale a las cinco de la tarde."):  # fmt: skip
        assert read(text) == text.upper()
    assert [[name for name in ("German", "Spanish", "French") if name in str(notice)] for notice in told] == (
        [["German"], ["Spanish"]] if plain else []
    )


def test_a_language_told_of_at_the_start_is_not_told_of_again() -> None:
    told: list[Notice] = []
    model = SimpleNamespace(plain_letters=True, languages=("english",), name="tiny")
    foreign = Foreign(model, told.append)  # type: ignore[arg-type]
    assert foreign.lacks("de") and not foreign.lacks("en")
    assert foreign.watched(None) is None
    foreign.watched(str.upper)("Guten Tag, wie geht es Ihnen?")  # type: ignore[misc]
    assert len(told) == 1


def test_speech_of_a_text_that_turns_has_one_notice() -> None:
    told: list[Notice] = []
    text = "We left the house early. Guten Tag, wie geht es Ihnen? Wie geht es der Frau?"
    with omnitts.load() as tts:
        assert tts.speak(text, max_frames=8, tell=told.append).samples.size
    assert sum("looks like German" in str(notice) for notice in told) == 1
