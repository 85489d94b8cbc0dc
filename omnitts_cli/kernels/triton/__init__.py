"""Triton versions of the plain operations, for frames of few rows on CUDA."""

from dataclasses import replace

from omnitts_cli.kernels.ops import Ops
from omnitts_cli.kernels.triton import codec, long
from omnitts_cli.kernels.triton.attention import attend_cached
from omnitts_cli.kernels.triton.draw import choose, choose_row
from omnitts_cli.kernels.triton.frame import begin, finish, first_scores, pick
from omnitts_cli.kernels.triton.mixture import experts
from omnitts_cli.kernels.triton.norms import norm
from omnitts_cli.kernels.triton.products import linear, linear_add, norm_linear, norm_swiglu

OPS = Ops(
    linear=linear,
    norm=norm,
    norm_linear=norm_linear,
    norm_swiglu=norm_swiglu,
    linear_add=linear_add,
    attend_cached=attend_cached,
    choose=choose,
    choose_row=choose_row,
    experts=experts,
    begin=begin,
    pick=pick,
    first_scores=first_scores,
    finish=finish,
    scores=long.scores,
    codec=codec.OPS,
)
OPS = replace(OPS, long=replace(OPS, attend_cached=long.attend_cached, experts=long.experts))
