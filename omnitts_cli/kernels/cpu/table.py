"""Operations for a CPU and few rows, where call overhead dominates: in C where that was compiled, or in Python.

README.md in this folder says how the pieces fit.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from omnitts_cli.kernels import plain
from omnitts_cli.kernels.cpu import codec, decoder, draw, language, library, quantised, stack
from omnitts_cli.kernels.cpu.frame import begin, finish, first_scores
from omnitts_cli.kernels.ops import FrameParts, FusedStack, LayerWeights, Ops

OPS = replace(
    plain.OPS,
    choose=draw.choose,
    begin=begin,
    first_scores=first_scores,
    finish=finish,
    fuse_stack=stack.fuse_stack,
    codec=codec.OPS,
)


def native(variant: str | None = None, eight: str | None = None) -> Ops | None:
    """The same with stacks, draws, frames and the codec in C; None where the library was not compiled.

    `variant` and `eight` name instruction sets, for float32 and for weights in 8 bits.
    """
    found, bits = library.load(variant), library.load_quantised(eight)
    if found is None or bits is None:
        return None

    def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        if not quantised.is_quantised(weight):
            return F.linear(x, weight, bias)
        y = torch.from_numpy(quantised.multiply(bits, x, weight))
        return y if bias is None else y.add_(bias)

    def fuse_stack(blocks: Sequence[LayerWeights], *about: Any) -> FusedStack | None:
        if quantised.is_quantised(blocks[0].qkv):
            return quantised.QuantisedStack(bits, blocks, *about)
        return language.fuse_stack(found, blocks, *about)

    def fuse_frame(parts: FrameParts) -> Callable[[Tensor], None] | None:
        return language.fuse_frame(found, parts) or quantised.fuse_frame(bits, parts)

    return replace(
        OPS,
        choose=lambda *about: torch.from_numpy(language.choose(found, *about)),
        linear=linear,
        norm_linear=lambda x, weight: linear(plain.norm(x), weight),
        eight=quantised.table(bits),
        fuse_text=partial(quantised.fuse_text, bits),
        fuse_stack=fuse_stack,
        fuse_frame=fuse_frame,
        codec=replace(codec.OPS, fuse_decoder=partial(decoder.fuse_decoder, found)),
    )
