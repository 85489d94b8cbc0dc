"""Rounding to 8 bits as `--dtype q8` does it, in PyTorch: for the reference and for the tests."""

import re

import torch
import torch.nn.functional as F
from torch import Tensor

GROUP, TOP = 32, 127
MATRIX = re.compile(
    r"talker\.(codec_head|(code_predictor\.)?model\.layers\.\d+\.(self_attn\.[qkvo]_proj|mlp\.(gate|up|down)_proj)"
    r"|code_predictor\.(lm_head\.\d+|small_to_mtp_projection))\.weight"
)
"""Names of the matrices, in a released folder."""


def in_groups(x: Tensor, half: bool) -> tuple[Tensor, Tensor]:
    """Steps of -127 to 127, [..., groups, GROUP], and scales, [..., groups, 1], of groups of the last axis. `half`: the
    scales are float16, as of weights.
    """
    parts = F.pad(x, (0, -x.shape[-1] % GROUP)).unflatten(-1, (-1, GROUP))
    top = parts.abs().amax(-1, keepdim=True)
    scale = (top / TOP).half().float() if half else top / TOP
    steps = (parts / scale if half else parts * (TOP / top)).nan_to_num().round().clamp(-TOP, TOP)
    return steps, scale


def by_groups(x: Tensor, half: bool) -> Tensor:
    """Rounded to 8 bits in groups of the last axis, and back."""
    steps, scale = in_groups(x, half)
    return (steps * scale).flatten(-2)[..., : x.shape[-1]]


def rounded(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """The tensors of a folder, with rounded matrices."""
    with torch.no_grad():
        return {
            name: by_groups(tensor.float(), half=True).contiguous() if MATRIX.fullmatch(name) else tensor
            for name, tensor in tensors.items()
        }
