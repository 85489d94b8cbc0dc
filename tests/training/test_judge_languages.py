"""The other languages are judged beside the teacher: with voices and listeners of which everything is known."""

from typing import Any

import numpy as np
import pytest

from omnitts_cli.training import judge_languages as judging
from omnitts_cli.training import recipe
from omnitts_cli.training.judge_languages import in_twos, judge_language, judged_sentences, words
from omnitts_cli.training.spoken import SpokenPieces
from omnitts_cli.training.teacher import STYLE, Facts, TeacherSpeech, TeacherVoice

MODEL, TEACHER = 0.25, 0.5  # the level of their sounds


class Flat:
    """A teacher whose sounds are of one level."""

    def speak(self, lines: list[str], voices: list[TeacherVoice]) -> list[TeacherSpeech]:
        nobody = Facts(0.0, 0.0, 100.0, 4.0, (0.0,) * STYLE)
        sound = np.full(1920, 32768 * TEACHER, np.int16)
        return [TeacherSpeech(sound, np.zeros((1, 2), np.uint8), nobody) for _ in lines]


class Ears:
    """Hears every sentence of the teacher, and of the model all but the last word."""

    def __init__(self, language: str) -> None:
        self._texts, self._turn, self._language = judged_sentences(language), {MODEL: 0, TEACHER: 0}, language

    def transcribe(self, sound: np.ndarray, language: str = "en") -> str:
        assert language == self._language
        who = float(sound[0])
        text = self._texts[self._turn[who] % 5]
        self._turn[who] += 1
        return text if who == TEACHER else text.rsplit(" ", 1)[0]

    def language(self, sound: np.ndarray) -> str:
        return self._language if sound[0] == MODEL else "en"

    def naturalness(self, sound: np.ndarray) -> float:
        return 4.0 + float(sound[0])

    def voice(self, sound: np.ndarray) -> np.ndarray:
        return np.array([0.6, 0.8]) if len(sound) > 1 else np.array([1.0, 0.0])


def test_a_language_is_judged_beside_the_teacher(monkeypatch: pytest.MonkeyPatch) -> None:
    def spoken(tts: Any, lines: list[str], **options: Any) -> SpokenPieces:
        size = 2 if options.get("language") == "it" else 1
        return SpokenPieces([np.full(size, MODEL, np.float32) for _ in lines], lines, 0)

    monkeypatch.setattr(judging, "speak", spoken)
    made = recipe.read(languages=True)
    italian = next(one for one in made.languages if one.code == "it")
    found = judge_language(italian, made.voices[:1], None, Flat(), lambda sound: sound, Ears("it"), count=5)  # type: ignore[arg-type]
    count = sum(len(words(text)) for text in judged_sentences("it")[:5])
    assert found["over"] == pytest.approx(5 / count) and found["natural_under"] == pytest.approx(0.25)
    assert found["beside"] == {"heard_teacher": 0, "heard_in_two": 1, "heard_in_two_teacher": 0}
    assert found["heard"] == 1 and found["alike"] == pytest.approx(0.6)
    assert found["each"]["henry"]["teacher"] == found["each"]["henry"]["codec"] == 0


def test_sounds_are_joined_with_the_next_and_words_have_no_marks() -> None:
    joined = in_twos([np.full(n, n) for n in (1, 2, 3)])
    assert [list(one) for one in joined] == [[1, 2, 2], [2, 2, 3, 3, 3]]
    assert len(in_twos([np.ones(4)])) == 1
    assert words("C\u2019è l’été, ¿no? Là-bas!") == ["c'è", "l'été", "no", "là", "bas"]
