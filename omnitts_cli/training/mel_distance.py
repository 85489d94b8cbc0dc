"""Spectra, and the distance between two sounds: log-mel spectra over several windows."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

MEL_SCALES = ((128, 10), (256, 20), (512, 40), (1024, 80), (2048, 120))  # (window, bands)


def spectrum(sound: Tensor, window: Tensor) -> Tensor:
    """sound [B, n] -> complex [B, frames, bins]; hops of a quarter window."""
    size, hop = len(window), len(window) // 4
    padded = F.pad(sound[:, None], (size // 2, size // 2), "reflect")[:, 0]
    blocks = padded[:, : padded.shape[1] // hop * hop].unflatten(1, (-1, hop))
    count = blocks.shape[1] - 3
    # four blocks joined: their gradients are plain slices, while those of `unfold` are scattered sums
    frames = torch.cat([blocks[:, i : i + count] for i in range(4)], -1)
    return torch.fft.rfft(frames * window, norm="ortho")


def mel_bands(sample_rate: int, window: int, bands: int) -> Tensor:
    """Triangles on the mel scale, each of height 1: [bins, bands]."""
    top = 2595 * math.log10(1 + sample_rate / 2 / 700)
    edges = 700 * (10 ** (torch.linspace(0, top, bands + 2) / 2595) - 1)
    bins = torch.arange(window // 2 + 1) * (sample_rate / window)
    rising = (bins[:, None] - edges[:-2]) / (edges[1:-1] - edges[:-2])
    falling = (edges[2:] - bins[:, None]) / (edges[2:] - edges[1:-1])
    return torch.minimum(rising, falling).clamp(min=0)


class MelDistance(nn.Module):
    """Mean absolute difference of log-mel spectra over several windows; about 1 between unrelated speech."""

    def __init__(self, sample_rate: int) -> None:
        super().__init__()
        for size, bands in MEL_SCALES:
            self.register_buffer(f"window{size}", torch.hann_window(size), persistent=False)
            self.register_buffer(f"bands{size}", mel_bands(sample_rate, size, bands), persistent=False)

    def forward(self, made: Tensor, true: Tensor, shortest: int = 0) -> Tensor:
        """Two sounds [B, n] -> a number; only windows of at least `shortest` samples count."""
        total, both = made.new_zeros(()), torch.cat([made, true])
        scales = [size for size, _ in MEL_SCALES if size >= shortest]
        for size in scales:
            window, bands = getattr(self, f"window{size}"), getattr(self, f"bands{size}")
            logs = torch.log(self._magnitude(both, window) @ bands + 3e-4)
            total = total + (logs[: len(made)] - logs[len(made) :]).abs().mean()
        return total / len(scales)

    @staticmethod
    def _magnitude(sound: Tensor, window: Tensor) -> Tensor:
        found = torch.view_as_real(spectrum(sound, window))
        return (found.square().sum(-1) + 1e-9).sqrt()


def apart_from(made: Tensor, true: Tensor) -> Tensor:
    """The mean distance of two tensors of one shape, relative to the size of the true one."""
    made, true = made.float(), true.float()
    return (made - true).abs().mean() / (true.abs().mean() + 1e-5)
