"""Checkpoint: the tensors of one model folder, read and checked block by block.

Files are read rather than memory-mapped: mapped pages count towards the memory of the process, and a file that
shrinks while it is mapped kills the process with SIGBUS. Imports torch only where tensors are asked for.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from omnitts_cli.errors import ModelError
from omnitts_cli.weights.header import INDEX, TYPES, Header, TensorEntry, damaged, read_header, shown, unreadable

if TYPE_CHECKING:
    import torch
    from torch import Tensor

Check = Callable[[str, np.ndarray], None]

BLOCK_BYTES = 256 << 10  # stays in a cache while it is converted

FLOATS = ("float16", "bfloat16", "float32", "float64")
"""Those that weights may have."""

_SHARD = re.compile(r"model-\d{5}-of-(\d{5})\.safetensors")


@dataclass(frozen=True)
class Checkpoint:
    """The headers of one or several safetensors files; their data stays on disk until it is read."""

    path: Path  # for messages: the file, or the folder of several
    headers: tuple[Header, ...]

    @staticmethod
    def open(path: Path | str) -> Checkpoint:
        """A safetensors file, or a folder with model.safetensors or numbered shards.

        If there is an index, shards may be missing; reading a tensor of a missing shard raises KeyError.
        """
        path = Path(path)
        headers = tuple(read_header(file) for file in (_files(path) if path.is_dir() else [path]))
        seen: set[str] = set()
        for header in headers:
            if twice := seen & header.tensors.keys():
                raise damaged(header.path, f"tensor '{shown(min(twice))}' is in two files of the model")
            seen |= header.tensors.keys()
        return Checkpoint(headers[0].path if len(headers) == 1 else path, headers)

    def names(self) -> dict[str, tuple[str, tuple[int, ...]]]:
        """Every tensor's type and shape, from the headers alone."""
        return {
            name: (TYPES[entry.dtype][0], entry.shape)
            for header in self.headers
            for name, entry in header.tensors.items()
        }

    def metadata(self) -> dict[str, str]:
        return {key: value for header in self.headers for key, value in header.metadata.items()}

    def file_of(self, name: str) -> Path:
        return self._find(name)[0].path

    def shape(self, name: str) -> tuple[int, ...]:
        return self._find(name)[1].shape

    def array(self, name: str, check: Check | None = None, into: np.ndarray | None = None) -> np.ndarray:
        """One tensor of floats in float32, written `into` a contiguous array if one is given. `check` is called with
        every block.
        """
        header, entry = self._find(name)
        found, at = np.empty(entry.shape, np.float32) if into is None else into, 0
        whole, kind = found.reshape(-1), TYPES[entry.dtype][0]
        for block in _blocks(header, entry):
            count = len(block) * prod(entry.shape) // entry.size_bytes
            values = as_float32(block, kind, whole[at : at + count])
            if check is not None:
                check(name, values)
            at += count
        return found

    def tensor(self, name: str) -> Tensor:
        """One tensor, on the CPU, in the type of the file."""
        import torch

        whole = torch.empty(self.shape(name), dtype=dtype_of(TYPES[self._find(name)[1].dtype][0]))
        self.read_into(name, whole)
        return whole

    def read_into(self, name: str, target: Tensor, check: Callable[[str, Tensor], None] | None = None) -> None:
        """Fill a contiguous tensor of the same size; `check` is called with every block before it is copied."""
        import torch

        header, entry = self._find(name)
        flat, kind = target.view(-1), dtype_of(TYPES[entry.dtype][0])
        at = 0
        for raw in _blocks(header, entry):
            block = torch.from_numpy(raw).view(kind)
            if check is not None:
                check(name, block)
            flat[at : at + len(block)].copy_(block)
            at += len(block)

    def mapped(self, name: str) -> np.ndarray:
        """The bytes of a tensor as they lie in the file, [..., bytes of its last axis]. Only what is used of them takes
        memory. Writes stay private.
        """
        header, entry = self._find(name)
        try:
            whole = np.memmap(header.path, np.uint8, "c", entry.begin, (entry.size_bytes,))
        except (OSError, ValueError) as error:
            raise ModelError(f"cannot read {shown(header.path, 400)}", cause=shown(error, 300)) from None
        return np.asarray(whole).reshape(*entry.shape[:-1], -1)

    def rows(self, name: str) -> Callable[[np.ndarray], np.ndarray]:
        """What reads rows of a large tensor of floats by their numbers, in float32."""
        table, (kind, _) = self.mapped(name), self.names()[name]
        return lambda numbers: as_float32(table[numbers], kind)

    def _find(self, name: str) -> tuple[Header, TensorEntry]:
        for header in self.headers:
            if name in header.tensors:
                return header, header.tensors[name]
        raise KeyError(name)


def _files(folder: Path) -> list[Path]:
    """model.safetensors, or the shards of one numbered set."""
    whole = folder / "model.safetensors"
    parts = sorted(path for path in folder.iterdir() if _SHARD.fullmatch(path.name))
    if not parts or whole.exists():
        return [whole]
    count = int(_SHARD.fullmatch(parts[0].name)[1])  # type: ignore[index]
    wanted = [folder / f"model-{n:05d}-of-{count:05d}.safetensors" for n in range(1, count + 1)]
    missing = [path.name for path in wanted if path not in parts]
    if set(parts) - set(wanted) or (missing and not (folder / INDEX).is_file()):
        raise ModelError(
            f"{shown(folder, 400)} does not hold a complete model",
            cause=f"{missing[0]} is missing" if missing else "it mixes shards of several models",
            hint="omnitts models pull NAME",
        )
    return parts


def dtype_of(kind: str) -> torch.dtype:
    """The type called so."""
    import torch

    found = getattr(torch, kind)
    assert isinstance(found, torch.dtype)
    return found


def as_float32(raw: np.ndarray, kind: str, out: np.ndarray | None = None) -> np.ndarray:
    """Bytes of floats [..., bytes] of this type -> [..., n] float32; into `out` if that is given."""
    given = raw.view(np.uint16 if kind == "bfloat16" else kind)
    out = np.empty(given.shape, np.float32) if out is None else out
    if kind == "bfloat16":  # the upper half of a float32
        np.left_shift(given, 16, out=out.view(np.uint32), dtype=np.uint32)
    else:
        with np.errstate(over="ignore"):  # infinity, which a check finds
            np.copyto(out, given, casting="same_kind")
    return out


def _blocks(header: Header, entry: TensorEntry) -> Iterator[np.ndarray]:
    """Yields blocks of the bytes of a tensor, each valid until the next: they share one small buffer."""
    buffer = np.empty(min(BLOCK_BYTES, entry.size_bytes), np.uint8)
    view = memoryview(buffer)  # type: ignore[arg-type]
    try:
        with header.path.open("rb", buffering=0) as file:
            file.seek(entry.begin)
            left = entry.size_bytes
            while left:
                size = min(left, len(view))
                _read_fully(header, file.readinto, view[:size])
                yield buffer[:size]
                left -= size
    except OSError as error:
        raise unreadable(header.path, error) from None


def _read_fully(header: Header, readinto: Callable[[memoryview], int | None], target: memoryview) -> None:
    while target:
        got = readinto(target)
        if not got:
            raise damaged(header.path, "it became shorter while it was read")
        target = target[got:]
