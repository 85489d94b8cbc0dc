"""Speakers with a shorter or longer vocal tract: their formants are higher or lower.

A sound that is resampled has higher formants, and its pitch and pace are higher by the same factor. So the teacher
speaks with lower pitch and pace, and is then resampled. A factor is a number of steps in WHOLE, so that a frame of the
resampled sound was a whole number of steps of `pitch_lock` before.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

WHOLE = 32
REACH = 12  # samples on each side of a place, from which the sound there is computed
EDGE = 0.92  # of half the sample rate: where the filter cuts off


def steps(factor: float) -> int:
    """The number of steps that is nearest to a factor."""
    return round(factor * WHOLE)


def resampled(sound: Tensor, many: Sequence[int]) -> Tensor:
    """Sounds [B, n] -> each with its formants, pitch and pace multiplied by its `steps` / WHOLE, padded with zeros."""
    length = -(-sound.shape[1] * WHOLE // min(many))
    found = sound.new_zeros(len(sound), length)
    for count in set(many):
        rows = [row for row, own in enumerate(many) if own == count]
        own = sound[rows] if count == WHOLE else _by(sound[rows], count)
        found[rows, : own.shape[1]] = own[:, :length]
    return found


def _by(sound: Tensor, count: int) -> Tensor:
    """Sample `WHOLE * m + p` is the sound at `count * m + p * count / WHOLE`: one filter for each p. In double
    precision, because an accelerator rounds the products of convolutions in single precision to ten bits."""
    reach = REACH * max(WHOLE, count) // WHOLE
    taps = torch.arange(-reach, count + reach + 1, device=sound.device)
    place = torch.arange(WHOLE, device=sound.device, dtype=torch.float64)[:, None] * (count / WHOLE)
    apart = taps - place
    cut = EDGE * min(1.0, WHOLE / count)
    weights = cut * torch.sinc(cut * apart) * torch.cos(0.5 * torch.pi * apart / reach).square()
    weights = torch.where(apart.abs() < reach, weights, 0.0)
    blocks = -(-sound.shape[1] // count)
    padded = F.pad(sound.double(), (reach, blocks * count - sound.shape[1] + reach + 1))
    found = F.conv1d(padded[:, None], weights[:, None], stride=count)[..., :blocks]
    return found.transpose(1, 2).flatten(1).to(sound.dtype)
