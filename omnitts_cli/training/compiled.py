"""Functions that training compiles on an accelerator. Import late: this loads torch's compiler, about three seconds."""

from __future__ import annotations

import torch
from torch import Tensor

from omnitts_cli.models import codec_layers
from omnitts_cli.models.codec_layers import Snake
from omnitts_cli.training.mel_distance import apart_from

# One graph for each of a decoder's five shapes. A single graph for all shapes would split the sums over rows (the
# gradients of the two factors) into as many parts as the first shape needs, eight. For half a million rows of 24
# channels that leaves most of an accelerator idle.
torch._dynamo.config.recompile_limit = 32


@torch.compile(dynamic=False)
def _snake(rows: Tensor, alpha: Tensor, beta: Tensor) -> Tensor:
    """Snake with its factors computed inside, which would otherwise take nine tiny kernels, and as many for
    gradients."""
    return codec_layers.snake(rows, alpha.exp(), 1.0 / (beta.exp() + 1e-9))


class CompiledSnake(Snake):
    """The input is always reshaped to rows, because every other layout would be compiled again."""

    def forward(self, x: Tensor) -> Tensor:
        rows = x.transpose(1, 2).reshape(-1, x.shape[1])  # a view, since x is laid out channels-last
        return _snake(rows, self.alpha, self.beta).view(len(x), -1, x.shape[1]).transpose(1, 2)


compiled_apart = torch.compile(apart_from, dynamic=True)
