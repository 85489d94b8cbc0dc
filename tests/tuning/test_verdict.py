"""The verdict: a gain counts only above chance."""

from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import omnitts_cli
from omnitts_cli.errors import GuardError
from omnitts_cli.fleet.verify import wer
from omnitts_cli.speech.clip import Clip
from omnitts_cli.speech.voices import Voice
from omnitts_cli.tuning.verdict import SENTENCES, Sample, compare, cosine, pace_of, spoken
from omnitts_cli.voices import Adapter, Cloned, Pair


def samples(*likeness: float, wer: float | None = None) -> list[Sample]:
    return [Sample(np.zeros(1, np.float32), one, 14.0, wer) for one in likeness]


def test_a_clear_gain_wins_and_no_gain_does_not() -> None:
    clone = samples(0.50, 0.40, 0.60, 0.55)
    assert compare(clone, samples(0.60, 0.52, 0.69, 0.66), 14.0).won
    assert not compare(clone, clone, 14.0).won  # as with an adapter of strength 0
    assert not compare(clone, samples(0.80, 0.20, 0.70, 0.50), 14.0).won
    assert not compare(clone[:1], samples(0.9), 14.0).won  # one sentence tells nothing


def test_more_word_errors_undo_a_gain() -> None:
    clone, tuned = samples(0.5, 0.4, 0.6, wer=0.1), (0.6, 0.5, 0.7)
    worse, same = compare(clone, samples(*tuned, wer=0.3), 14.0), compare(clone, samples(*tuned, wer=0.1), 14.0)
    assert worse.errors and worse.errors.worse and not worse.won
    assert same.errors and not same.errors.worse and same.won and "10.0%" in same.words
    assert compare(clone, samples(*tuned), 14.0).errors is None
    assert wer("Two cats, and 3 dogs.", "two cats and three frogs", "en") == 0.2


def test_words_that_the_model_does_not_hear_undo_a_gain_unless_a_recogniser_hears_them() -> None:
    clone, tuned = samples(0.5, 0.4, 0.6), samples(0.7, 0.6, 0.8)

    def missed(voice: list[Sample], *shares: float) -> list[Sample]:
        return [replace(one, missed=share) for one, share in zip(voice, shares, strict=True)]

    same = compare(missed(clone, 0.1, 0.0, 0.1), missed(tuned, 0.0, 0.1, 0.1), 14.0)
    assert same.won and same.missed and not same.missed.worse
    few = compare(missed(clone, 0.0, 0.0, 0.0), missed(tuned, 0.4, 0.0, 0.0), 14.0)
    assert few.missed and few.missed.interval > 0.13 and few.words_lost and not few.won  # many, if perhaps by chance
    clear = compare(missed(clone, 0.0, 0.0, 0.0), missed(tuned, 0.09, 0.08, 0.09), 14.0)
    assert clear.words_lost and "not heard" in clear.words
    right = [replace(one, wer=0.0) for one in missed(tuned, 0.9, 0.9, 0.9)]
    assert compare([replace(one, wer=0.0) for one in missed(clone, 0.0, 0.0, 0.0)], right, 14.0).won


def test_better_words_win_where_the_likeness_is_the_same() -> None:
    clone, tuned = samples(0.5, 0.4, 0.6, wer=0.3), samples(0.49, 0.42, 0.58, wer=0.1)
    assert compare(clone, tuned, 14.0).won
    assert not compare(clone, samples(0.49, 0.42, 0.58, wer=0.3), 14.0).won
    unlike = samples(0.42, 0.33, 0.51, wer=0.1)
    assert not compare(clone, unlike, 14.0).won and compare(clone, unlike, 14.0, errs=0.1).won
    assert not compare(clone, samples(0.59, 0.49, 0.69, wer=0.3), 14.0, errs=0.1).won  # within the encoder's error


def test_a_sentence_that_breaks_off_undoes_a_gain() -> None:
    clone, tuned = samples(0.5, 0.4, 0.6, 0.5), samples(0.7, 0.6, 0.8, 0.7)
    short = [*tuned[:3], replace(tuned[3], pace=140.0)]
    assert compare(clone, tuned, 14.0).won and compare(clone, tuned, 14.0).broke_off == 0
    found = compare(clone, short, 14.0)
    assert not found.won and found.broke_off == 1
    assert compare([*clone[:3], replace(clone[3], pace=140.0)], short, 14.0).won


def test_a_sentence_that_cannot_be_spoken_counts_as_broken_off() -> None:
    def speak(text: str, **options: Any) -> Clip:
        if "runs on" in text:
            raise GuardError("it kept talking")
        return Clip(np.full(24_000, 0.1, np.float32), 24_000, 0)

    tts: Any = SimpleNamespace(speak=speak, sample_rate=24_000)
    cloner: Any = SimpleNamespace(embedding=lambda sound: np.ones(2))

    def said(*texts: str) -> list[Sample]:
        return spoken(tts, "me", cloner, texts, np.ones(2), lambda number: None, nothing, lambda text, sound: 0.5)

    good, bad = said("one two", "three"), said("one two", "this runs on")
    assert [sample.likeness for sample in bad] == [pytest.approx(1.0), 0.0] and bad[1].missed == 0.5
    found = compare(good, bad, 14.0)
    assert found.broke_off == 1 and not found.won and found.pace_tuned == pace_of("one two", 1.0)
    assert compare(bad, bad, 14.0).broke_off == 0 and compare(said("runs on"), said("runs on"), 14.0).pace_tuned == 0.0


def test_figures() -> None:
    assert cosine(np.array([1.0, 0.0]), np.array([1.0, 1.0])) == np.float64(1 / np.sqrt(2)).round(16)
    assert pace_of("ab, cd!", 2.0) == 2.0
    found = compare(samples(0.5, 0.5), samples(0.6, 0.6), 15.0)
    assert found.gain > 0.09 and "0.600" in found.words and found.pace_recorded == 15.0


def nothing(text: str, sound: np.ndarray) -> None:
    """Tells nothing about words."""


def said_by(voice: Voice, sentences: Sequence[str], person: np.ndarray) -> tuple[list[Sample], np.ndarray]:
    """Sentences of `tiny` in a voice, compared with the vector of a person; and the mean of their own vectors."""
    with omnitts_cli.load("tiny", voice=voice, device="cpu", threads=1) as tts:
        cloner = tts.engine.model.cloner
        assert cloner is not None
        made = spoken(tts, voice, cloner, sentences, person, lambda number: None, nothing, nothing)
        return made, np.mean([cloner.embedding(one.sound) for one in made], axis=0)


def test_an_adapter_of_strength_0_gains_nothing_and_a_strangers_vector_is_beaten() -> None:
    with omnitts_cli.load("tiny", device="cpu", threads=1) as tts:
        vector_of = tts.engine.model.vector_of
        assert vector_of is not None
        given, other = vector_of("henry"), vector_of("clara")
    query = "talker.model.layers.0.self_attn.q_proj"
    nothing = Adapter({query: Pair(np.ones((2, 320), np.float32), np.ones((384, 2), np.float32), 0.0)})
    own, stranger = Voice(Cloned(given), "own"), Voice(Cloned(other), "stranger")
    _, person = said_by(own, SENTENCES[4:8], given)
    plain, _ = said_by(own, SENTENCES[:4], person)
    without, _ = said_by(replace(own, adapter=nothing), SENTENCES[:4], person)
    cloned, _ = said_by(stranger, SENTENCES[:4], person)
    none, clear = compare(plain, without, 14.0), compare(cloned, plain, 14.0)
    assert not none.won and abs(none.gain) < 0.01
    assert clear.won and clear.gain > 0.2 and clear.gain > 2 * clear.interval
