"""Code2Wav: a codec that only speaks, whose sound begins a little after its frames do.

It looks the codes of a frame up in one table and hears their mean. The rest is the walk of `codec_decoder`
with one difference: each transposed convolution throws its first samples away. They are cut where they
arise, so that every later layer hears silence before the beginning, as at the start of any stream. It
costs nothing further on: but for a stream's first frame, both ways to cut give the same samples.

To keep shapes fixed, a step always gives T * samples_per_frame samples; the first `missing_samples` of a
stream are zeros that stand for nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from omnitts_cli.models.codec_decoder import Rise, Stretch
from omnitts_cli.models.codec_layers import CausalConv, Snake
from omnitts_cli.models.codec_transformer import TransformerShape, WindowedTransformer
from omnitts_cli.models.roles import CodecState


@dataclass(frozen=True)
class Code2WavShape:
    """Sizes. Widths: the transformer's -> width, halved by each rise -> sound."""

    groups: int  # G
    codes: int  # per group
    width: int
    transformer: TransformerShape
    window: int  # frames the transformer hears, the current one included
    stretches: tuple[int, ...]  # rates of the steps before the sound is shaped
    rises: tuple[int, ...]  # rates of the steps that shape it
    dilations: tuple[int, ...] = (1, 3, 9)
    kernel: int = 7
    expansion: int = 4
    norm_eps: float = 1e-6

    @property
    def latent(self) -> int:
        return self.transformer.hidden

    @property
    def samples_per_frame(self) -> int:
        return math.prod(self.stretches) * math.prod(self.rises)

    @property
    def cuts(self) -> tuple[int, ...]:
        """Samples lost at the beginning, behind each rise: what was lost before, and `rate` more."""
        lost = [0]
        for rate in self.rises:
            lost.append(lost[-1] * rate + rate)
        return tuple(lost[1:])

    @property
    def missing_samples(self) -> int:
        return self.cuts[-1]


class Code2Wav(nn.Module):
    """Fills the Codec role."""

    def __init__(self, shape: Code2WavShape) -> None:
        super().__init__()
        self.shape = shape
        self.table = nn.Parameter(torch.randn(shape.groups * shape.codes, shape.latent))
        self.transformer = WindowedTransformer(shape.transformer, shape.latent, shape.window)
        self.transformer.into = self.transformer.out = nn.Identity()
        self.stretches = nn.ModuleList(Stretch(shape, rate) for rate in shape.stretches)
        self.widen = CausalConv(shape.latent, shape.width, shape.kernel)
        widths = [shape.width >> step for step in range(len(shape.rises) + 1)]
        self.rises = nn.ModuleList(Rise(shape, w, r) for w, r in zip(widths, shape.rises, strict=False))
        self.snake = Snake(widths[-1])
        self.closing = CausalConv(widths[-1], 1, shape.kernel)

    def prepare(self) -> None:
        """Make a loaded decoder ready to speak; the last change before use."""
        self.eval().requires_grad_(False)
        for module in self.modules():
            if isinstance(module, Snake):
                module.freeze_factors()

    def forward(self, codes: Tensor) -> Tensor:
        """codes [B, T, G] -> sound [B, T * samples_per_frame - missing_samples] in -1..1, float32."""
        state = self.initial_state(codes.shape[0], codes.device, self.table.dtype)
        return self.step(codes, state)[0][:, self.shape.missing_samples :]

    def step(self, codes: Tensor, state: CodecState) -> tuple[Tensor, CodecState]:
        """The next frames of each stream: codes [B, T, G], T >= 1 -> sound [B, T * samples_per_frame], state."""
        sound, state = self._run(self.mean(codes), state)
        return sound.clamp(-1.0, 1.0), state

    def mean(self, codes: Tensor) -> Tensor:
        """[B, T, G] -> [B, T, latent]: each group has its own stretch of the table."""
        offsets = torch.arange(0, self.table.shape[0], self.shape.codes, device=codes.device)
        return F.embedding(codes + offsets, self.table).mean(2)

    def initial_state(self, rows: int, device: torch.device | str, dtype: torch.dtype) -> CodecState:
        """Streams that have heard nothing."""
        shapes = {name: layer.past_shape for name, layer in self._remembering()}
        shapes["keys"] = shapes["values"] = self.transformer.past_shape
        state = {name: torch.zeros(rows, *shape, device=device, dtype=dtype) for name, shape in shapes.items()}
        return state | {"frames": torch.zeros(rows, device=device, dtype=torch.int64)}

    def _remembering(self) -> list[tuple[str, nn.Module]]:
        """Every convolution with a tail."""
        layers: list[tuple[str, nn.Module]] = [(f"stretches.{i}", one) for i, one in enumerate(self.stretches)]
        layers += [("widen", self.widen), ("closing", self.closing)]
        for i, rise in enumerate(self.rises):
            layers.append((f"rises.{i}.rise", rise.rise))
            layers += [(f"rises.{i}.units.{j}", unit) for j, unit in enumerate(rise.units)]
        return layers

    def _run(self, x: Tensor, state: CodecState) -> tuple[Tensor, CodecState]:
        after: CodecState = {"frames": state["frames"] + x.shape[1]}
        begun = (state["frames"] > 0).to(x.dtype)[:, None, None]

        def hear(name: str, layer: nn.Module, x: Tensor, cut: int = 0) -> Tensor:
            x, after[name] = layer(x, state[name])
            x[..., :cut] *= begun  # silent where the stream has not begun; the shortest step is longer than any cut
            return x

        x, after["keys"], after["values"] = self.transformer(x, state["frames"], state["keys"], state["values"])
        x = x.transpose(1, 2)  # [B, latent, T]
        for i, stretch in enumerate(self.stretches):
            x = hear(f"stretches.{i}", stretch, x)
        x = hear("widen", self.widen, x)
        for i, (rise, cut) in enumerate(zip(self.rises, self.shape.cuts, strict=True)):
            x = hear(f"rises.{i}.rise", rise.rise, rise.snake(x), cut)
            for j, unit in enumerate(rise.units):
                x = hear(f"rises.{i}.units.{j}", unit, x, cut)
        return hear("closing", self.closing, self.snake(x), self.shape.missing_samples)[:, 0].float(), after
