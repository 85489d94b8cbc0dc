"""What judges the codec's sound while it learns: log-mel distances and critics that look at spectra."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

MEL_SCALES = ((128, 10), (256, 20), (512, 40), (1024, 80), (2048, 120))  # (window, bands)
CRITIC_WINDOWS = (2048, 1024, 512)


def spectrum(sound: Tensor, window: Tensor) -> Tensor:
    """sound [B, n] -> complex [B, frames, bins]; hops of a quarter window."""
    size = len(window)
    padded = F.pad(sound[:, None], (size // 2, size // 2), "reflect")[:, 0]
    return torch.fft.rfft(padded.unfold(-1, size, size // 4) * window, norm="ortho")


def mel_bands(sample_rate: int, window: int, bands: int) -> Tensor:
    """Triangles on the mel scale, each of height 1: [bins, bands]."""
    top = 2595 * math.log10(1 + sample_rate / 2 / 700)
    edges = 700 * (10 ** (torch.linspace(0, top, bands + 2) / 2595) - 1)
    bins = torch.arange(window // 2 + 1) * (sample_rate / window)
    rising = (bins[:, None] - edges[:-2]) / (edges[1:-1] - edges[:-2])
    falling = (edges[2:] - bins[:, None]) / (edges[2:] - edges[1:-1])
    return torch.minimum(rising, falling).clamp(min=0)


class MelDistance(nn.Module):
    """Mean absolute difference of log-mel spectra over several windows; of the order of 1 for other speech."""

    def __init__(self, sample_rate: int) -> None:
        super().__init__()
        for size, bands in MEL_SCALES:
            self.register_buffer(f"window{size}", torch.hann_window(size), persistent=False)
            self.register_buffer(f"bands{size}", mel_bands(sample_rate, size, bands), persistent=False)

    def forward(self, made: Tensor, true: Tensor) -> Tensor:
        """Two of [B, n] -> a number."""
        total = made.new_zeros(())
        for size, _ in MEL_SCALES:
            window, bands = getattr(self, f"window{size}"), getattr(self, f"bands{size}")
            logs = [torch.log(self._magnitude(x, window) @ bands + 3e-4) for x in (made, true)]
            total = total + (logs[0] - logs[1]).abs().mean()
        return total / len(MEL_SCALES)

    @staticmethod
    def _magnitude(sound: Tensor, window: Tensor) -> Tensor:
        found = spectrum(sound, window)
        return (found.real.square() + found.imag.square() + 1e-9).sqrt()


class Critic(nn.Module):
    """Convolutions over one complex spectrum; its opinion is a map, its layers are features."""

    def __init__(self, window: int, width: int) -> None:
        super().__init__()
        self.register_buffer("window", torch.hann_window(window), persistent=False)
        sizes = [(2, 2)] + [(width, 2)] * 3
        self.layers = nn.ModuleList(
            nn.Conv2d(inputs, width, (3, 9), (1, stride), padding=(1, 4)) for inputs, stride in sizes
        )
        self.layers.append(nn.Conv2d(width, width, (3, 3), padding=(1, 1)))
        self.last = nn.Conv2d(width, 1, (3, 3), padding=(1, 1))
        self.to(memory_format=torch.channels_last)

    def forward(self, sound: Tensor) -> tuple[Tensor, list[Tensor]]:
        found = spectrum(sound.float(), self.window)
        x = torch.stack([found.real, found.imag], 1)  # [B, 2, frames, bins]
        x = x.contiguous(memory_format=torch.channels_last)
        features = []
        for layer in self.layers:
            x = F.leaky_relu(layer(x), 0.1)
            features.append(x)
        return self.last(x), features


class Critics(nn.Module):
    """Several critics, each with its own window."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.each = nn.ModuleList(Critic(window, width) for window in CRITIC_WINDOWS)

    def forward(self, sound: Tensor) -> tuple[list[Tensor], list[list[Tensor]]]:
        opinions, features = zip(*(critic(sound) for critic in self.each), strict=True)
        return list(opinions), list(features)


def critic_loss(true: list[Tensor], made: list[Tensor]) -> Tensor:
    """Critics should say 1 of true sound and -1 of made sound."""
    return sum(
        (F.relu(1 - t.float()).mean() + F.relu(1 + m.float()).mean() for t, m in zip(true, made, strict=True)),
        start=true[0].new_zeros(()).float(),
    )


def maker_losses(
    made: list[Tensor], made_features: list[list[Tensor]], true_features: list[list[Tensor]]
) -> tuple[Tensor, Tensor]:
    """(how badly the critics were fooled, how far apart the features are)."""
    fooled = made[0].new_zeros(()).float()
    apart = fooled.clone()
    for opinion, own, true in zip(made, made_features, true_features, strict=True):
        fooled = fooled - opinion.float().mean()
        for a, b in zip(own, true, strict=True):
            a, b = a.float(), b.detach().float()
            apart = apart + (a - b).abs().mean() / (b.abs().mean() + 1e-5) / len(own)
    return fooled, apart
