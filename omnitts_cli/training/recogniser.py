"""A recogniser: the phone in each half of a frame, and facts about the speaker."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from omnitts_cli.training.channels_last import channels_last
from omnitts_cli.training.mel_distance import mel_bands, spectrum
from omnitts_cli.training.teacher import FACTS, HALF, PHONES, SAMPLE_RATE

WINDOWS = (HALF, HALF // 2)  # samples; the short one sees bursts. Hops are a quarter of each
BANDS, USED = (80, 48), (70, 42)  # bands above 8 kHz are left out
INPUTS = USED[0] + 2 * USED[1]  # one hop of the long windows beside two of the short ones
FLOOR = 1e-3
AROUND = 25  # halves of a frame whose mean predicts the facts about the speaker
STRIDES, DILATIONS = (1, 1, 2, 1, 2, 1, 1, 1, 1), (1, 1, 1, 1, 1, 1, 2, 4, 1)


@dataclass(frozen=True)
class HeardPhones:
    """What the recogniser finds in sounds, for each half of a frame."""

    phones: Tensor  # [B, halves, len(PHONES)] logits
    who: Tensor  # [B, halves, FACTS]
    layers: list[Tensor]  # activations

    def part(self, examples: slice) -> HeardPhones:
        return HeardPhones(self.phones[examples], self.who[examples], [layer[examples] for layer in self.layers])


class PhoneRecogniser(nn.Module):
    """Convolutions over log-mel spectra, at 100, 50 and 25 values a second."""

    def __init__(self, width: int) -> None:
        super().__init__()
        for size, bands, used in zip(WINDOWS, BANDS, USED, strict=True):
            self.register_buffer(f"window{size}", torch.hann_window(size), persistent=False)
            every = mel_bands(SAMPLE_RATE, size, bands)
            self.register_buffer(f"bands{size}", every[:, :used].contiguous(), persistent=False)
        self.first = nn.Conv1d(INPUTS, width, 5, padding=2)
        self.layers = nn.ModuleList(
            nn.Conv1d(width, width, 5, stride, padding=2 * dilation, dilation=dilation)
            for stride, dilation in zip(STRIDES, DILATIONS, strict=True)
        )
        self.phones = nn.Conv1d(width, len(PHONES), 1)
        self.who = nn.Sequential(nn.Conv1d(width, width, 1), nn.GELU(), nn.Conv1d(width, FACTS, 1))
        channels_last(self)

    def spectra(self, sound: Tensor) -> Tensor:
        """Log-mel spectra [B, INPUTS, hops], scaled to about 1, with four hops for each half of a frame."""
        found = []
        for size in WINDOWS:
            bins = torch.view_as_real(spectrum(sound.float(), getattr(self, f"window{size}")))[:, :-1]
            with torch.autocast(sound.device.type, enabled=False):
                mel = (bins.square().sum(-1) + 1e-9).sqrt() @ getattr(self, f"bands{size}")
            found.append((torch.log(mel + FLOOR) + 4).reshape(len(sound), -1, mel.shape[-1] * (WINDOWS[0] // size)) / 2)
        return torch.cat(found, -1).transpose(1, 2)

    def forward(self, spectra: Tensor) -> HeardPhones:
        x, layers = F.gelu(self.first(spectra)), []
        for layer in self.layers:
            size = x.float().square().mean(1, keepdim=True)
            y = F.gelu(layer((x * torch.rsqrt(size + 1e-4)).to(x.dtype)))
            y = F.dropout(y, 0.1, self.training)
            layers.append(y)
            x = y if y.shape[-1] < x.shape[-1] else x + y
        around = F.avg_pool1d(x.float(), AROUND, 1, AROUND // 2, count_include_pad=False)
        return HeardPhones(self.phones(x).transpose(1, 2).float(), self.who(around).transpose(1, 2).float(), layers)
