"""A short fingerprint of what the bits of a sound depend on besides the request, the model and its weights.

If two fingerprints differ, the same request may give different bytes.
"""

import functools
import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omnitts_cli import kernels

if TYPE_CHECKING:
    from omnitts_cli.devices.device import Device

SOURCES = {".py", ".c", ".h", ".cu", ".cuh"}


@functools.cache
def kernels_digest() -> str:
    """A hash of all source files of the kernels, and of the models, which prepare weights for them."""
    folder, digest = Path(kernels.__file__).parent, hashlib.sha256()
    every = [*folder.rglob("*"), *(folder.parent / "models").rglob("*")]
    for file in sorted(path for path in every if path.suffix in SOURCES):
        digest.update(file.relative_to(folder.parent).as_posix().encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.hexdigest()[:12]


def depends_on(device: "Device") -> list[str]:
    """What the bits depend on, in words."""
    return [*device.versions(), f"kernels {kernels_digest()}"]


def fingerprint(device: "Device") -> str:
    """`depends_on` as twelve hexadecimal digits."""
    return hashlib.sha256("\0".join(depends_on(device)).encode()).hexdigest()[:12]


def of_exact(device: Any) -> str | None:
    """The fingerprint of a device with --exact, else None. The device of a server's engine has it as `exact`."""
    exact = getattr(device, "exact", None)
    return fingerprint(device) if exact is True else exact or None
