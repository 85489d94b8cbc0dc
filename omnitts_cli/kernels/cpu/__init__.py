"""Operations for a CPU and few rows, where call overhead dominates: in C where that was compiled, or in Python.

README.md in this folder says how the pieces fit.
"""

from dataclasses import replace
from functools import partial

from omnitts_cli.kernels import plain
from omnitts_cli.kernels.cpu import codec, draw, stack
from omnitts_cli.kernels.cpu.frame import begin, finish, first_scores
from omnitts_cli.kernels.ops import Ops

OPS = replace(
    plain.OPS,
    choose=draw.choose,
    begin=begin,
    first_scores=first_scores,
    finish=finish,
    fuse_stack=stack.fuse_stack,
    codec=codec.OPS,
)


def native(variant: str | None = None) -> Ops | None:
    """The same with stacks, draws, frames and the codec in C; None where the library was not compiled."""
    from omnitts_cli.kernels.cpu import decoder, language, library

    found = library.load(variant)
    if found is None:
        return None
    return replace(
        OPS,
        choose=partial(language.choose, found),
        fuse_stack=partial(language.fuse_stack, found),
        fuse_frame=partial(language.fuse_frame, found),
        codec=replace(codec.OPS, fuse_decoder=partial(decoder.fuse_decoder, found)),
    )
