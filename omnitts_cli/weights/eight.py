"""A model's matrices in 8 bits: made once from its float weights, kept in the user's cache folder, and mapped from it.
With them are kept the predictor's input rows, the other tensors of the language side in float32, except the table of
the text, and the codec as the compiled library reads it. Nothing is calculated at a later start, and the system can
take back what is mapped.

A kept file is a safetensors file of bytes, named by the SHA-256 of the weights and the version of the layout. It is
written under another name and renamed when it is whole. Its metadata has a sum over its bytes; a file that does not fit
its name, the model or its sum is made again. Does not import torch.
"""

import hashlib
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from omnitts_cli.audio.target import open_temporary
from omnitts_cli.errors import ModelError, Notice
from omnitts_cli.kernels.ops import EIGHT, GROUP, SMALL_GROUP, EightBits
from omnitts_cli.weights import eight_files
from omnitts_cli.weights.arrays import finite, read, sources_of
from omnitts_cli.weights.checkpoint import Checkpoint, as_float32
from omnitts_cli.weights.header import shown

ALIGNED = 4096  # where the first matrix begins
STALE_S = 3600.0  # a half-written file of this age belongs to no process
STORED = {EIGHT: "U8", "float16": "F16", "float32": "F32"}
MATRICES = ("qkv", "out", "gate_up", "down")
TABLE = "text.table"
"""The largest tensor of the language side. Of a text, few of its rows are read, so it stays in the model's file."""

Tell = Callable[[Notice], None]


def is_matrix(name: str) -> bool:
    """Whether a tensor of the language side is kept in 8 bits."""
    return name in ("talker.head", "predictor.heads", "predictor.project.weight") or in_stack(name)


def in_stack(name: str) -> bool:
    """Whether it is a matrix of a layer of the talker or of the predictor."""
    return name.startswith(("talker.stack.layers.", "predictor.stack.layers.")) and name.rpartition(".")[2] in MATRICES


def group_of(name: str) -> int:
    """How many inputs of a matrix share a scale on a card. The predictor makes most codes, and has small groups where
    they gain something."""
    small = name.startswith("predictor.") and not name.endswith((".heads", ".down"))
    return SMALL_GROUP if small else GROUP


def size_of(eight: EightBits, name: str, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of the bytes of a matrix, or of several in one tensor."""
    return (*shape[:-2], eight.size_bytes(shape[-2], shape[-1], _paired(name)))


def _paired(name: str) -> bool:
    return name.endswith(".gate_up")


def packed(eight: EightBits, name: str, weight: np.ndarray) -> np.ndarray:
    """The bytes of a matrix of the language side, or of several in one tensor."""
    made = np.zeros(size_of(eight, name, weight.shape), np.uint8)
    for one, out in zip(weight.reshape(-1, *weight.shape[-2:]), made.reshape(-1, made.shape[-1]), strict=True):
        eight.make(one, out, _paired(name))
    return made


@dataclass(frozen=True)
class Beside:
    """Other arrays of a model that are kept in the same file."""

    shapes: Mapping[str, tuple[tuple[str, ...], tuple[int, ...]]]  # the types that each may have, and its shape
    made: Callable[[], Iterator[tuple[str, np.ndarray]]]


@dataclass(frozen=True)
class Origin:
    """Where the values of a model's language side are, and what they are for."""

    sizes: Mapping[str, tuple[int, ...]]  # of each tensor
    names: Mapping[str, Any]  # the sources of each tensor
    files: Checkpoint
    model: str  # its name
    sha256: str | None  # of the weights; None if it is unknown, and then nothing is kept
    beside: Beside

    def kinds(self, eight: EightBits) -> dict[str, tuple[tuple[str, ...], tuple[int, ...]]]:
        """Of every array: the types that it may have, and its shape."""
        matrices = {
            name: ((EIGHT,), size_of(eight, name, size)) for name, size in self.sizes.items() if is_matrix(name)
        }
        return matrices | {name: (("float32",), self.sizes[name]) for name in self._floats()} | dict(self.beside.shapes)

    def _floats(self) -> list[str]:
        return [name for name in self.sizes if not is_matrix(name) and name != TABLE]

    def made(self, eight: EightBits) -> Iterator[tuple[str, np.ndarray]]:
        """Every array in turn, from the model's files. Refuses unusable values, in the table of the text too."""
        for name in filter(is_matrix, self.sizes):
            whole = read(self.names[name], self.files)
            try:
                yield name, packed(eight, name, whole)
            except ValueError as error:
                tensor = shown(sources_of(self.names[name])[0])
                raise ModelError(
                    f"{shown(self.files.path, 400)} holds values that cannot be used",
                    cause=f"tensor '{tensor}' {error}",
                    hint="--dtype fp32",
                ) from None
        name = sources_of(self.names[TABLE])[0]
        check, (kind, _), entries = finite(self.files), self.files.names()[name], self.files.mapped(name)
        for first in range(0, len(entries), 4096):
            check(name, as_float32(entries[first : first + 4096], kind))
        yield from self.beside.made()
        for name in self._floats():
            yield name, read(self.names[name], self.files)


def matrices(origin: Origin, eight: EightBits, tell: Tell) -> dict[str, np.ndarray]:
    """Every array of the model: from the cache folder, where they are put if they are not there yet."""
    if origin.sha256 is None:
        return dict(origin.made(eight))
    path = eight_files.folder() / f"{origin.sha256}{eight_files.SUFFIX}"
    found = kept(path, origin, eight, tell)
    if found is not None:
        return found
    try:
        _write(path, origin, eight)
    except OSError as error:
        why = error.strerror or type(error).__name__
        what = f"the weights in 8 bits could not be saved to {shown(path.parent, 400)}, so every start makes them again"
        tell(Notice(what, cause=why, hint="--dtype fp32"))
        return dict(origin.made(eight))
    tell(Notice(f"the weights in 8 bits were saved to {shown(path, 400)}", hint="--dtype fp32", plain=True))
    found = kept(path, origin, eight, tell)
    return dict(origin.made(eight)) if found is None else found


# ---- kept files


def kept(
    path: Path, origin: Origin, eight: EightBits, tell: Tell = lambda notice: None
) -> dict[str, np.ndarray] | None:
    """The matrices of a kept file, mapped; None if there is none that can be used."""
    if not path.exists():
        return None
    try:
        files = Checkpoint.open(path)
        wanted, names, about = origin.kinds(eight), files.names(), files.metadata()
        fits = names.keys() == wanted.keys() and all(
            kind in wanted[name][0] and shape == wanted[name][1] for name, (kind, shape) in names.items()
        )
        if not fits or about.get("weights") != origin.sha256 or about.get("order") != sys.byteorder:
            tell(Notice(f"{shown(path, 400)} does not fit the model and is made again"))
            return None
        # what is mapped for its sum is given back at once: of large tables, few rows are needed
        sums = {name: sum_of(eight, files.mapped(name)) for name in names}
        if about.get("sum") == _total(sums):
            return {name: files.mapped(name).view(kind) for name, (kind, _) in names.items()}
    except ModelError:
        pass
    tell(Notice(f"{shown(path, 400)} is damaged and is made again"))
    return None


def sum_of(eight: EightBits, array: np.ndarray) -> str:
    """A sum over the bytes of an array, filled up to a multiple of 64."""
    flat = array.reshape(-1).view(np.uint8)
    return eight.sum_of(np.pad(flat, (0, -flat.size % 64)) if flat.size % 64 else flat)


def _total(sums: Mapping[str, str]) -> str:
    return hashlib.blake2b(repr(sorted(sums.items())).encode(), digest_size=16).hexdigest()


def _write(path: Path, origin: Origin, eight: EightBits) -> None:
    """Writes every array, one at a time; the name appears when the file is whole. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    _sweep(path.parent)
    most = {name: (kinds[0], shape) for name, (kinds, shape) in origin.kinds(eight).items()}
    head = len(_header(most, origin, "0" * 32, 0))
    part, begun = open_temporary(path, None)
    begun.close()
    written: dict[str, tuple[str, tuple[int, ...]]] = {}
    sums: dict[str, str] = {}
    try:
        with part.open("wb") as file:
            if hasattr(os, "posix_fallocate"):  # find out now that there is no room
                needed = sum(np.dtype(kind).itemsize * prod(shape) for kind, shape in most.values())
                os.posix_fallocate(file.fileno(), 0, head + needed)
            file.seek(head)
            for name, array in origin.made(eight):
                file.write(array.data)
                written[name] = array.dtype.name, array.shape
                sums[name] = sum_of(eight, array)
            file.truncate()
            file.seek(0)
            file.write(_header(written, origin, _total(sums), head))
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    finally:
        with suppress(OSError):
            part.unlink()
    for other in path.parent.glob(f"{origin.sha256}.q8-*.safetensors"):  # of earlier versions
        if other != path:
            with suppress(OSError):
                other.unlink()


def _header(arrays: Mapping[str, tuple[str, tuple[int, ...]]], origin: Origin, total: str, length: int) -> bytes:
    """The arrays, by type and shape, follow in this order. At least `length` bytes."""
    about = {"weights": str(origin.sha256), "model": origin.model, "order": sys.byteorder, "sum": total}
    whole: dict[str, object] = {"__metadata__": about}
    at = 0
    for name, (kind, shape) in arrays.items():
        end = at + np.dtype(kind).itemsize * prod(shape)
        whole[name] = {"dtype": STORED[kind], "shape": list(shape), "data_offsets": [at, end]}
        at = end
    text = json.dumps(whole).encode()
    length = max(length, -(-(8 + len(text)) // ALIGNED) * ALIGNED) - 8
    return length.to_bytes(8, "little") + text.ljust(length)


def _sweep(place: Path) -> None:
    """Removes what killed processes have left half-written."""
    for path in place.glob(".*.part-*"):
        with suppress(OSError):
            if time.time() - path.stat().st_mtime > STALE_S:
                path.unlink()
