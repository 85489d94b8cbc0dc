"""The decoding half of both codecs: codes -> sound, whole or chunk by chunk.

CodecDecoder is that of Qwen3-TTS, Code2Wav that of Qwen3-Omni; UpsamplingDecoder is what they share, from the windowed
transformer to the sound. A decoder upsamples in two stages: "stretches" keep the width; "rises" halve it at each step,
down to samples. Every convolution is causal: frame t first changes sample t * samples_per_frame, and a stream cut into
chunks of any size gives the sound of the whole clip.

A codec may cut the first samples after a rise (`cuts`). They are set to zero there, so that later layers see silence,
as at the start of any stream. To keep shapes fixed, a step always returns T * samples_per_frame samples; the first
`missing_samples` of a stream are to be dropped.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from omnitts_cli.models.codec_layers import (
    CausalConv,
    CausalRise,
    ConvNeXt,
    ResidualUnit,
    Snake,
    SplitQuantiser,
    WindowedTransformer,
    spread,
)
from omnitts_cli.models.parameters import random
from omnitts_cli.models.shapes import Code2WavShape, DecoderShape, UpsamplingShape

CodecState = dict[str, Tensor]
"""Everything a stream carries from chunk to chunk; the first axis of each tensor is the stream."""
Apply = Callable[[str, nn.Module, Tensor], Tensor]
"""(name, layer, x) -> the layer's output. The layer's history is read from and written to the stream's state."""


class Stretch(nn.Module):
    """Upsamples at the same width, then a ConvNeXt block."""

    def __init__(self, shape: UpsamplingShape, rate: int) -> None:
        super().__init__()
        # each input has its own block of outputs, so there is no history
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
    """Codes -> sound: whole, or chunk by chunk with the state as an argument. A child class computes the transformer's
    input from the codes."""

    def __init__(self, shape: UpsamplingShape) -> None:
        super().__init__()
        self.shape = shape
        self.operands: dict[torch.dtype, Any] = {}  # the weights as slot decoders on an accelerator have them

    def _add_layers(self) -> None:
        """Creates the transformer and all later layers. Called after the child's own layers, because initial values
        depend on the order."""
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
        """The dtype of the layers."""
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
        """The state of new streams; `dtype` is that of the decoder."""
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


class CodecDecoder(UpsamplingDecoder):
    """The codec of Qwen3-TTS."""

    shape: DecoderShape

    def __init__(self, shape: DecoderShape) -> None:
        super().__init__(shape)
        self.quantiser = SplitQuantiser(shape.groups, shape.codes, shape.book_width, shape.quantised)
        self.opening = CausalConv(shape.quantised, shape.latent, shape.opening_kernel)
        self._add_layers()

    def embed(self, codes: Tensor) -> Tensor:
        """[B, T, G] -> [B, T, quantised]: the sum of the groups' entries."""
        return self.quantiser.decode(codes)

    def sound(self, latent: Tensor) -> Tensor:
        """Quantised latent [B, T, quantised] -> sound before it is clamped; used in training."""
        state = self.initial_state(latent.shape[0], latent.device, self.dtype)
        return self._run(latent, state)[0]

    def _enter(self, x: Tensor, apply: Apply) -> Tensor:
        x = x.to(self.dtype).transpose(1, 2)  # [B, quantised, T]
        return apply("opening", self.opening, x).transpose(1, 2)

    def _entry_layers(self) -> list[tuple[str, nn.Module]]:
        return [("opening", self.opening)]

    def _kept_in_float32(self) -> Iterable[nn.Parameter]:
        return self.quantiser.parameters()


class Code2Wav(UpsamplingDecoder):
    """The codec of Qwen3-Omni, which only decodes; its sound begins slightly later than its first frame.

    The transformer's input is the mean of one table's rows for the codes of a frame. Each transposed convolution cuts
    its first samples; except in the first frame of a stream, cutting at the other end would give the same samples.
    """

    def __init__(self, shape: Code2WavShape) -> None:
        super().__init__(shape)
        self.table = random(shape.groups * shape.codes, shape.latent, std=1.0)
        self._add_layers()
        self.transformer.into = self.transformer.out = nn.Identity()

    def embed(self, codes: Tensor) -> Tensor:
        """[B, T, G] -> [B, T, latent]: the mean over the groups, each of which has its own part of the table."""
        offsets = torch.arange(0, self.table.shape[0], self.shape.codes, device=codes.device)
        return F.embedding(codes + offsets, self.table).mean(2)

    def _enter(self, x: Tensor, apply: Apply) -> Tensor:
        return x
