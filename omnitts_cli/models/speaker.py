"""The speaker encoder (ECAPA-TDNN): a clip -> its log-mel spectrum -> one vector that identifies the speaker.

The whole clip counts: silence, noise or a second speaker change the vector. The spectrum is always float32.
Layout: x [B, C, columns of the mel spectrum].
"""

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from omnitts_cli.errors import InputError
from omnitts_cli.models.shapes import MelShape, SpeakerShape

# The Slaney scale: linear up to the knee, then logarithmic; both in mels.
HERTZ_PER_MEL = 200.0 / 3.0
KNEE_HERTZ = 1000.0
KNEE = KNEE_HERTZ / HERTZ_PER_MEL
LOG_STEP = np.log(6.4) / 27.0
QUIETEST = 1e-5


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


def same_conv(inputs: int, outputs: int, kernel: int = 1, dilation: int = 1) -> nn.Conv1d:
    """A convolution that keeps the length and mirrors the ends."""
    return nn.Conv1d(inputs, outputs, kernel, dilation=dilation, padding="same", padding_mode="reflect")


class Res2Block(nn.Module):
    """Res2Net block: channels in parts, each added to the next; then a gate per channel and the residual sum."""

    def __init__(self, shape: SpeakerShape, channels: int, kernel: int, dilation: int) -> None:
        super().__init__()
        part = channels // shape.parts
        self.before, self.after = same_conv(channels, channels), same_conv(channels, channels)
        self.parts = nn.ModuleList(same_conv(part, part, kernel, dilation) for _ in range(shape.parts - 1))
        self.gate_in, self.gate_out = same_conv(channels, shape.gate), same_conv(shape.gate, channels)

    def forward(self, x: Tensor) -> Tensor:
        """[B, C, columns] -> the same."""
        first, *rest = F.relu(self.before(x)).chunk(len(self.parts) + 1, 1)
        made = [first]
        for index, (conv, part) in enumerate(zip(self.parts, rest, strict=True)):
            made.append(F.relu(conv(part if index == 0 else part + made[-1])))
        y = F.relu(self.after(torch.cat(made, 1)))
        gate = torch.sigmoid(self.gate_out(F.relu(self.gate_in(y.mean(2, keepdim=True)))))
        return y * gate + x


class Pooling(nn.Module):
    """[B, C, columns] -> [B, 2 C]: mean and spread over time, each column weighted by attention."""

    def __init__(self, channels: int, width: int) -> None:
        super().__init__()
        self.into, self.out = same_conv(3 * channels, width), same_conv(width, channels)

    def forward(self, x: Tensor) -> Tensor:
        """[B, C, columns] -> [B, 2 C]."""
        evenly = torch.full_like(x[:, :1], 1.0 / x.shape[2])
        overall = [summary[:, :, None].expand_as(x) for summary in moments(x, evenly)]
        weights = self.out(torch.tanh(F.relu(self.into(torch.cat([x, *overall], 1))))).softmax(2)
        return torch.cat(moments(x, weights), 1)


def moments(x: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    """Weighted mean and standard deviation over the last axis."""
    mean = (weights * x).sum(2)
    variance = (weights * (x - mean[:, :, None]).square()).sum(2)
    return mean, variance.clamp(min=1e-12).sqrt()


class SpeakerEncoder(nn.Module):
    def __init__(self, shape: SpeakerShape) -> None:
        super().__init__()
        self.shape = shape
        *channels, joined = shape.channels
        sizes = zip(channels[1:], shape.kernels[1:-1], shape.dilations[1:-1], strict=True)
        self.opening = same_conv(shape.mel.bands, channels[0], shape.kernels[0], shape.dilations[0])
        self.blocks = nn.ModuleList(Res2Block(shape, *size) for size in sizes)
        self.join = same_conv(sum(channels[1:]), joined, shape.kernels[-1], shape.dilations[-1])
        self.pool = Pooling(joined, shape.attention)
        self.out = nn.Conv1d(2 * joined, shape.embedding, 1)

    def forward(self, mel: Tensor) -> Tensor:
        """mel [B, bands, columns] -> [B, embedding]."""
        x = F.relu(self.opening(mel))
        outputs = []
        for block in self.blocks:
            x = block(x)
            outputs.append(x)
        pooled = self.pool(F.relu(self.join(torch.cat(outputs, 1))))
        return self.out(pooled[:, :, None])[:, :, 0]

    def embed(self, sound: Tensor) -> Tensor:
        """sound [n], mono at the encoder's sample rate -> [embedding]."""
        samples, least = sound.shape[0], self.shape.shortest_samples
        if samples < least:
            raise InputError(
                f"the clip is {samples / self.shape.mel.sample_rate:.3f} s long, which is too short to clone a voice",
                cause=f"it has {samples} samples; the speaker encoder needs {least}",
                hint="use a clip of 3 to 10 s of clear speech",
            )
        return self(log_mel(sound[None], self.shape.mel).to(self.out.weight))[0]
