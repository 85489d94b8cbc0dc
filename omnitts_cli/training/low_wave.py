"""The wave of the lowest harmonics, where the phase of a voice can be followed.

Without this loss the codes do not contain the phase of the glottal pulses. The decoder then starts the pulses at
another phase every few frames, and losses on short windows cannot be met. The wave of the lowest harmonics gives the
latents the phase.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from omnitts_cli.training.teacher import SAMPLE_RATE

BANDS = ((0.0, 500.0), (500.0, 1500.0))  # Hz
DOWN = (16, 6)  # samples of sound for a sample of each band's wave
WINDOWS = (0.04, 0.02)  # seconds
SHARES = (1.0, 0.5)  # of each band in the distance
AUDIBLE = (1e-5, 1e-6)  # mean squares of a band's wave, below which a window does not count
TAPS = 193


class LowWaves(nn.Module):
    """Sound [B, n] -> the wave of each band [B, n / its DOWN]."""

    def __init__(self) -> None:
        super().__init__()
        n = torch.arange(TAPS) - TAPS // 2
        hann = torch.hann_window(TAPS, periodic=False)
        for index, (low, high) in enumerate(BANDS):
            taps = (
                2 * high * torch.sinc(n * (2 * high / SAMPLE_RATE)) - 2 * low * torch.sinc(n * (2 * low / SAMPLE_RATE))
            ) * hann
            self.register_buffer(f"taps{index}", (taps / SAMPLE_RATE)[None, None], persistent=False)

    def forward(self, sound: Tensor) -> list[Tensor]:
        sound = sound.float()[:, None]
        taps = (getattr(self, f"taps{index}") for index in range(len(BANDS)))
        return [F.conv1d(sound, t, stride=down, padding=TAPS // 2)[:, 0] for t, down in zip(taps, DOWN, strict=True)]


def out_of_phase(made: list[Tensor], true: list[Tensor]) -> Tensor:
    """1 minus the cosine of two sounds' waves in short windows, over all bands or the first ones."""
    distance = made[0].new_zeros(())
    for own, wanted, down, seconds, audible, share in zip(made, true, DOWN, WINDOWS, AUDIBLE, SHARES, strict=False):
        window = int(seconds * SAMPLE_RATE / down)
        own, wanted = own.float().unfold(1, window, window // 2), wanted.unfold(1, window, window // 2)
        heard = (wanted.square().mean(-1) > audible).float()
        sizes = ((own.square().sum(-1) + 1e-6) * (wanted.square().sum(-1) + 1e-6)).sqrt()
        distance = distance + share * ((1 - (own * wanted).sum(-1) / sizes) * heard).sum() / (heard.sum() + 1.0)
    return distance
