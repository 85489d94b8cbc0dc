"""Log-mel spectrum of a clip, the input of the speaker encoder. Always float32."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

# The Slaney scale: linear up to the knee, then logarithmic; both in mels.
HERTZ_PER_MEL = 200.0 / 3.0
KNEE_HERTZ = 1000.0
KNEE = KNEE_HERTZ / HERTZ_PER_MEL
LOG_STEP = np.log(6.4) / 27.0
QUIETEST = 1e-5


@dataclass(frozen=True)
class MelShape:
    sample_rate: int = 24_000
    window: int = 1024  # samples; also the length of the transform
    hop: int = 256
    bands: int = 128
    lowest: float = 0.0  # Hz
    highest: float = 12_000.0

    @property
    def margin(self) -> int:
        """Samples mirrored at either end, so that n samples give n // hop columns."""
        return (self.window - self.hop) // 2


def mels(hertz: np.ndarray) -> np.ndarray:
    """Frequencies in mels."""
    logarithmic = KNEE + np.log(np.maximum(hertz, KNEE_HERTZ) / KNEE_HERTZ) / LOG_STEP
    return np.where(hertz < KNEE_HERTZ, hertz / HERTZ_PER_MEL, logarithmic)


def hertz(mels: np.ndarray) -> np.ndarray:
    """Mels in Hz."""
    logarithmic = KNEE_HERTZ * np.exp((np.maximum(mels, KNEE) - KNEE) * LOG_STEP)
    return np.where(mels < KNEE, mels * HERTZ_PER_MEL, logarithmic)


def mel_filters(shape: MelShape) -> Tensor:
    """Triangles of equal area, evenly spaced in mels: [bands, window // 2 + 1] float32."""
    low, high = mels(np.array([shape.lowest, shape.highest]))
    corners = hertz(np.linspace(low, high, shape.bands + 2))[:, None]  # left, top and right of each triangle
    bins = np.fft.rfftfreq(shape.window, 1.0 / shape.sample_rate)
    rising = (bins - corners[:-2]) / (corners[1:-1] - corners[:-2])
    falling = (corners[2:] - bins) / (corners[2:] - corners[1:-1])
    triangles = np.maximum(0.0, np.minimum(rising, falling))
    area = (corners[2:] - corners[:-2]) / 2.0
    return torch.from_numpy((triangles / area).astype(np.float32))


def log_mel(sound: Tensor, shape: MelShape) -> Tensor:
    """sound [B, n], n > margin -> [B, bands, n // hop]. Natural logarithm."""
    sound = F.pad(sound.float()[:, None], (shape.margin, shape.margin), "reflect")[:, 0]
    window = torch.hann_window(shape.window, device=sound.device)
    spectrum = torch.stft(sound, shape.window, shape.hop, window=window, center=False, return_complex=True)
    strength = torch.sqrt(torch.view_as_real(spectrum).square().sum(-1) + 1e-9)  # [B, bins, columns]
    return (mel_filters(shape).to(sound.device) @ strength).clamp(min=QUIETEST).log()
