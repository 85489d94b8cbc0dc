"""An F0 curve rises at a question mark, from the last stressed syllable on."""

import torch

from omnitts_cli.training.kokoro import Intonation
from omnitts_cli.training.pitch_rise import raised, rising


def test_a_line_rises_from_its_last_stressed_vowel_to_the_mark() -> None:
    line = "jˈu sˈɔ ðə kˈɑɹ?"
    assert rising(line) == [(line.rindex("ˈ"), line.index("?"))]
    assert rising("jˈu sˈɔ ðə kˈɑɹ.") == []
    # the stress of another sentence does not count
    two = "nˈO. ɪz ɪt? jˈɛs."
    assert rising(two) == [(two.index("ɪt"), two.index("?"))]
    assert rising("?") == []


def test_the_end_is_well_above_the_median_and_what_comes_before_stays() -> None:
    falling = torch.linspace(140.0, 80.0, 100)[None].repeat(2, 1)
    falling[:, 90:] = 0.0  # unvoiced
    made = raised(falling, [(0, 60, 100)], 6.0)
    assert torch.equal(made[1], falling[1]) and torch.equal(made[0, :59], falling[0, :59])
    assert torch.equal(made[0, 90:], falling[0, 90:])
    semitones = 12 * torch.log2(made[0, 60:90] / falling[0, :90].median())
    assert (semitones.diff() > -0.5).all() and abs(float(semitones[-1]) - 6.0) < 0.05
    assert semitones[0] < 0


def test_tokens_are_found_by_the_frames_up_to_their_ends() -> None:
    ends = torch.tensor([[10, 20, 30, 32]])
    curve = torch.full((1, 64), 100.0)
    made, phase = Intonation(torch.ones(1), [[(2, 3)]], semitones=6.0).applied(curve, ends)
    assert (made[0, :41] == 100.0).all() and (made[0, 45:60] > 101).all() and (made[0, 60:] == 100.0).all()
    assert phase.shape == (1, 64 * 300)


def test_a_voice_that_dies_away_and_a_short_syllable_rise_where_they_are_heard() -> None:
    curve = torch.full((1, 60), 100.0)
    curve[0, 44:] = 30.0  # dying away
    made = raised(curve, [(0, 40, 60)], 7.0)
    assert (made[0, :30] == 100.0).all()
    assert (made[0, 37:44] > 112).all() and made[0, 43] > 145
