"""Strict reading of a safetensors header: the tensors and their offsets, or a ModelError. Does not import torch.

The file is untrusted. Every value is checked before it is used, nothing large is allocated, and no other format is
ever opened: an archive or a pickle with the suffix .safetensors is recognised by its first bytes and refused.
"""

import os
import stat
from dataclasses import dataclass
from math import prod
from pathlib import Path

from omnitts_cli.errors import ModelError
from omnitts_cli.parse import ParseError, json_object

# The format allows 100 MB. The largest header of the families has about 1 MB; 4 MB are parsed well within a second.
HEADER_LIMIT = 4 * 2**20
INDEX = "model.safetensors.index.json"  # beside numbered shards: which tensor is in which shard
RANK_LIMIT = 8
DIMENSION_LIMIT = 2**40

TYPES = {
    "BOOL": ("bool", 1), "U8": ("uint8", 1), "I8": ("int8", 1), "F8_E4M3": ("float8_e4m3fn", 1),
    "F8_E5M2": ("float8_e5m2", 1), "I16": ("int16", 2), "U16": ("uint16", 2), "F16": ("float16", 2),
    "BF16": ("bfloat16", 2), "I32": ("int32", 4), "U32": ("uint32", 4), "F32": ("float32", 4),
    "I64": ("int64", 8), "U64": ("uint64", 8), "F64": ("float64", 8),
}  # fmt: skip
"""Types of a file: what PyTorch calls them, and the bytes of a number."""

LOOKS_LIKE = (
    (b"PK\x03\x04", "a zip or PyTorch archive"),
    (b"\x80\x02", "a Python pickle"),
    (b"\x80\x03", "a Python pickle"),
    (b"\x80\x04", "a Python pickle"),
    (b"\x80\x05", "a Python pickle"),
    (b"\x93NUMPY", "a NumPy file"),
    (b"GGUF", "a GGUF file"),
    (b"\x89HDF", "an HDF5 file"),
    (b"\x1f\x8b", "a gzip file"),
    (b"version https://git-lfs", "a Git LFS pointer instead of the file itself"),
    (b"<!", "a web page"),
    (b"<h", "a web page"),
    (b"{", "plain JSON"),
)


@dataclass(frozen=True)
class TensorEntry:
    """One tensor as the header describes it. `begin` counts from the start of the file."""

    dtype: str
    shape: tuple[int, ...]
    begin: int
    size_bytes: int


@dataclass(frozen=True)
class Header:
    path: Path
    tensors: dict[str, TensorEntry]
    metadata: dict[str, str]
    file_bytes: int


def shown(text: object, limit: int = 120) -> str:
    """Text from a file, safe to print: without control characters or lone surrogates, and cut to `limit`."""
    whole = "".join(c if c.isprintable() else "?" for c in str(text)[: limit + 1])
    return whole if len(whole) <= limit else whole[: limit - 1] + "…"


def read_header(path: Path) -> Header:
    """The checked header of the safetensors file at `path`."""
    file_bytes = _regular_file_bytes(path)
    try:
        with path.open("rb") as file:
            start = file.read(64)
            length = int.from_bytes(start[:8], "little")
            if file_bytes < 8 or not 2 <= length <= min(file_bytes - 8, HEADER_LIMIT) or start[8:9] != b"{":
                raise damaged(path, _wrong_start(start, length, file_bytes))
            file.seek(8)
            raw = file.read(length)
    except OSError as error:
        raise unreadable(path, error) from None
    if len(raw) < length:
        raise damaged(path, "it became shorter while it was read")
    table = _table(path, raw)
    metadata = _metadata(path, table.pop("__metadata__", None))
    tensors = {name: _entry(path, name, value, 8 + length) for name, value in table.items()}
    _no_gaps(path, tensors, 8 + length, file_bytes)
    return Header(path, tensors, metadata, file_bytes)


def damaged(path: Path, what: str) -> ModelError:
    return ModelError(
        f"{shown(path, 400)} is not a usable safetensors file",
        cause=what,
        hint="omnitts models verify   finds damaged files; omnitts models pull downloads them again",
    )


def unreadable(path: Path, error: OSError) -> ModelError:
    return ModelError(f"cannot read {shown(path, 400)}", cause=error.strerror or type(error).__name__)


def _regular_file_bytes(path: Path) -> int:
    try:
        status = os.stat(path)
    except FileNotFoundError:
        raise ModelError(
            f"{shown(path, 400)} is missing",
            hint="omnitts models pull NAME   downloads a complete model",
        ) from None
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        raise ModelError(f"cannot read {shown(path, 400)}", cause=shown(error)) from None
    # A pipe or a device could block, or never end.
    if not stat.S_ISREG(status.st_mode):
        raise damaged(path, "it is a folder" if stat.S_ISDIR(status.st_mode) else "it is not a regular file")
    return status.st_size


def _wrong_start(start: bytes, length: int, file_bytes: int) -> str:
    if not start:
        return "the file is empty"
    for magic, name in LOOKS_LIKE:
        # If a brace follows, these bytes are a header length that happens to look like another format.
        if start.startswith(magic) and start[8:9] != b"{":
            return f"it looks like {name}; only safetensors is read, because other formats can run code"
    if file_bytes < 8 or length > file_bytes - 8:
        return f"its header should have {length:,} bytes, but the file has only {file_bytes:,}: damaged or truncated"
    if length > HEADER_LIMIT:
        return f"its header is {length:,} bytes long; the limit is {HEADER_LIMIT:,}"
    return "it does not begin with a safetensors header"


def _table(path: Path, raw: bytes) -> dict[str, object]:
    try:
        return json_object(raw)
    except ParseError as error:
        raise damaged(path, f"its header {error}") from None


def _metadata(path: Path, metadata: object) -> dict[str, str]:
    if metadata is None:
        return {}
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise damaged(path, "its __metadata__ is not a table of strings")
    return metadata


def _entry(path: Path, name: str, value: object, data_start: int) -> TensorEntry:
    def wrong(what: str) -> ModelError:
        return damaged(path, f"tensor '{shown(name)}' {what}")

    if not isinstance(value, dict) or set(value) != {"dtype", "shape", "data_offsets"}:
        raise wrong("needs exactly dtype, shape and data_offsets")
    dtype, shape, offsets = value["dtype"], value["shape"], value["data_offsets"]
    if not isinstance(dtype, str) or dtype not in TYPES:
        raise wrong(f"has the unknown dtype '{shown(dtype, 20)}'")
    # Rank and sizes are checked before they are multiplied: a product of a million long integers takes minutes.
    if not _counts(shape, DIMENSION_LIMIT) or len(shape) > RANK_LIMIT:
        raise wrong("has an impossible shape")
    if not _counts(offsets, 2**63) or len(offsets) != 2 or offsets[0] > offsets[1]:
        raise wrong("has impossible data_offsets")
    begin, end = offsets
    if prod(shape) * TYPES[dtype][1] != end - begin:
        raise wrong(f"is {dtype} {list(shape)} but has {end - begin:,} bytes")
    return TensorEntry(dtype, tuple(shape), data_start + begin, end - begin)


def _counts(value: object, limit: int) -> bool:
    # type() instead of isinstance(): bool is a subclass of int
    return isinstance(value, list) and all(type(n) is int and 0 <= n < limit for n in value)


def _no_gaps(path: Path, tensors: dict[str, TensorEntry], data_start: int, file_bytes: int) -> None:
    """The tensors must cover the data exactly: overlaps, gaps and trailing bytes are refused."""
    at = data_start
    for name, entry in sorted(tensors.items(), key=lambda item: (item[1].begin, item[1].size_bytes)):
        if entry.begin != at:
            fault = "overlaps another" if entry.begin < at else "leaves a hole before it"
            raise damaged(path, f"tensor '{shown(name)}' {fault} at byte {entry.begin:,}")
        at += entry.size_bytes
    if at > file_bytes:
        raise damaged(path, f"it should be {at:,} bytes long but has only {file_bytes:,}: it is truncated")
    if at < file_bytes:
        raise damaged(path, f"{file_bytes - at:,} bytes after the last tensor belong to no tensor")
