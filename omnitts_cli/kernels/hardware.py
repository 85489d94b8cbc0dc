"""What the choice of kernels knows of a machine. Does not import torch."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Hardware:
    """A machine, or one that is not here."""

    device: str  # "cpu", "cuda" or "npu"
    card: str = ""  # "sm_90", "gfx942"
    capability: tuple[int, int] = (0, 0)
    libraries: frozenset[str] = frozenset()  # of LIBRARIES in choose.py
    off: bool = False  # OMNITTS_NATIVE=0
    exact: bool = False
    small: bool = False  # too little memory for second copies of the weights
    lacking: Mapping[str, str] = field(default_factory=dict, compare=False)  # why a library is not there
