"""The judge counts right: with a model of which everything is known in its place."""

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from omnitts_cli.bench.evaluate import words
from omnitts_cli.errors import InputError
from omnitts_cli.training import judge as judging
from omnitts_cli.training.judge import (
    GOALS,
    UNSEEN,
    Judge,
    interval,
    judge,
    judge_texts,
    phonemes,
    runs_away,
    spoken_texts,
    texts_of_all_lengths,
)
from omnitts_cli.training.recipe import Recipe
from omnitts_cli.training.spoken import SpokenPieces
from omnitts_cli.training.teacher import SAMPLE_RATE, STYLE, Facts, TeacherSpeech, TeacherVoice
from omnitts_cli.training.texts import PHONEMES
from omnitts_cli.weights.sums import sha256_of


class Voices:
    """A folder whose clones are their clips, and whose designed voices are their descriptions."""

    def clone(self, clip: Any, transcript: str | None = None) -> Any:
        return clip

    def design(self, description: str) -> str:
        return description


def buzz(hertz: float, seconds: float) -> np.ndarray:
    time = np.arange(int(seconds * SAMPLE_RATE)) / SAMPLE_RATE
    return (0.1 * sum(np.sin(2 * np.pi * hertz * n * time) / n for n in range(1, 9))).astype(np.float32)


def hertz_of(voice: TeacherVoice) -> float:
    return 80.0 + 8 * UNSEEN.index(voice)


class Buzzer:
    """A teacher whose voices are buzzes of their pitch."""

    def speak(self, lines: list[str], voices: list[TeacherVoice]) -> list[TeacherSpeech]:
        nobody = Facts(0.0, 0.0, 100.0, 4.0, (0.0,) * STYLE)
        said = [(32767 * buzz(hertz_of(voice), 1.5)).astype(np.int16) for voice in voices]
        return [TeacherSpeech(sound, np.zeros((1, 2), np.uint8), nobody) for sound in said]


class Ears:
    """Listeners that understand what `understood` says, and know a voice by its strongest frequency."""

    def __init__(self, understood: Callable[[np.ndarray], str] = lambda sound: "") -> None:
        self.transcribe = understood

    def naturalness(self, sound: np.ndarray) -> float:
        return 4.1

    def voice(self, sound: np.ndarray) -> np.ndarray:
        spectrum = np.abs(np.fft.rfft(sound[:24000], 24000))[60:300]
        return np.asarray(spectrum / np.linalg.norm(spectrum))


def answering(monkeypatch: pytest.MonkeyPatch, sound: Callable[[str, dict[str, Any]], np.ndarray]) -> None:
    """The folder, with `sound(text, options)` as its speech."""

    def speak(tts: Any, lines: list[str], **options: Any) -> SpokenPieces:
        texts = [line.strip() for line in lines]
        return SpokenPieces([sound(text, options) for text in texts], texts, 2)

    monkeypatch.setattr(judging, "speak", speak)
    monkeypatch.setattr(Judge, "tts", Voices())


def test_goals_know_which_way_is_better() -> None:
    assert [GOALS["default"].of(v)["reached"] for v in (0.5, 0.05, 0.03)] == ["neither", "must", "aim"]
    assert [GOALS["clone"].of(v)["reached"] for v in (0.5, 0.9, 0.98)] == ["neither", "must", "aim"]


def test_words_are_counted_for_each_voice_and_seed(small: Recipe, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first voice is understood with one seed and not with the other, the rest always."""
    answering(monkeypatch, lambda text, options: np.array([text, options["voice"], options["seed"]], object))

    def transcribe(sound: np.ndarray) -> str:
        text, voice, seed = sound
        lost = voice == small.voices[0].name and seed == 2
        return "" if lost else text.lower()

    found = Judge(Path("tiny"), small, 2).spoken(Ears(transcribe))
    assert found["default"]["value"] == 0.5 and found["each"][small.voices[0].name] == [0.5, 4.1]
    assert found["natural"]["reached"] == "must" and found["sentences"] == 110
    assert found["harvard"][small.voices[0].name] == 0.5 and found["harvard"][small.voices[1].name] == 0.0
    assert found["voices"]["value"] == 0.5 / 8
    assert found["default"]["low"] <= 0.5 <= found["default"]["high"]


def test_doubt_is_wider_where_sentences_differ() -> None:
    texts = spoken_texts()
    even = np.array([[len(words(text)) / 2 for text in texts]])
    torn = np.where(np.arange(len(texts)) % 2, 2, 0) * even
    narrow, wide = interval(texts, [even]), interval(texts, [torn])
    assert narrow == {"low": 0.5, "high": 0.5}
    assert wide["low"] < 0.42 and wide["high"] > 0.58


def test_the_teacher_can_read_every_sentence_that_is_judged() -> None:
    """Also the names and rare words of the harder ones."""
    lines = phonemes(spoken_texts())
    assert len(lines) == 110 and all(map(PHONEMES.fullmatch, lines))
    assert lines[0] == "ðə bˈɜɹʧ kənˈu slˈɪd ˌɔn ðə smˈuð plˈæŋks."
    assert phonemes(["Mr. Okafor has 2 zithers."]) == ["mˈɪstəɹ ˈOkəfˌɔɹ hæz tˈu zˈɪðəɹz."]


def test_a_voice_is_judged_by_texts_of_a_file(small: Recipe, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The transcript for seed 2 lacks one of seven words. Empty lines are skipped."""
    answering(monkeypatch, lambda text, options: np.array([text, options["voice"], options["seed"]], object))

    def transcribe(sound: np.ndarray) -> str:
        text, voice, seed = sound
        assert voice == "clara"
        return text.replace("tea", "") if seed == 2 else text

    monkeypatch.setattr(judging, "Installed", lambda whisper: Ears(transcribe))
    (tmp_path / "mine.txt").write_text("A pot of tea.\n\nWhy not now?\n")
    found = judge_texts(tmp_path, small, tmp_path / "mine.txt", "clara", 2, None, tmp_path)
    assert found["errors"] == [0, 1] and found["words"] == 7 and found["sentences"] == 2
    assert found["wer"] == round(1 / 14, 4) and found["low"] <= found["wer"] <= found["high"]
    assert found["natural"] == 4.1 and found["sha256"] == sha256_of(tmp_path / "mine.txt")
    assert json.loads((tmp_path / "judged_texts.json").read_text()) == found
    assert (tmp_path / "misheard.tsv").read_text() == "2\tA pot of tea.\tA pot of .\n"


def test_a_file_without_sentences_is_refused(small: Recipe, tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("\n...\n")
    for name, message in (("mine.txt", "has no sentences"), ("none.txt", "cannot be read")):
        with pytest.raises(InputError, match=message):
            judge_texts(tmp_path, small, tmp_path / name, None, 1, None, tmp_path)


def test_texts_are_of_all_lengths() -> None:
    texts = texts_of_all_lengths()
    lengths = [len(text.split()) for text in texts]
    assert len(texts) == 300 and set(lengths) == set(range(1, 81))
    assert all(text.endswith(".") and "." not in text[:-1] for text in texts[1::2])


@pytest.mark.parametrize(("seconds", "wrong"), [(0.3, True), (1.6, False), (3.0, False), (9.0, True)])
def test_too_short_and_too_long_are_noticed(seconds: float, wrong: bool) -> None:
    assert runs_away("A pot of tea helps to pass.", buzz(100, seconds)) is wrong


def test_silence_is_noticed(small: Recipe, monkeypatch: pytest.MonkeyPatch) -> None:
    assert runs_away("A pot of tea helps to pass.", np.zeros(48000, np.float32))
    whole = buzz(100, 60)  # made once; each answer is a part of it
    answering(
        monkeypatch, lambda text, options: whole[: int(((text != "Her." and 0.1) + 0.075 * len(text)) * SAMPLE_RATE)]
    )
    found = Judge(Path("tiny"), small, 1).runaways()
    assert found["runaways"]["value"] == 0 and found["said_again"] == 2


@pytest.mark.parametrize("heeds", [True, False])
def test_a_clone_is_nearest_to_its_clip_only_if_it_sounds_like_it(
    small: Recipe, monkeypatch: pytest.MonkeyPatch, heeds: bool
) -> None:
    pitches = [hertz_of(voice) for voice in UNSEEN]

    def sound(text: str, options: dict[str, Any]) -> np.ndarray:
        return options["voice"].samples[: SAMPLE_RATE * 3 // 2] if heeds else buzz(pitches[0], 1.5)

    answering(monkeypatch, sound)
    found = Judge(Path("tiny"), small, 1).clone(Buzzer(), lambda texts: texts, Ears())
    assert found["clone"]["value"] == found["with_words"] == (1.0 if heeds else round(1 / 16, 3))
    assert found["tries"] == 48


def test_people_are_compared_with_their_clones_and_their_copies(
    small: Recipe, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The codec repeats the clip. The clone of the man is right, that of the woman sounds like him."""
    soundfile = pytest.importorskip("soundfile")
    for name, hertz in (("man", 100.0), ("woman", 200.0)):
        soundfile.write(tmp_path / f"{name}.flac", buzz(hertz, 2.0), SAMPLE_RATE)
    (tmp_path / "notes.txt").write_text("This file is not a recording.")
    same = SimpleNamespace(encoder=lambda sound: sound, decoder=lambda codes: codes)
    monkeypatch.setattr(judging, "exported_codec", lambda recipe, folder: same)
    answering(monkeypatch, lambda text, options: buzz(100.0, 1.5))
    found = Judge(Path("tiny"), small, 1).people(tmp_path, Ears())
    assert list(found["each"]) == ["man", "woman"]
    assert found["codec"]["value"] > 0.99 and found["wrong"]["value"] == 1
    assert found["each"]["man"]["clone"] > 0.99 > 0.9 > found["each"]["woman"]["clone"]
    assert abs(found["each"]["man"]["off"]) < 0.2 and abs(found["each"]["woman"]["off"] + 12) < 0.2
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="no clips"):
        Judge(Path("tiny"), small, 1).people(tmp_path / "empty", Ears())
    with pytest.raises(InputError, match="needs a folder"):
        judge(tmp_path, small, ["people"], 1, tmp_path, None, None, tmp_path)


def test_a_description_is_obeyed_by_sex_pitch_and_pace(small: Recipe, monkeypatch: pytest.MonkeyPatch) -> None:
    """Slow men are slow with every seed but three; a low woman sounds like a man with one."""

    def sound(text: str, options: dict[str, Any]) -> np.ndarray:
        words, seed = options["voice"], options["seed"]
        woman, lower, higher = "woman" in words, "deep" in words or "low v" in words, "high" in words
        hertz = (210.0 if woman else 125.0) * (0.8 if lower else 1.2 if higher else 1.0)
        if "low v" in words and seed == 4:
            hertz = 100.0
        slow, fast = "slowly" in words and (woman or seed not in (2, 5, 7)), "fast" in words
        return buzz(hertz, 2.0 if slow else 1.0 if fast else 1.5)

    answering(monkeypatch, sound)
    found = Judge(Path("tiny"), small, 1).design(10)
    missed = {words: 10 - count for words, count in found["obeyed"].items() if count < 10}
    assert missed == {"a man who speaks slowly": 3, "a woman with a low voice": 1} and len(found["obeyed"]) == 10
    assert found["design"] == {"value": 0.7, "must": 0.9, "aim": 1.0, "reached": "neither"}


def test_parts_are_joined_in_one_file(small: Recipe, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "tiny").mkdir()
    (tmp_path / "tiny" / "model.safetensors").write_bytes(b"numbers")
    monkeypatch.setattr(Judge, "runaways", lambda self: {"runaways": 0})
    monkeypatch.setattr(Judge, "design", lambda self: {"design": 1})
    for part in ("runaways", "design"):
        whole = judge(tmp_path / "tiny", small, [part], 1, tmp_path, None, None, tmp_path)
    found = json.loads(whole.read_text())
    assert found["runaways"] == {"runaways": 0} and found["design"] == {"design": 1}
    assert len(found["weights"]["model.safetensors"]) == 64
