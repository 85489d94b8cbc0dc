"""Tables of operations for tests: the CPU in C and in Python, and a card's."""

import pytest
import torch

from omnitts_cli.kernels import choose
from omnitts_cli.kernels.cpu import library
from omnitts_cli.kernels.hardware import Hardware
from omnitts_cli.kernels.ops import Ops

PYTHON = choose.ops(Hardware("cpu"))
"""A CPU without the compiled library."""
HOPPER = (9, 0)


def native(variant: str | None = None, eight: str | None = None) -> Ops | None:
    """A CPU with the compiled library; None where there is none. The instruction sets are those for float32 and for
    weights in 8 bits."""
    handles = library.handles(variant, eight)
    return choose.ops(Hardware("cpu", libraries=frozenset(handles)), handles) if handles else None


def compiled(variant: str | None = None) -> Ops:
    """The same; a test that asks is skipped where there is none."""
    if (ops := native(variant)) is None:
        pytest.skip("the library of the CPU was not compiled")
    return ops


def card(libraries: str = "triton", exact: bool = False) -> Ops:
    """The card of this machine with these libraries; in Triton's interpreter a Hopper card. `--exact` needs NVRTC."""
    capability = torch.cuda.get_device_capability() if torch.cuda.is_available() else HOPPER
    names = frozenset([*libraries.split(), *["nvrtc"] * exact])
    return choose.ops(Hardware("cuda", "sm_{}{}".format(*capability), capability, names, exact=exact))
