"""A teacher whose voice rises at the end of a question. Kokoro's falls at most questions.

From the last stressed syllable on, the F0 curve bends towards a pitch well above the median of the text.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from omnitts_cli.training.pitch_lock import VOICED

VOWELS = frozenset("AIOQWYaiuæɐɑɒɔəɛɜɪʊʌᵊᵻ")
THERE = 0.6  # of the rising part, after which the pitch has risen as far as it will
SPOKEN = 0.6  # of the median; where the teacher's F0 is lower, the voice is dying away
SHORTEST, LONGEST = 14, 30  # values of the curve, 175 and 375 ms; other parts begin earlier or later
Span = tuple[int, int]
"""The first token that rises, and the one after the last."""


def rising(line: Sequence[str]) -> list[Span]:
    """Where a line of phonemes rises: from the last strongly stressed vowel before a question mark to the mark."""
    found = []
    begin = 0
    for at, sign in enumerate(line):
        if sign == "?":
            first = max((n for n in range(begin, at) if line[n] == "ˈ"), default=None)
            if first is None:
                first = max((n for n in range(begin, at) if line[n] in VOWELS), default=None)
            if first is not None:
                found.append((first, at))
        if sign in ".!?":
            begin = at + 1
    return found


def raised(pitch: Tensor, spans: Sequence[tuple[int, int, int]], semitones: float) -> Tensor:
    """The F0 curve [B, T] with every span (row, first, end) bent up to `semitones` above the median of its row."""
    pitch = pitch.clone()
    voiced = pitch > VOICED
    median = torch.where(voiced, pitch, torch.nan).nanmedian(1).values
    places = torch.arange(pitch.shape[1], device=pitch.device)
    for row, first, end in spans:
        until = (places < end) & voiced[row]
        last = torch.where(until & (pitch[row] > SPOKEN * median[row]), places, 0).max()
        begin = torch.maximum(torch.minimum(last - SHORTEST, torch.full_like(last, first)), last - LONGEST)
        inside = until & (places >= begin)
        part = ((places - begin) / ((last - begin) * THERE).clamp(min=1)).clamp(0, 1)
        part = part * part * (3 - 2 * part)
        target = median[row] * 2 ** (semitones / 12)
        bent = pitch[row].clamp(min=VOICED) ** (1 - part) * target**part
        pitch[row] = torch.where(inside, torch.maximum(bent, pitch[row]), pitch[row])
    return pitch
