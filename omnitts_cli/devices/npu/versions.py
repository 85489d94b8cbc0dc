"""torch, torch_npu and CANN must fit together: find out before torch_npu is imported, and say which versions would.

torch_npu fails far from the cause when they do not: without CANN it misses a library, beside another torch it
crashes, and beside a CUDA device it refuses to work.
"""

import importlib.metadata
import re
from types import ModuleType

import torch

from omnitts_cli.devices.npu import PACKAGE
from omnitts_cli.errors import DeviceError

LEAST_CANN = (8, 5)
"""What the vendor's table asks for from torch_npu 2.9 on, the oldest that we take."""

_NUMBERS = re.compile(r"(\d+)\.(\d+)(?:\.(\d+))?")


def installed() -> str | None:
    """The version of torch_npu in this environment, without importing it."""
    try:
        return importlib.metadata.version(PACKAGE)
    except importlib.metadata.PackageNotFoundError:
        return None


def require() -> ModuleType:
    """torch_npu, imported; DeviceError with the versions to install where that cannot work."""
    ours, theirs = release(torch.__version__), installed()
    if theirs is None:
        raise DeviceError("npu is not usable: torch_npu is not installed", hint=advice(ours))
    if release(theirs) != ours:
        raise DeviceError(
            f"npu is not usable: torch_npu {theirs} belongs to torch {release(theirs)}, not to {torch.__version__}",
            hint=advice(ours),
        )
    if torch.cuda.is_available():
        raise DeviceError(
            "npu is not usable: torch_npu refuses to work beside a CUDA device",
            hint="CUDA_VISIBLE_DEVICES=-1   hides it; or install the CPU build of torch",
        )
    try:
        import torch_npu
    except (ImportError, OSError, RuntimeError) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise DeviceError(f"npu is not usable: torch_npu {theirs} cannot start: {reason}", hint=advice(ours)) from None
    found = _NUMBERS.match(torch_npu.npu.utils.get_cann_version() or "")
    if found and (int(found[1]), int(found[2])) < LEAST_CANN:
        raise DeviceError(f"npu is not usable: CANN is {found[0]}", hint=advice(ours))
    return torch_npu


def release(version: str) -> str:
    """ "2.13.0+cpu" and "2.13.0.post2" are both releases of 2.13.0."""
    found = _NUMBERS.match(version)
    return f"{found[1]}.{found[2]}.{found[3] or 0}" if found else version


def advice(wanted: str) -> str:
    """The triple that works."""
    cann = ".".join(map(str, LEAST_CANN))
    return (
        f"torch {wanted} needs torch_npu {wanted} and CANN {cann} or newer with its driver, "
        f"and its set_env.sh in the shell; pip install torch=={wanted} torch_npu=={wanted}"
    )
