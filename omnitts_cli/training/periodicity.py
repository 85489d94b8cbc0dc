"""How sound repeats itself: normalised autocorrelations over the periods of a voice, and the pitch that they show.

Log-mel spectra hardly show whether a voice is a semitone too low, and a distance of waveforms depends on phase. An
autocorrelation has no phase, and its peaks are the pitch.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from omnitts_cli.training.teacher import SAMPLE_RATE

DOWN = 3
RATE = SAMPLE_RATE // DOWN
BAND, TAPS = 1600.0, 63  # Hz, and samples of the filter
HOP, WINDOW = RATE // 50, RATE // 25
SHORTEST, LONGEST = RATE // 400, RATE // 64  # lags
VOICED = 0.75  # the least autocorrelation of a frame that has a pitch
FFT = 512
AUDIBLE = 1e-5  # mean square, below which nothing is voiced


class Periodicity(nn.Module):
    """Autocorrelations of sound every 20 ms."""

    taps: Tensor

    def __init__(self) -> None:
        super().__init__()
        n = torch.arange(TAPS) - TAPS // 2
        taps = torch.sinc(n * (2 * BAND / SAMPLE_RATE)) * torch.hann_window(TAPS, periodic=False)
        self.register_buffer("taps", (taps / taps.sum())[None, None], persistent=False)

    def forward(self, sound: Tensor) -> tuple[Tensor, Tensor]:
        """sound [B, n] -> correlations [B, frames, lags], and the mean square of each frame [B, frames].

        Frames that would reach beyond the end are left out.
        """
        low = F.conv1d(sound.float()[:, None], self.taps, stride=DOWN, padding=TAPS // 2)[:, 0]
        frames = low.unfold(1, WINDOW + LONGEST + 1, HOP)
        start = frames[..., :WINDOW]
        product = torch.fft.rfft(start, FFT).conj() * torch.fft.rfft(frames, FFT)
        crossed = torch.fft.irfft(product, FFT)[..., SHORTEST : LONGEST + 2]
        sums = F.pad(frames.square().cumsum(-1), (1, 0))
        later = (sums[..., WINDOW:] - sums[..., : -WINDOW or None])[..., SHORTEST : LONGEST + 2]
        own = start.square().sum(-1)
        return crossed / (own[..., None] * later.clamp(min=0) + 1e-6).sqrt(), own / WINDOW


def pitches(correlations: Tensor, loudness: Tensor) -> tuple[Tensor, Tensor]:
    """Octaves above 64 Hz [B, frames], and which frames are voiced: the first peak that is nearly the highest."""
    inner = correlations[..., 1:-1]
    peak = (inner >= correlations[..., :-2]) & (inner >= correlations[..., 2:])
    inner_peaks = torch.where(peak, inner, -1.0)
    highest = inner_peaks.amax(-1, keepdim=True)
    first = (inner_peaks >= 0.92 * highest).to(torch.uint8).argmax(-1, keepdim=True)
    before, at, after = (correlations.gather(-1, first + step)[..., 0] for step in range(3))
    moved = 0.5 * (before - after) / (before - 2 * at + after).clamp(max=-1e-6)
    lag = first[..., 0] + SHORTEST + 1 + moved.clamp(-0.5, 0.5)
    return torch.log2(RATE / 64 / lag), (highest[..., 0] > VOICED) & (loudness > AUDIBLE)
