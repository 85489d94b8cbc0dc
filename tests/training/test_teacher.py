"""The teacher's speech, where flite is installed."""

from __future__ import annotations

import numpy as np
import pytest

from omnitts_cli.errors import OmniError
from omnitts_cli.training.hearing import pitch
from omnitts_cli.training.strangers import DEAF, PITCHES
from omnitts_cli.training.teacher import BASES, PHONES, SAMPLES_PER_FRAME, Teacher, TeacherVoice, resample


def test_resampling_keeps_the_sound() -> None:
    time = np.arange(1600) / 16000
    tone = np.sin(2 * np.pi * 400 * time).astype(np.float32)
    higher = resample(tone, 2400)
    assert np.allclose(higher, np.sin(2 * np.pi * 400 * np.arange(2400) / 24000), atol=1e-3)


@pytest.fixture(scope="module")
def teacher() -> Teacher:
    try:
        return Teacher()
    except OmniError:
        pytest.skip("flite is not installed")


def test_speech_is_whole_frames_with_a_phone_for_each_half(teacher: Teacher) -> None:
    spoken = teacher.speak("Stop the cat.", TeacherVoice("slt"))
    assert len(spoken.sound) == len(spoken.phones) * SAMPLES_PER_FRAME
    heard = [PHONES[p] for p in spoken.phones.ravel()]
    assert [heard.index(p) for p in ("s", "aa", "ae", "t")].count(-1) == 0
    assert heard.index("aa") < heard.index("ae")


def test_pace_and_shift_change_the_length(teacher: Teacher) -> None:
    plain, slow, high = (
        len(teacher.speak("A long and winding road.", TeacherVoice("rms", *how)).sound)
        for how in ((1.0, 1.0), (1.0, 0.8), (1.2, 1.0))
    )
    assert slow > 1.1 * plain
    assert abs(high - plain) < 0.1 * plain  # a shift alone keeps the pace


@pytest.mark.parametrize("base", BASES)
def test_a_pitch_that_was_asked_for_is_forgotten_again(teacher: Teacher, base: str) -> None:
    text, plain = "A long and winding road.", TeacherVoice(base)
    before = teacher.speak(text, plain).sound
    asked = teacher.speak(text, TeacherVoice(base, pitch=140.0)).sound
    after = teacher.speak(text, plain).sound
    assert abs(pitch(after) / pitch(before) - 1) < 0.02 and abs(pitch(before) / PITCHES[base] - 1) < 0.1
    assert (abs(pitch(asked) / 140 - 1) < 0.1) == (base not in DEAF)
