"""The arithmetic of `--dtype q8` for the modules of the official package, sum for sum: equal numbers have equal bits.

With any other order of the sums, now and then a number is rounded to the next of its 255 steps. That changes all later
ones and soon a code, so that the codes of two processors with different libraries differ.

The order: for norms, the rows of the text and scores of attention, lanes of 16, which are halved until one is left; for
matrices in 8 bits, group by group; for values, position by position. No product is fused with a sum.
"""

from collections import defaultdict
from collections.abc import Callable
from typing import Any, cast

import numpy as np
import torch
import torch.nn.functional as F
from eight_recipe import MATRIX, in_groups
from torch import Tensor, nn

LANES = 16
LOG2_E, LN2 = 1.44269504, (0.693359375, -2.12194440e-4)
POWERS = (1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1)
"""Of the polynomial for e^x."""


def in_lanes(products: Tensor) -> Tensor:
    """The sum over the last axis."""
    lanes = torch.zeros(*products.shape[:-1], LANES)
    for part in F.pad(products, (0, -products.shape[-1] % LANES)).split(LANES, -1):
        lanes = lanes + part
    while lanes.shape[-1] > 1:
        low, high = lanes.chunk(2, -1)
        lanes = low + high
    return lanes[..., 0]


def exponential(x: Tensor) -> Tensor:
    x = x.clamp(-87.0, 88.0)
    n = (x * LOG2_E).round()
    r = x - n * LN2[0] - n * LN2[1]
    p = torch.full_like(x, POWERS[0])
    for factor in POWERS[1:]:
        p = p * r + factor
    return (p * (r * r) + r + 1.0) * torch.exp2(n.double()).float()


def silu(x: Tensor) -> Tensor:
    return x / (1.0 + exponential(-x))


def matrix(linear: nn.Linear) -> Callable[[Tensor], Tensor]:
    """A product whose rows and matrix are in 8 bits."""
    weight, weight_scale = in_groups(linear.weight, half=True)

    def product(x: Tensor) -> Tensor:
        row, scale = in_groups(x, half=False)
        total = torch.zeros(*x.shape[:-1], linear.out_features)
        for group in range(weight.shape[1]):
            whole = row[..., group, :] @ weight[:, group].T  # of integers below 2^24: exact
            total = total + whole * (weight_scale[:, group, 0] * scale[..., group, :])
        return total if linear.bias is None else total + linear.bias

    return product


def dense(linear: nn.Linear) -> Callable[[Tensor], Tensor]:
    """A product in float32."""
    return lambda x: in_lanes(x[..., None, :] * linear.weight) + linear.bias


def norm(module: Any) -> Callable[[Tensor], Tensor]:
    eps = float(np.float32(module.variance_epsilon))

    def normed(x: Tensor) -> Tensor:
        square = in_lanes(x * x).double() / x.shape[-1]
        return x * (1.0 / (square + eps).sqrt()).float()[..., None] * module.weight

    return normed


def rotation(module: Any) -> Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """Angles in float32; their sines and cosines in float64, rounded."""
    half, theta = len(module.inv_freq), module.config.rope_theta
    rates = torch.tensor([theta ** (-i / half) for i in range(half)], dtype=torch.float64).float()

    def turns(x: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
        angles = (positions[..., None].float() * rates).double().repeat_interleave(2, -1)
        angles = angles.unflatten(-1, (-1, 2)).transpose(-1, -2).flatten(-2)
        return angles.cos().float(), angles.sin().float()

    return turns


def attend(module: Any, query: Tensor, key: Tensor, value: Tensor, mask: Any, **more: Any) -> tuple[Tensor, None]:
    """Causal attention of one request, without padding: [1, heads, rows, depth]."""
    shared, (rows, depth) = module.num_key_value_groups, query.shape[2:]
    key, value = (x.repeat_interleave(shared, 1) for x in (key, value))
    made = torch.zeros_like(query)
    for row in range(rows):
        seen = key.shape[2] - rows + row + 1
        scores = in_lanes(query[:, :, row, None] * key[:, :, :seen]) * float(1 / np.sqrt(np.float32(depth)))
        scores = exponential(scores - scores.amax(-1, keepdim=True))
        total, mass = torch.zeros_like(made[:, :, row]), torch.zeros(scores.shape[:-1], dtype=torch.float64)
        for at in range(seen):
            total = total + value[:, :, at] * scores[..., at, None]
            mass = mass + scores[..., at].double()
        made[:, :, row] = total * (1.0 / mass).float()[..., None]
    return made.transpose(1, 2), None


def in_order(model: nn.Module) -> None:
    """Replaces what the talker and the predictor calculate with, except attention."""
    kinds: dict[str, Callable[[Any], Any]] = {
        "Qwen3TTSRMSNorm": norm, "Qwen3TTSRotaryEmbedding": rotation, "Qwen3TTSTalkerRotaryEmbedding": rotation,
        "SiLUActivation": lambda module: silu, "SiLU": lambda module: silu,
    }  # fmt: skip
    for name, module in model.named_modules():
        if not name.startswith("talker."):
            continue
        replaced: Callable[[Any], Any] | None
        if isinstance(module, nn.Linear):
            replaced = matrix if MATRIX.fullmatch(f"{name}.weight") else dense
        else:
            replaced = kinds.get(type(module).__name__)
        if replaced is not None:
            cast(Any, module).forward = replaced(module)


def attend_in_order(modeling: Any, cache: Any) -> None:
    """Replaces attention in every model. `modeling`: the module of the package's classes; `cache`: the class that holds
    keys and values, from now on in float16.
    """
    modeling.ALL_ATTENTION_FUNCTIONS = defaultdict(lambda: attend)
    modeling.eager_attention_forward = attend
    kept = cache.update

    def update(self: Any, keys: Tensor, values: Tensor, *more: Any, **others: Any) -> Any:
        return kept(self, keys.half().float(), values.half().float(), *more, **others)

    cache.update = update


def sums_frames_in_order(width: int) -> bool:
    """Whether PyTorch adds the rows of a frame one after the other, as the library does."""
    rows = torch.randn(1, 16, width)
    total = rows[:, 0]
    for row in range(1, 16):
        total = total + rows[:, row]
    return torch.equal(total, rows.sum(1))
