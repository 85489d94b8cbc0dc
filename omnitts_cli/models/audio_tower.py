"""The audio tower: a recording at 16 kHz -> its log-mel spectrum -> 13 rows a second of a thinker's input.

Each clip is encoded on its own: in a batch with a longer one, its last columns would be padded and its rows would
change.
"""

import math
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from omnitts_cli.errors import InputError
from omnitts_cli.models.shapes import MelShape
from omnitts_cli.models.speaker import mel_filters

RATE = 16_000
WINDOW, HOP = 400, 160
PIECE = 100  # columns that the convolutions take at a time: 1 s
PIECES = 100  # pieces in one call, which bounds the memory of long clips
SHORTEST_S = 0.1


@dataclass(frozen=True, eq=False)
class Sound:
    """A clip as input of a thinker. `key` depends on its content only."""

    mel: np.ndarray  # [columns, bands] float32
    tokens: int  # rows of the tower
    key: bytes

    @staticmethod
    def of(samples: np.ndarray) -> "Sound":
        """The clip of mono samples [N] float32 at 16 kHz; InputError for less than 0.1 s."""
        if len(samples) < SHORTEST_S * RATE:
            raise InputError(
                f"the sound lasts {len(samples) / RATE:.3f} s; at least {SHORTEST_S} s is needed",
                hint="record a question of a second or more",
            )
        mel = log_mel(torch.from_numpy(np.ascontiguousarray(samples, np.float32)))
        array = np.ascontiguousarray(mel.T.numpy())
        return Sound(array, tokens_of(len(array)), blake2b(array.tobytes(), digest_size=16).digest())


def tokens_of(columns: int) -> int:
    """The number of output rows for a number of columns."""
    whole, rest = divmod(columns, PIECE)
    return whole * shrunk(PIECE) + shrunk(rest)


def shrunk(columns: int) -> int:
    """The number of columns of one piece after three convolutions of stride 2."""
    for _ in range(3):
        columns = -(-columns // 2)
    return columns


@cache
def filters() -> Tensor:
    """Triangles of the mel scale: [128, 201]."""
    shape = MelShape(sample_rate=RATE, window=WINDOW, hop=HOP, bands=128, lowest=0.0, highest=8000.0)
    return mel_filters(shape)


@torch.no_grad()
def log_mel(sound: Tensor) -> Tensor:
    """Samples [N] at 16 kHz -> [128, N // 160], in units of four decades, at most two below the loudest."""
    spectrum = torch.stft(
        sound, WINDOW, HOP, window=torch.hann_window(WINDOW), center=True, pad_mode="reflect", return_complex=True
    )
    power = spectrum[:, :-1].abs().square()  # half of the last column comes from the mirrored end
    decades = (filters() @ power).clamp(min=1e-10).log10()
    return (torch.maximum(decades, decades.max() - 8.0) + 4.0) / 4.0


@dataclass(frozen=True)
class TowerShape:
    """Sizes of the tower."""

    width: int
    layers: int
    heads: int
    inner: int
    channels: int  # of the convolutions
    bands: int  # of the spectrum
    out: int  # width of the thinker
    window: int  # columns within which rows attend to each other


class TowerLayer(nn.Module):
    """Pre-norm attention within windows, then an MLP."""

    def __init__(self, shape: TowerShape) -> None:
        super().__init__()
        self.heads = shape.heads
        self.attend_norm = nn.LayerNorm(shape.width)
        self.qkv = nn.Linear(shape.width, 3 * shape.width)
        self.out = nn.Linear(shape.width, shape.width)
        self.mlp_norm = nn.LayerNorm(shape.width)
        self.wide = nn.Linear(shape.width, shape.inner)
        self.narrow = nn.Linear(shape.inner, shape.width)

    def forward(self, x: Tensor) -> Tensor:
        """x [windows, T, width] -> the same; windows do not attend to each other."""
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in self._projected(x))
        x = x + self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))
        return x + self.narrow(F.gelu(self.wide(self.mlp_norm(x))))

    def _projected(self, x: Tensor) -> tuple[Tensor, ...]:
        return self.qkv(self.attend_norm(x)).chunk(3, -1)


def sinusoids(count: int, width: int) -> Tensor:
    """Sinusoidal positions inside a piece: [count, width]."""
    half = width // 2
    rates = torch.exp(torch.arange(half) * (-math.log(10_000) / (half - 1)))
    turned = torch.arange(count)[:, None] * rates
    return torch.cat([turned.sin(), turned.cos()], 1)


class AudioTower(nn.Module):
    """One clip at a time."""

    places: Tensor

    def __init__(self, shape: TowerShape) -> None:
        super().__init__()
        self.shape = shape
        inputs = (1, shape.channels, shape.channels)
        self.convs = nn.ModuleList(nn.Conv2d(width, shape.channels, 3, stride=2, padding=1) for width in inputs)
        self.join = nn.Linear(shape.channels * shrunk(shape.bands), shape.width, bias=False)
        self.layers = nn.ModuleList(TowerLayer(shape) for _ in range(shape.layers))
        self.norm = nn.LayerNorm(shape.width)
        self.first = nn.Linear(shape.width, shape.width)
        with torch.device("cpu"):  # computed, while the weights may have no values yet
            self.register_buffer("places", sinusoids(shrunk(PIECE), shape.width), persistent=False)
        self.last = nn.Linear(shape.width, shape.out)

    def forward(self, mel: Tensor) -> Tensor:
        """A log-mel spectrum [columns, bands] float32 -> rows [tokens, out]."""
        columns = mel.shape[0]
        # a clip of one piece is not padded; in longer ones the tail is, and padding is not neutral
        padded = F.pad(mel, (0, 0, 0, -columns % PIECE if columns > PIECE else 0))
        pieces = padded.unflatten(0, (-1, min(PIECE, padded.shape[0]))).transpose(1, 2)  # [pieces, bands, columns]
        rows = torch.cat([self._convolved(part) for part in pieces.split(PIECES)])[: tokens_of(columns)]
        window = self.shape.window // PIECE * shrunk(PIECE)
        whole = len(rows) // window * window
        parts = [rows[:whole].unflatten(0, (-1, window))] if whole else []
        parts += [rows[None, whole:]] if whole < len(rows) else []
        rows = torch.cat([self._attended(part).flatten(0, 1) for part in parts])
        return self.last(F.gelu(self.first(self.norm(rows))))

    def _convolved(self, pieces: Tensor) -> Tensor:
        """[B, bands, columns] -> [B * columns / 8, width], with the positions inside the piece added."""
        x = pieces[:, None].to(self.join.weight.dtype)
        for conv in self.convs:
            x = F.gelu(conv(x))
        x = self.join(x.permute(0, 3, 1, 2).flatten(2))  # channel major: [B, columns / 8, width]
        return (x + self.places[: x.shape[1]].to(x.dtype)).flatten(0, 1)

    def _attended(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x)
        return x
