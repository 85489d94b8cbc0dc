"""The codec's speaking half: codes -> sound, whole or chunk by chunk with the state as an argument.

There is one path. A whole clip is one step from an empty state, so a stream cut into chunks of any
size gives the same sound. The decoder is strictly causal: frame t first changes sample t * samples_per_frame.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from omnitts_cli.models.codec_layers import CausalConv, CausalRise, ConvNeXt, ResidualUnit, Snake, spread
from omnitts_cli.models.codec_transformer import TransformerShape, WindowedTransformer
from omnitts_cli.models.quantiser import SplitQuantiser
from omnitts_cli.models.roles import CodecState


@dataclass(frozen=True)
class DecoderShape:
    """Sizes of the decoder. Widths: book -> quantised -> latent -> width, halved by each rise -> sound."""

    groups: int  # G
    codes: int  # per group
    book_width: int
    quantised: int
    latent: int
    width: int
    transformer: TransformerShape
    window: int  # frames the transformer hears, the current one included
    stretches: tuple[int, ...]  # rates of the steps before the sound is shaped
    rises: tuple[int, ...]  # rates of the steps that shape it
    dilations: tuple[int, ...] = (1, 3, 9)
    kernel: int = 7
    opening_kernel: int = 3
    expansion: int = 4
    norm_eps: float = 1e-6

    @property
    def samples_per_frame(self) -> int:
        return math.prod(self.stretches) * math.prod(self.rises)

    @property
    def cuts(self) -> tuple[int, ...]:
        """Samples lost at the beginning, behind each rise: a codec that cuts its other end loses none."""
        return (0,) * len(self.rises)


class Stretch(nn.Module):
    """More frames of the same width, then a ConvNeXt block to tell them apart."""

    def __init__(self, shape: DecoderShape, rate: int) -> None:
        super().__init__()
        # one block of samples for each input: nothing needs remembering
        self.rise = nn.ConvTranspose1d(shape.latent, shape.latent, rate, rate)
        self.mix = ConvNeXt(shape.latent, shape.kernel, shape.expansion, shape.norm_eps)
        self.past_shape = self.mix.past_shape

    def forward(self, x: Tensor, past: Tensor) -> tuple[Tensor, Tensor]:
        return self.mix(spread(x, self.rise), past)


class Rise(nn.Module):
    """Snake, a transposed convolution to half the width, then residual units of growing dilation."""

    def __init__(self, shape: DecoderShape, inputs: int, rate: int) -> None:
        super().__init__()
        self.snake = Snake(inputs)
        self.rise = CausalRise(inputs, inputs // 2, 2, rate)
        self.units = nn.ModuleList(ResidualUnit(inputs // 2, shape.kernel, d) for d in shape.dilations)


class CodecDecoder(nn.Module):
    """Fills the Codec role."""

    def __init__(self, shape: DecoderShape) -> None:
        super().__init__()
        self.shape = shape
        self.quantiser = SplitQuantiser(shape.groups, shape.codes, shape.book_width, shape.quantised)
        self.opening = CausalConv(shape.quantised, shape.latent, shape.opening_kernel)
        self.transformer = WindowedTransformer(shape.transformer, shape.latent, shape.window)
        self.stretches = nn.ModuleList(Stretch(shape, rate) for rate in shape.stretches)
        self.widen = CausalConv(shape.latent, shape.width, shape.kernel)
        widths = [shape.width >> step for step in range(len(shape.rises) + 1)]
        self.rises = nn.ModuleList(Rise(shape, w, r) for w, r in zip(widths, shape.rises, strict=False))
        self.snake = Snake(widths[-1])
        self.closing = CausalConv(widths[-1], 1, shape.kernel)

    def prepare(self, dtype: torch.dtype = torch.float32) -> None:
        """Make a loaded float32 decoder ready to speak in `dtype`; the last change before use.

        What float32 is needed for stays float32: the books, and the factors of snake, which are folded here.
        """
        self.eval().requires_grad_(False)
        kept = {id(weight) for weight in self.quantiser.parameters()}
        for module in self.modules():
            if isinstance(module, Snake):
                module.freeze_factors()
                continue
            for weight in module.parameters(recurse=False):
                if id(weight) not in kept:
                    weight.data = weight.data.to(dtype)

    def forward(self, codes: Tensor) -> Tensor:
        """codes [B, T, G] -> sound [B, T * samples_per_frame] in -1..1, float32."""
        return self.sound(self.quantiser.decode(codes)).clamp(-1.0, 1.0)

    def sound(self, latent: Tensor) -> Tensor:
        """Quantised latent [B, T, quantised] -> sound before it is clamped: where training enters and measures."""
        state = self.initial_state(latent.shape[0], latent.device, self.opening.conv.weight.dtype)
        return self._run(latent, state)[0]

    def step(self, codes: Tensor, state: CodecState) -> tuple[Tensor, CodecState]:
        """The next frames of each stream: codes [B, T, G], T >= 1 -> sound [B, T * samples_per_frame], state."""
        sound, state = self._run(self.quantiser.decode(codes), state)
        return sound.clamp(-1.0, 1.0), state

    def initial_state(self, rows: int, device: torch.device | str, dtype: torch.dtype) -> CodecState:
        """Streams that have heard nothing. `dtype` is the decoder's own number format."""
        shapes = {name: layer.past_shape for name, layer in self._remembering()}
        shapes["keys"] = shapes["values"] = self.transformer.past_shape
        state = {name: torch.zeros(rows, *shape, device=device, dtype=dtype) for name, shape in shapes.items()}
        return state | {"frames": torch.zeros(rows, device=device, dtype=torch.int64)}

    def _remembering(self) -> list[tuple[str, nn.Module]]:
        """Every convolution with a tail, in the order of the sound."""
        layers: list[tuple[str, nn.Module]] = [("opening", self.opening)]
        layers += [(f"stretches.{i}", stretch) for i, stretch in enumerate(self.stretches)]
        layers.append(("widen", self.widen))
        for i, rise in enumerate(self.rises):
            layers.append((f"rises.{i}.rise", rise.rise))
            layers += [(f"rises.{i}.units.{j}", unit) for j, unit in enumerate(rise.units)]
        return [*layers, ("closing", self.closing)]

    def _run(self, latent: Tensor, state: CodecState) -> tuple[Tensor, CodecState]:
        after: CodecState = {"frames": state["frames"] + latent.shape[1]}

        def hear(name: str, layer: nn.Module, x: Tensor) -> Tensor:
            x, after[name] = layer(x, state[name])
            return x

        x = latent.to(self.opening.conv.weight.dtype).transpose(1, 2)  # [B, quantised, T]
        x = hear("opening", self.opening, x).transpose(1, 2)  # [B, T, latent]
        x, after["keys"], after["values"] = self.transformer(x, state["frames"], state["keys"], state["values"])
        x = x.transpose(1, 2)  # [B, latent, T]
        for i, stretch in enumerate(self.stretches):
            x = hear(f"stretches.{i}", stretch, x)
        x = hear("widen", self.widen, x)
        for i, rise in enumerate(self.rises):
            x = hear(f"rises.{i}.rise", rise.rise, rise.snake(x))
            for j, unit in enumerate(rise.units):
                x = hear(f"rises.{i}.units.{j}", unit, x)
        return hear("closing", self.closing, self.snake(x))[:, 0].float(), after


def decode_in_pieces(codec: CodecDecoder, codes: Tensor, frames: int = 300, context: int = 25) -> Tensor:
    """The published way to decode long clips: codes [B, T, G] -> sound [B, samples].

    Pieces of `frames` frames, each decoded on its own behind `context` frames of what came before. Beyond
    the first piece this is not quite the sound of one pass; it is here for comparisons.
    """
    pieces = []
    for start in range(0, codes.shape[1], frames):
        before = min(context, start)
        piece = codec(codes[:, start - before : start + frames])
        pieces.append(piece[:, before * codec.shape.samples_per_frame :])
    return torch.cat(pieces, 1)
