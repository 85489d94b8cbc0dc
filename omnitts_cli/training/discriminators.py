"""Discriminators: they learn to tell generated from true sound, by spectra and by sound folded at several periods."""

from __future__ import annotations

from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from omnitts_cli.training.channels_last import even_conv
from omnitts_cli.training.mel_distance import apart_from, spectrum

SPECTRUM_WINDOWS = (2048, 1024, 512)
POWER, FLOOR = 0.3, 1e-7
"""Exponent for magnitudes, so that soft bins count too; power below the floor is silence."""
LOUDER = 5.0  # speech has small values for a newly initialised network


class SpectrumDiscriminator(nn.Module):
    """Convolutions over one complex spectrum and its magnitudes. The score is a map; all layers are features."""

    window: Tensor

    def __init__(self, window: int, width: int) -> None:
        super().__init__()
        self.register_buffer("window", torch.hann_window(window), persistent=False)
        sizes = [(3, 2)] + [(width, 2)] * 3
        self.layers = nn.ModuleList(
            nn.Conv2d(inputs, width, (3, 9), (1, stride), padding=(1, 4)) for inputs, stride in sizes
        )
        self.layers.append(nn.Conv2d(width, width, (3, 3), padding=(1, 1)))
        self.last = nn.Conv2d(width, 1, (3, 3), padding=(1, 1))

    def forward(self, sound: Tensor) -> tuple[Tensor, list[Tensor]]:
        found = torch.view_as_real(spectrum(sound.float(), self.window))
        square = found.square().sum(-1, keepdim=True) + FLOOR
        seen = torch.cat([found * square.pow((POWER - 1) / 2), square.pow(POWER / 2)], -1)
        return _opinion(seen.permute(0, 3, 1, 2), self.layers, self.last)  # of [B, 3, frames, bins]


class PeriodDiscriminator(nn.Module):
    """Convolutions along every `period`-th sample, which show what repeats and how regularly."""

    def __init__(self, period: int, width: int) -> None:
        super().__init__()
        self.period = period
        sizes = (1, width, 2 * width, 4 * width, 8 * width)
        self.layers = nn.ModuleList(
            nn.Conv2d(inputs, outputs, (5, 1), (3, 1), padding=(2, 0)) for inputs, outputs in pairwise(sizes)
        )
        self.layers.append(nn.Conv2d(sizes[-1], sizes[-1], (5, 1), padding=(2, 0)))
        self.last = nn.Conv2d(sizes[-1], 1, (3, 1), padding=(1, 0))

    def forward(self, sound: Tensor) -> tuple[Tensor, list[Tensor]]:
        x = sound[:, : sound.shape[1] // self.period * self.period].reshape(len(sound), 1, -1, self.period) * LOUDER
        return _opinion(x, self.layers, self.last)


def _opinion(x: Tensor, layers: nn.ModuleList, last: nn.Conv2d) -> tuple[Tensor, list[Tensor]]:
    features = []
    for layer in layers:
        assert isinstance(layer, nn.Conv2d)
        x = F.leaky_relu(_even(layer, x), 0.1)
        features.append(x)
    return _even(last, x), features


def _even(layer: nn.Conv2d, x: Tensor) -> Tensor:
    return even_conv(x, layer.weight, layer.bias, layer.stride, tuple(int(p) for p in layer.padding))


class Discriminators(nn.Module):
    """Several discriminators, each with its own window or period."""

    def __init__(self, width: int, periods: tuple[int, ...], period_width: int) -> None:
        super().__init__()
        self.each = nn.ModuleList(
            [
                *(SpectrumDiscriminator(window, width) for window in SPECTRUM_WINDOWS),
                *(PeriodDiscriminator(period, period_width) for period in periods),
            ]
        )

    def forward(self, sound: Tensor) -> tuple[list[Tensor], list[list[Tensor]]]:
        opinions, features = zip(*(discriminator(sound) for discriminator in self.each), strict=True)
        return list(opinions), list(features)


def discriminator_loss(true: list[Tensor], made: list[Tensor]) -> Tensor:
    """Hinge loss of the discriminators: 1 for true sound, -1 for generated sound."""
    return sum(
        (F.relu(1 - t.float()).mean() + F.relu(1 + m.float()).mean() for t, m in zip(true, made, strict=True)),
        start=true[0].new_zeros(()).float(),
    )


def generator_losses(
    made: list[Tensor], made_features: list[list[Tensor]], true_features: list[list[Tensor]], compiled: bool = False
) -> tuple[Tensor, Tensor]:
    """(the adversarial loss, the distance between features)."""
    distance = apart_from
    if compiled:
        from omnitts_cli.training.compiled import compiled_apart as distance
    adversarial = made[0].new_zeros(()).float()
    apart = adversarial.clone()
    for opinion, own, true in zip(made, made_features, true_features, strict=True):
        adversarial = adversarial - opinion.float().mean()
        for a, b in zip(own, true, strict=True):
            apart = apart + distance(_row(a), _row(b.detach())) / len(own)
    return adversarial, apart


def _row(x: Tensor) -> Tensor:
    """[B, C, H, W] flattened in its channels-last memory order."""
    return x.permute(0, 2, 3, 1).reshape(-1)
