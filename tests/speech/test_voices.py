"""Voices: a named voice as a vector, which is the same voice; and blends of them."""

from __future__ import annotations

import numpy as np
import pytest

import omnitts_cli as omnitts
from omnitts_cli.errors import VoiceError
from omnitts_cli.speech.voices import Voice, own_voice
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
