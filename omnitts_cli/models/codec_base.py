"""UpsamplingDecoder: what both codecs share, from the windowed transformer to the sound.

A decoder upsamples in two stages. Stretches make more frames of the same width; rises halve the width while they make
samples of them. Every convolution is causal, so a clip is the same as its chunks, one after another.

A codec may cut its first samples (`cuts`). They are zeroed where they are made, so that later layers see silence
before the beginning, as at the start of any stream. To keep shapes fixed, a step always returns T * samples_per_frame
samples; the first `missing_samples` of a stream are to be dropped.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from omnitts_cli.models.codec_layers import CausalConv, CausalRise, ConvNeXt, ResidualUnit, Snake, spread
from omnitts_cli.models.codec_transformer import TransformerShape, WindowedTransformer
from omnitts_cli.models.roles import CodecState

Apply = Callable[[str, nn.Module, Tensor], Tensor]
"""(name, layer, x) -> the layer's output; its history is read from and written to the stream's state."""


@dataclass(frozen=True, kw_only=True)
class UpsamplingShape:
    """Sizes of a decoder from the transformer on; a child adds `latent`, the width of the stretches."""

    groups: int  # G
    codes: int  # per group
    width: int  # of the first rise; each rise halves it
    transformer: TransformerShape
    window: int  # frames that each frame attends to, itself included
    stretches: tuple[int, ...]  # rates
    rises: tuple[int, ...]  # rates
    dilations: tuple[int, ...] = (1, 3, 9)
    kernel: int = 7
    expansion: int = 4
    norm_eps: float = 1e-6

    @property
    def samples_per_frame(self) -> int:
        """The product of all rates."""
        return math.prod(self.stretches) * math.prod(self.rises)

    @property
    def cuts(self) -> tuple[int, ...]:
        """Samples cut at the beginning after each rise."""
        return (0,) * len(self.rises)

    @property
    def missing_samples(self) -> int:
        """Samples to drop from the start of each stream."""
        return self.cuts[-1]


class Stretch(nn.Module):
    """More frames of the same width, then a ConvNeXt block."""

    def __init__(self, shape: UpsamplingShape, rate: int) -> None:
        super().__init__()
        # each input makes a block of samples of its own, so there is no history
        self.rise = nn.ConvTranspose1d(shape.latent, shape.latent, rate, rate)
        self.mix = ConvNeXt(shape.latent, shape.kernel, shape.expansion, shape.norm_eps)
        self.past_shape = self.mix.past_shape

    def forward(self, x: Tensor, past: Tensor) -> tuple[Tensor, Tensor]:
        """x [B, latent, T] -> [B, latent, T * rate], next past."""
        return self.mix(spread(x, self.rise), past)


class Rise(nn.Module):
    """Snake, a transposed convolution to half the width, then residual units of growing dilation."""

    def __init__(self, shape: UpsamplingShape, inputs: int, rate: int) -> None:
        super().__init__()
        self.snake = Snake(inputs)
        self.rise = CausalRise(inputs, inputs // 2, 2, rate)
        self.units = nn.ModuleList(ResidualUnit(inputs // 2, shape.kernel, d) for d in shape.dilations)


class UpsamplingDecoder(nn.Module, ABC):
    """Fills the Codec role; a child makes the transformer's input of the codes."""

    def __init__(self, shape: UpsamplingShape) -> None:
        super().__init__()
        self.shape = shape

    def _add_layers(self) -> None:
        """Everything from the transformer on, after the child's own layers: initial values depend on the order."""
        shape = self.shape
        self.transformer = WindowedTransformer(shape.transformer, shape.latent, shape.window)
        self.stretches = nn.ModuleList(Stretch(shape, rate) for rate in shape.stretches)
        self.widen = CausalConv(shape.latent, shape.width, shape.kernel)
        widths = [shape.width >> step for step in range(len(shape.rises) + 1)]
        self.rises = nn.ModuleList(Rise(shape, w, r) for w, r in zip(widths, shape.rises, strict=False))
        self.snake = Snake(widths[-1])
        self.closing = CausalConv(widths[-1], 1, shape.kernel)

    @abstractmethod
    def embed(self, codes: Tensor) -> Tensor:
        """codes [B, T, G] -> vectors [B, T, width]."""

    @abstractmethod
    def _enter(self, x: Tensor, apply: Apply) -> Tensor:
        """Embedded codes -> the transformer's input [B, T, latent]."""

    def _entry_layers(self) -> list[tuple[str, nn.Module]]:
        """Layers of `_enter` that keep a history."""
        return []

    def _kept_in_float32(self) -> Iterable[nn.Parameter]:
        """Parameters that `prepare` does not convert."""
        return ()

    @property
    def dtype(self) -> torch.dtype:
        """Number format of the layers."""
        return self.closing.conv.weight.dtype

    def prepare(self, dtype: torch.dtype = torch.float32) -> None:
        """Make a loaded float32 decoder ready for inference in `dtype`; the last change before use.

        The factors of snake are computed here and stay float32.
        """
        self.eval().requires_grad_(False)
        kept = {id(weight) for weight in self._kept_in_float32()}
        for module in self.modules():
            if isinstance(module, Snake):
                module.freeze_factors()
                continue
            for weight in module.parameters(recurse=False):
                if id(weight) not in kept:
                    weight.data = weight.data.to(dtype)

    def forward(self, codes: Tensor) -> Tensor:
        """codes [B, T, G] -> sound [B, T * samples_per_frame - missing_samples] in -1..1, float32."""
        state = self.initial_state(codes.shape[0], codes.device, self.dtype)
        return self.step(codes, state)[0][:, self.shape.missing_samples :]

    def step(self, codes: Tensor, state: CodecState) -> tuple[Tensor, CodecState]:
        """The next frames of each stream: codes [B, T, G], T >= 1 -> sound [B, T * samples_per_frame], state."""
        sound, state = self._run(self.embed(codes), state)
        return sound.clamp(-1.0, 1.0), state

    def initial_state(self, rows: int, device: torch.device | str, dtype: torch.dtype) -> CodecState:
        """New streams. `dtype` is the decoder's own number format."""
        shapes = {name: layer.past_shape for name, layer in self._layers_with_history()}
        shapes["keys"] = shapes["values"] = self.transformer.past_shape
        state = {name: torch.zeros(rows, *shape, device=device, dtype=dtype) for name, shape in shapes.items()}
        return state | {"frames": torch.zeros(rows, device=device, dtype=torch.int64)}

    def _layers_with_history(self) -> list[tuple[str, nn.Module]]:
        layers = self._entry_layers()
        layers += [(f"stretches.{i}", stretch) for i, stretch in enumerate(self.stretches)]
        layers.append(("widen", self.widen))
        for i, rise in enumerate(self.rises):
            layers.append((f"rises.{i}.rise", rise.rise))
            layers += [(f"rises.{i}.units.{j}", unit) for j, unit in enumerate(rise.units)]
        return [*layers, ("closing", self.closing)]

    def _run(self, x: Tensor, state: CodecState) -> tuple[Tensor, CodecState]:
        """Embedded codes -> sound before it is clamped, next state."""
        after: CodecState = {"frames": state["frames"] + x.shape[1]}
        begun = (state["frames"] > 0).to(x.dtype)[:, None, None] if self.shape.missing_samples else None

        def apply(name: str, layer: nn.Module, x: Tensor, cut: int = 0) -> Tensor:
            x, after[name] = layer(x, state[name])
            if cut:  # the shortest step is longer than any cut
                x[..., :cut] *= begun
            return x

        x = self._enter(x, apply)
        x, after["keys"], after["values"] = self.transformer(x, state["frames"], state["keys"], state["values"])
        x = x.transpose(1, 2)  # [B, latent, T]
        for i, stretch in enumerate(self.stretches):
            x = apply(f"stretches.{i}", stretch, x)
        x = apply("widen", self.widen, x)
        for i, (rise, cut) in enumerate(zip(self.rises, self.shape.cuts, strict=True)):
            x = apply(f"rises.{i}.rise", rise.rise, rise.snake(x), cut)
            for j, unit in enumerate(rise.units):
                x = apply(f"rises.{i}.units.{j}", unit, x, cut)
        return apply("closing", self.closing, self.snake(x), self.shape.missing_samples)[:, 0].float(), after
