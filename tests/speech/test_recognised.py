"""Word times by a recogniser: whatever it says, every word has its place; pauses belong to none."""

import itertools
import os
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

import omnitts_cli
from omnitts_cli.speech.recognised import LATE_S, LETTERS, Recognised, recognised, with_spaces
from omnitts_cli.speech.transcribe import LONGEST_S, Whisper
from omnitts_cli.speech.words import tokens

RATE = 24_000


class Saying:
    """A recogniser that says this, and notes how much it was given."""

    def __init__(self, begins: Any) -> None:
        self.begins, self.seen = begins, list[tuple[float, int]]()

    def place(self, sound: np.ndarray, words: list[str], language: str | None = None) -> list[float]:
        self.seen.append((sound.size / 16_000, sum(map(len, words))))
        return list(self.begins(sound.size / 16_000, len(words)))


def by(begins: Any) -> Recognised:
    return Recognised(Saying(begins), "base", "en")  # type: ignore[arg-type]


def noise(*parts: tuple[float, float]) -> np.ndarray:
    """Seconds, each with its loudness."""
    draw = np.random.default_rng(1)
    return np.concatenate([draw.normal(0, 1, int(s * RATE)) * loud for s, loud in parts]).astype(np.float32)


@pytest.mark.parametrize(
    "begins",
    [
        lambda seconds, count: np.linspace(0, seconds, count + 1),
        lambda seconds, count: np.zeros(count + 1),
        lambda seconds, count: np.full(count + 1, 99.0),
        lambda seconds, count: np.linspace(seconds, 0, count + 1),
        lambda seconds, count: np.random.default_rng(count).uniform(-1, seconds + 1, count + 1),
    ],
)
@pytest.mark.parametrize(
    "text", ["One.", "It cost $5 in 1984, Dr. Who!", "\u4e2d\u6587\uff0c\u5f88\u597d\u3002", "word " * 300]
)
@pytest.mark.parametrize("seconds", [0.05, 0.4, 2.0])
def test_every_word_has_a_time_in_order(begins: Any, text: str, seconds: float) -> None:
    found = by(begins)(noise((seconds / 2, 0.1), (seconds / 2, 0.0)), RATE, text)
    assert [one.text for one in found] == tokens(text)
    times = [time for one in found for time in (one.start_s, one.end_s)]
    assert all(one <= other for one, other in itertools.pairwise(times))
    assert times[0] >= 0 and times[-1] <= seconds + 1e-6
    assert seconds / len(found) < 0.1 or all(one.end_s > one.start_s for one in found)


def test_a_pause_belongs_to_no_word() -> None:
    sound = noise((0.2, 0.0), (0.8, 0.1), (0.5, 0.0), (0.7, 0.1), (0.3, 0.0))
    one, two = by(lambda seconds, count: np.array([0.0, 1.2, 2.5]) - LATE_S)(sound, RATE, "one two")
    assert (one.start_s, one.end_s) == pytest.approx((0.2, 1.0), abs=0.011)
    assert (two.start_s, two.end_s) == pytest.approx((1.5, 2.2), abs=0.011)


def test_a_long_sentence_is_cut_for_the_recogniser() -> None:
    recogniser = by(lambda seconds, count: np.linspace(0, seconds, count + 1))
    text = "some words that take long " * 60
    sound = noise(*[(0.9, 0.1), (0.1, 0.0)] * 70)
    found = recogniser(sound, RATE, text)
    assert [one.text for one in found] == tokens(text)
    seen = recogniser.whisper.seen  # type: ignore[attr-defined]
    assert len(seen) > 2 and all(seconds <= LONGEST_S and letters < 2 * LETTERS for seconds, letters in seen)
    assert sum(seconds for seconds, _ in seen) == pytest.approx(70, abs=0.01)
    assert all(one.end_s <= other.start_s + 1e-9 for one, other in itertools.pairwise(found))


def test_words_have_their_spaces() -> None:
    assert with_spaces(["He", "said -", "no."]) == [" He", " said -", " no."]
    assert with_spaces(["\u4e2d", "\u6587\uff0c", "abc"]) == ["\u4e2d", "\u6587\uff0c", " abc"]


def test_the_recogniser_is_made_to_write_the_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tokens of all words go through one alignment; each word begins with its first token."""
    asked: dict[str, Any] = {}

    def align(encoded: Any, start: list[int], texts: list[list[int]], frames: list[int]) -> list[Any]:
        asked.update(encoded=encoded, start=start, texts=texts, frames=frames)
        return [SimpleNamespace(alignments=[(0, 5), (0, 6), (1, 10), (2, 25), (3, 30), (3, 40), (4, 60)])]

    class Tokenizer:
        def __init__(self, inner: Any, several: bool, task: str, language: str | None) -> None:
            self.sot_sequence = [several, task, language]

        def encode(self, word: str) -> list[int]:
            return [len(word)] * (2 if len(word) > 4 else 1)

    inside = SimpleNamespace(
        is_multilingual=True, align=align, detect_language=lambda encoded: [[("<|de|>", 0.9), ("<|en|>", 0.1)]]
    )
    model = SimpleNamespace(
        model=inside,
        hf_tokenizer=None,
        feature_extractor=lambda sound: np.zeros((80, sound.size // 160 + 1)),
        encode=lambda features: features.shape,
    )
    for name, parts in {
        "faster_whisper": {"WhisperModel": lambda *a, **k: model},
        "faster_whisper.audio": {"pad_or_trim": lambda features: features},
        "faster_whisper.tokenizer": {"Tokenizer": Tokenizer},
    }.items():
        module = ModuleType(name)
        vars(module).update(parts)
        monkeypatch.setitem(sys.modules, name, module)
    found = Whisper("base").place(np.zeros(24_000, np.float32), [" One", " other", " two"])
    assert (
        asked["texts"] == [[4, 6, 6, 4]] and asked["start"] == [True, "transcribe", "de"] and asked["frames"] == [151]
    )
    assert found == pytest.approx([0.1, 0.2, 0.6, 1.2])
    assert recognised("dir/base", "en", offline=True).by == "faster-whisper base"


@pytest.mark.slow
@pytest.mark.skipif("WHISPER_BASE" not in os.environ, reason="WHISPER_BASE does not name a model")
def test_whisper_base_finds_the_words_of_the_embedded_voice() -> None:
    """Against our own alignment, which is measured by itself."""
    pytest.importorskip("faster_whisper")
    from omnitts_cli.speech.words import Aligned

    folder = os.environ["WHISPER_BASE"]
    recogniser, off = recognised(folder, "auto", offline=True), []
    assert recogniser.by == f"faster-whisper {Path(folder).name}"
    texts = ["Seven old ships sail along the quiet river.", "The brown dog jumped over a small garden fence, and ran."]
    with omnitts_cli.load("tiny", threads=1) as tts:
        for text, clip in zip(texts, tts.speak_all(texts, voice="henry", seed=5), strict=True):
            found, own = (one(clip.samples, clip.sample_rate, text) for one in (recogniser, Aligned("en")))
            assert [one.text for one in found] == text.split()
            off += [abs(one.start_s - other.start_s) for one, other in zip(found, own, strict=True)]
    assert np.median(off) <= 0.08
