"""Checkpoint: the tensors of one model folder, read and checked block by block.

Files are read rather than memory-mapped: mapped pages count towards the memory of the process, and a file that
shrinks while it is mapped kills the process with SIGBUS.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from omnitts_cli.errors import ModelError
from omnitts_cli.weights.header import INDEX, Header, TensorEntry, damaged, read_header, shown, unreadable

BLOCK_BYTES = 4 * 2**20

DTYPES = {
    "BOOL": torch.bool,
    "U8": torch.uint8,
    "I8": torch.int8,
    "F8_E4M3": torch.float8_e4m3fn,
    "F8_E5M2": torch.float8_e5m2,
    "I16": torch.int16,
    "U16": torch.uint16,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "I32": torch.int32,
    "U32": torch.uint32,
    "F32": torch.float32,
    "I64": torch.int64,
    "U64": torch.uint64,
    "F64": torch.float64,
}

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

    def names(self) -> dict[str, tuple[torch.dtype, tuple[int, ...]]]:
        """Every tensor's dtype and shape, from the headers alone."""
        return {
            name: (DTYPES[entry.dtype], entry.shape)
            for header in self.headers
            for name, entry in header.tensors.items()
        }

    def metadata(self) -> dict[str, str]:
        return {key: value for header in self.headers for key, value in header.metadata.items()}

    def file_of(self, name: str) -> Path:
        return self._find(name)[0].path

    def shape(self, name: str) -> tuple[int, ...]:
        return self._find(name)[1].shape

    def tensor(self, name: str) -> Tensor:
        """One tensor, on the CPU, in the dtype of the file."""
        whole = torch.empty(self.shape(name), dtype=DTYPES[self._find(name)[1].dtype])
        self.read_into(name, whole)
        return whole

    def read_into(self, name: str, target: Tensor, check: Callable[[str, Tensor], None] | None = None) -> None:
        """Fill a contiguous tensor of the same size; `check` is called with every block before it is copied."""
        header, entry = self._find(name)
        flat = target.view(-1)
        at = 0
        for block in _blocks(header, entry):
            if check is not None:
                check(name, block)
            flat[at : at + len(block)].copy_(block)
            at += len(block)

    def mapped(self, name: str) -> Tensor:
        """One tensor as it lies in the file, mapped: only what is used of it takes memory. Writes stay private."""
        header, entry = self._find(name)
        kind = DTYPES[entry.dtype]
        if entry.begin % kind.itemsize:
            return self.tensor(name)
        try:
            whole = torch.from_file(str(header.path), shared=False, size=header.file_bytes, dtype=torch.uint8)
        except (OSError, RuntimeError) as error:  # torch raises either
            raise ModelError(f"cannot read {shown(header.path, 400)}", cause=shown(error, 300)) from None
        return whole[entry.begin : entry.begin + entry.size_bytes].view(kind).view(entry.shape)

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


def _blocks(header: Header, entry: TensorEntry) -> Iterator[Tensor]:
    """Yields blocks of a tensor, each valid until the next: they share one small buffer."""
    dtype = DTYPES[entry.dtype]
    buffer = torch.empty(min(BLOCK_BYTES, entry.size_bytes), dtype=torch.uint8)
    view = memoryview(buffer.numpy())  # type: ignore[arg-type]
    try:
        with header.path.open("rb", buffering=0) as file:
            file.seek(entry.begin)
            left = entry.size_bytes
            while left:
                size = min(left, len(view))
                _read_fully(header, file.readinto, view[:size])
                yield buffer[:size].view(dtype)
                left -= size
    except OSError as error:
        raise unreadable(header.path, error) from None


def _read_fully(header: Header, readinto: Callable[[memoryview], int | None], target: memoryview) -> None:
    while target:
        got = readinto(target)
        if not got:
            raise damaged(header.path, "it became shorter while it was read")
        target = target[got:]
