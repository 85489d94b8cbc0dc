"""The verdict: a gain counts only above chance."""

from __future__ import annotations

import numpy as np

from omnitts_cli.tuning.verdict import Sample, compare, cosine, pace_of, wer


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


def test_figures() -> None:
    assert cosine(np.array([1.0, 0.0]), np.array([1.0, 1.0])) == np.float64(1 / np.sqrt(2)).round(16)
    assert pace_of("ab, cd!", 2.0) == 2.0
    found = compare(samples(0.5, 0.5), samples(0.6, 0.6), 15.0)
    assert found.gain > 0.09 and "0.600" in found.words and found.pace_recorded == 15.0
