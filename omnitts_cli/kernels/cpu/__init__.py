"""Twins of the plain operations on a CPU, for frames of few rows: there, asking takes longer than doing."""

from dataclasses import replace

from omnitts_cli.kernels import plain
from omnitts_cli.kernels.cpu import codec
from omnitts_cli.kernels.cpu.draw import choose
from omnitts_cli.kernels.cpu.frame import begin, finish, first_scores
from omnitts_cli.kernels.cpu.stack import fuse_stack

OPS = replace(
    plain.OPS,
    choose=choose,
    begin=begin,
    first_scores=first_scores,
    finish=finish,
    fuse_stack=fuse_stack,
    codec=codec.OPS,
)
