"""The teacher is asked for named voices and for unseen speakers, two texts each, in the phonemes of its accent."""

import random
from collections import Counter
from dataclasses import replace
from pathlib import Path

from omnitts_cli.training.pool import FOLDER, UNNAMED, ShardReader
from omnitts_cli.training.recipe import Recipe
from omnitts_cli.training.speak_stage import _all, _asked, speak
from omnitts_cli.training.teacher import TeacherSpeech, TeacherVoice
from omnitts_cli.training.texts import TrainingLine


class Notes:
    """A teacher that keeps what it was asked to say."""

    names = ("af_heart", "am_michael", "bf_emma", "bm_george")

    def __init__(self) -> None:
        self.asked: list[str] = []

    def speak(self, lines: list[str], voices: list[TeacherVoice]) -> list[TeacherSpeech]:
        self.asked += lines
        return [f"{line} by {voice.mix[0][0]}" for line, voice in zip(lines, voices, strict=True)]  # type: ignore[misc]


def test_unnamed_speakers_say_two_texts_each(small: Recipe) -> None:
    asked = _asked(random.Random(0), small, Notes.names, {"en": list(range(100))}, 400)
    speakers = Counter(number for _, voice, number, _ in asked if voice == UNNAMED)
    assert set(speakers.values()) == {2}
    assert 0.2 < 2 * len(speakers) / len(asked) < 0.4  # the shares of the recipe
    assert 0.3 < sum(voice == 0 for _, voice, _, _ in asked) / len(asked) < 0.5
    assert {voice for _, voice, _, _ in asked} == {UNNAMED, *range(len(small.voices))}


def test_the_order_stays_and_the_british_read_british() -> None:
    american, british = TeacherVoice((("af_heart", 1.0),)), TeacherVoice((("bf_emma", 1.0),))
    lines = [TrainingLine("one", "a much longer line", "A"), TrainingLine("two", "b", "a much longer one")]
    asked = [(0, 0, 0, american), (1, 0, 0, british), (1, 0, 0, american)]
    spoken = _all(Notes(), lines, asked, 1)  # type: ignore[arg-type]
    assert spoken == ["a much longer line by af_heart", "a much longer one by bf_emma", "b by af_heart"]


def test_speech_is_written_to_shards(small: Recipe, lines: list[TrainingLine], hummer: type, tmp_path: Path) -> None:
    brief = replace(small, teacher=replace(small.teacher, shard=40))
    speak(brief, hummer(), lines, tmp_path, 3, 0.01, 60)
    utterances = ShardReader(tmp_path / FOLDER).read(at_least=20)
    assert all(len(u.sound) <= small.teacher.longest * 24000 for u in utterances)
    speakers = [u.speaker for u in utterances if u.voice == UNNAMED]
    assert speakers[::2] == speakers[1::2] and len(speakers) > 0
