"""Word times: against a key that is true by construction, and for sound that no word is in."""

import itertools

import numpy as np
import pytest

import omnitts_cli
from omnitts_cli.speech import words as aligner
from omnitts_cli.speech.words import Aligned, Timer, evenly, speller, tokens, with_lengths, word_times
from omnitts_cli.text.subtitles import Sentence, Word

RATE = 24_000
TEXTS = ["seven old ships sail along the quiet river", "the brown dog jumped over a small garden fence"]


@pytest.fixture(scope="module")
def spliced() -> list[tuple[str, np.ndarray, list[tuple[float, float]]]]:
    """Sentences of the embedded voice joined from words that were spoken one by one, and where the words are."""
    words = [word for text in TEXTS for word in text.split()]
    with omnitts_cli.load("tiny", threads=1) as tts:
        clips = iter(tts.speak_all(words, voice="henry", seed=5))
    found = []
    for text in TEXTS:
        parts, key, at = [np.zeros(RATE // 5, np.float32)], [], RATE // 5
        for _ in text.split():
            sound = next(clips).samples
            loud = np.flatnonzero(np.abs(sound) > 0.02)
            sound = sound[loud[0] : loud[-1] + 1]
            parts += [sound, np.zeros(RATE // 50, np.float32)]
            key.append((at / RATE, (at + sound.size) / RATE))
            at += sound.size + RATE // 50
        found.append((text, np.concatenate(parts), key))
    return found


def test_words_are_found_where_they_were_put(spliced: list[tuple[str, np.ndarray, list[tuple[float, float]]]]) -> None:
    off = []
    for text, sound, key in spliced:
        found = word_times(sound, RATE, text)
        assert [one.text for one in found] == text.split()
        off += [abs(one.start_s - start) for one, (start, _) in zip(found, key, strict=True)]
    assert np.median(off) <= 0.05 and np.quantile(off, 0.9) <= 0.15


@pytest.mark.parametrize("text", ["", "—", "One.", "It cost $5 in 1984, Dr. Who!", "中文，很好。", "a " * 300])
@pytest.mark.parametrize("seconds", [0.0, 0.01, 0.3, 2.0])
def test_every_word_has_a_time_in_order_whatever_the_sound(text: str, seconds: float) -> None:
    sound = np.random.default_rng(3).normal(0, 0.1, int(seconds * RATE)).astype(np.float32)
    found = word_times(sound, RATE, text, speller("en"))
    assert "".join("".join(one.text for one in found).split()) == "".join(text.split())
    times = [time for one in found for time in (one.start_s, one.end_s)]
    assert all(one <= other for one, other in itertools.pairwise(times))
    assert not times or (times[0] >= 0 and times[-1] <= seconds + 1e-9)


def test_a_sentence_of_many_words_in_long_sound() -> None:
    sound = np.random.default_rng(3).normal(0, 0.1, 30 * RATE).astype(np.float32)
    found = word_times(sound, RATE, "some words that go on and on " * 8)
    assert len(found) == 56 and found[-1].end_s > 20
    assert all(one.end_s <= other.start_s + 1e-9 for one, other in itertools.pairwise(found))


def test_tokens_and_their_times_by_length() -> None:
    assert tokens("Well - he said: “no”.") == ["Well -", "he", "said:", "“no”."]
    assert tokens("中文，abc 好。") == ["中", "文，", "abc", "好。"]
    assert [(one.text, round(one.start_s, 2), round(one.end_s, 2)) for one in evenly(["aaa", "b"], 2.0)] == [
        ("aaa", 0.0, 1.5), ("b", 1.5, 2.0),
    ]  # fmt: skip


def test_words_that_were_found_nowhere_share_the_time_of_the_next_one() -> None:
    at = [
        Word(0.0, 1.0, "one"), Word(1.0, 1.0, "ab"), Word(1.0, 1.0, "cd"), Word(1.2, 2.0, "efgh"), Word(2.0, 2.0, "i"),
    ]  # fmt: skip
    found = [(one.text, round(one.start_s, 3), round(one.end_s, 3)) for one in with_lengths(at, 2.0)]
    assert found == [("one", 0.0, 1.0), ("ab", 1.0, 1.25), ("cd", 1.25, 1.5), ("efgh", 1.5, 1.9), ("i", 1.9, 2.0)]
    assert with_lengths([Word(0.5, 0.5, "a")], 2.0) == [Word(0.0, 2.0, "a")] and with_lengths([], 2.0) == []


def test_a_timer_finds_the_words_of_each_sentence_in_its_own_sound(
    spliced: list[tuple[str, np.ndarray, list[tuple[float, float]]]],
) -> None:
    timer, at = Timer(RATE, Aligned("en")), 0
    for text, sound, _ in spliced:
        timer.add(np.zeros(RATE, np.float32), None)
        at += RATE
        for block in np.array_split(sound, 3):
            timer.add(block, None)
        timer.add(np.zeros(0, np.float32), Sentence(at / RATE, (at + sound.size) / RATE, text))
        alone = [
            Word(one.start_s + at / RATE, one.end_s + at / RATE, one.text) for one in word_times(sound, RATE, text)
        ]
        assert [one.text for one in timer.sentences[-1].words] == text.split()
        for one, other in zip(timer.sentences[-1].words, alone, strict=True):
            assert abs(one.start_s - other.start_s) < 1e-6 and abs(one.end_s - other.end_s) < 1e-6
        at += sound.size


def test_a_sentence_without_end_gets_words_by_length(
    spliced: list[tuple[str, np.ndarray, list[tuple[float, float]]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The table of the alignment grows with the square of a sentence: 20,000 letters would need gigabytes."""
    text, sound, _ = spliced[0]
    aligned = word_times(sound, RATE, text)
    monkeypatch.setattr(aligner, "MOST_CELLS", 1000)
    assert word_times(sound, RATE, text) == evenly(text.split(), sound.size / RATE) != aligned
