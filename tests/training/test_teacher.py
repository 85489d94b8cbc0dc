"""What is made of the teacher's sound: trimmed, at one loudness, with the phone of each half frame."""

import numpy as np
import torch

from omnitts_cli.training.kokoro import SAMPLES
from omnitts_cli.training.teacher import HALF, LOUDNESS, PHONES, SAMPLES_PER_FRAME, TeacherVoice, _labels, _trimmed


def test_silence_at_the_ends_is_cut_and_loudness_is_the_same() -> None:
    frames = torch.tensor([80, 40])
    sound = torch.zeros(2, 80 * SAMPLES)
    sound[0, 12000:36000] = 0.5 * torch.sin(torch.arange(24000) * 0.1)
    sound[1, 6000:18000] = 0.01 * torch.sin(torch.arange(12000) * 0.1)
    sound[1, 40 * SAMPLES :] = 0.9  # behind the end of a shorter text nothing counts
    cut, starts, counts = _trimmed(sound, frames * SAMPLES, 1)
    assert starts == [10800, 4800] and counts == [15, 9]
    for row, begin, length in zip(cut, (1200, 1200), (24000, 12000), strict=True):
        said = row[begin : begin + length].astype(np.float64) / 32767
        assert abs(np.sqrt((said**2).mean()) / LOUDNESS - 1) < 0.02
        assert np.abs(row[begin + length + 240 :]).max() == 0
    on_the_grid = _trimmed(sound, frames * SAMPLES, SAMPLES_PER_FRAME)[1]
    assert on_the_grid == [5 * SAMPLES_PER_FRAME, 2 * SAMPLES_PER_FRAME]


def test_marks_belong_to_their_sounds_and_a_mixture_to_its_shares() -> None:
    line = list("kˈæt, jˈuː")
    ends = np.cumsum([2] + [4] * len(line) + [6]) * HALF
    labels = [PHONES[p] for p in _labels(line, ends, 0, 22).ravel()]
    assert labels[2] == "k" and labels[6] == labels[10] == "æ" and labels[14] == "t" and labels[18] == "pau"
    assert labels[22] == labels[26] == "j" and labels[30] == labels[34] == labels[38] == "u"
    assert len(labels) == 22 * SAMPLES_PER_FRAME // HALF
    voice = TeacherVoice((("af_heart", 0.25), ("bm_george", 0.75)))
    assert voice.woman == 0.25 and voice.british == 0.75
