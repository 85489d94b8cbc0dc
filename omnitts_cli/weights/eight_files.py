"""The files that hold a model's matrices in 8 bits, and what is mapped beside them: where they are and what they are
called. Does not import torch.
"""

from dataclasses import dataclass
from pathlib import Path

from omnitts_cli.errors import ModelError
from omnitts_cli.weights.header import read_header, shown
from omnitts_cli.weights.sums import memory_path

VERSION = "4"
"""Of layout and rounding. Files of another version are removed when a new one is written."""
SUFFIX = f".q8-{VERSION}.safetensors"


@dataclass(frozen=True)
class Kept:
    """A file, for `omnitts models`."""

    model: str  # empty if it cannot be read
    path: Path
    size_bytes: int


def folder() -> Path:
    """Where the files are."""
    return memory_path().parent / "q8"


def kept_files() -> list[Kept]:
    """Every file of the folder, of any version."""
    found = []
    for path in sorted(folder().glob("*.q8-*.safetensors")):
        try:
            found.append(Kept(shown(read_header(path).metadata.get("model", "")), path, path.stat().st_size))
        except (ModelError, OSError):
            found.append(Kept("", path, path.lstat().st_size))
    return found
