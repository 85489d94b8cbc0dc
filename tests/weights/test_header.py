"""Hostile and broken safetensors files: each is refused with its own reason, at once, and nothing of it is run."""

import io
import json
import os
import pickle
import socket
import struct
import time
import tracemalloc
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file
from torch import nn
from trap import Trap

from omnitts_cli.errors import ModelError
from omnitts_cli.models.sources import Names, One
from omnitts_cli.weights.checkpoint import Checkpoint
from omnitts_cli.weights.header import HEADER_LIMIT, read_header, shown
from omnitts_cli.weights.load import fill

F32 = {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}


def packed(header: object, data: bytes = b"", length: int | None = None) -> bytes:
    """A safetensors file made by hand; `header` is bytes or something for JSON."""
    raw = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(raw) if length is None else length) + raw + data


def one(**changes: object) -> bytes:
    return packed({"x": F32 | changes}, bytes(24))


def two(first: list[int], second: list[int], data_bytes: int) -> bytes:
    halves = {"a": first, "b": second}
    return packed(
        {name: {"dtype": "U8", "shape": [8], "data_offsets": at} for name, at in halves.items()}, bytes(data_bytes)
    )


def torch_archive(trap: Trap) -> bytes:
    file = io.BytesIO()
    torch.save({"x": trap}, file)
    return file.getvalue()


def numpy_objects(trap: Trap) -> bytes:
    file = io.BytesIO()
    np.save(file, np.array([trap], dtype=object), allow_pickle=True)
    return file.getvalue()


def zip_of_pickle(trap: Trap) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("archive/data.pkl", pickle.dumps(trap))
    return file.getvalue()


HOSTILE: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "the file is empty"),
    "one byte": (b"\x08", "damaged or truncated"),
    "seven bytes": (bytes(7), "damaged or truncated"),
    "length only": (struct.pack("<Q", 0), "does not begin with a safetensors header"),
    "length 0": (packed(b"", b"{}"), "does not begin with a safetensors header"),
    "length 1": (packed(b"{", bytes(50)), "does not begin with a safetensors header"),
    "length 2^63": (packed({"x": F32}, bytes(24), length=2**63), "damaged or truncated"),
    "length 2^64-1": (packed({"x": F32}, bytes(24), length=2**64 - 1), "damaged or truncated"),
    "length beyond the file": (packed({"x": F32}, length=1000), "damaged or truncated"),
    "not JSON": (packed(b"{x: 1}"), "not valid JSON"),
    "a JSON list": (packed(b"[1, 2]"), "does not begin with a safetensors header"),
    "nested and open": (packed(b'{"x": ' + b"[" * 1_000_000), "nested"),
    "a name twice": (packed(b'{"x": %b, "x": %b}' % ((json.dumps(F32).encode(),) * 2), bytes(24)), "'x' twice"),
    "a tensor that is a list": (packed({"x": []}), "needs exactly"),
    "no offsets": (packed({"x": {"dtype": "F32", "shape": [2]}}), "needs exactly"),
    "an extra key": (one(code="import os"), "needs exactly"),
    "unknown dtype": (one(dtype="F31"), "unknown dtype 'F31'"),
    "dtype with control characters": (one(dtype="\x1b[31m"), "unknown dtype '?[31m'"),
    "dtype that is a number": (one(dtype=7), "unknown dtype '7'"),
    "negative shape": (one(shape=[-2, -3]), "impossible shape"),
    "absurd shape": (one(shape=[2**62, 3]), "impossible shape"),
    "shape of wrong rank": (one(shape=[1] * 1000), "impossible shape"),
    "shape of long numbers": (one(shape=[10**17] * 100_000), "impossible shape"),
    "shape of floats": (one(shape=[2.0, 3.0]), "impossible shape"),
    "shape of truths": (one(shape=[True, 6]), "impossible shape"),
    "shape of NaN": (packed(b'{"x": {"dtype": "F32", "shape": [NaN], "data_offsets": [0, 4]}}'), "NaN"),
    "shape that is a word": (one(shape="23"), "impossible shape"),
    "shape and size differ": (one(shape=[2, 4]), "is F32 [2, 4] but has 24 bytes"),
    "offsets backwards": (one(data_offsets=[24, 0]), "impossible data_offsets"),
    "negative offset": (one(data_offsets=[-24, 0]), "impossible data_offsets"),
    "three offsets": (one(data_offsets=[0, 12, 24]), "impossible data_offsets"),
    "offsets beyond the file": (one(shape=[2**20], data_offsets=[0, 2**22]), "it is truncated"),
    "offset 2^63": (one(data_offsets=[0, 2**63]), "impossible data_offsets"),
    "overlap": (two([0, 8], [4, 12], 12), "overlaps another"),
    "the same bytes twice": (two([0, 8], [0, 8], 8), "overlaps another"),
    "hole": (two([0, 8], [12, 20], 20), "leaves a hole"),
    "hole in front": (two([4, 12], [12, 20], 20), "leaves a hole"),
    "bytes left over": (two([0, 8], [8, 16], 20), "4 bytes after the last tensor"),
    "data cut off": (one()[:-1], "it is truncated"),
    "metadata that is a list": (packed({"__metadata__": []}), "__metadata__"),
    "metadata of numbers": (packed({"__metadata__": {"format": 1}}), "__metadata__"),
    "web page": (b"<!DOCTYPE html><html><body>Please log in</body></html>", "a web page"),
    "Git LFS pointer": (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 3\n", "a Git LFS pointer"),
    "GGUF": (b"GGUF\x03\x00\x00\x00" + bytes(64), "a GGUF file"),
    "gzip": (b"\x1f\x8b\x08\x00\x01\x02\x03\x04" + bytes(64), "a gzip file"),
    "JSON without length": (b'{"x": {"dtype": "F32"}}', "plain JSON"),
}

RUNNABLE: dict[str, tuple[Callable[[Trap], bytes], str]] = {
    "torch archive": (torch_archive, "a zip or PyTorch archive"),
    "zip of a pickle": (zip_of_pickle, "a zip or PyTorch archive"),
    "pickle 2": (lambda trap: pickle.dumps([trap, 0.5], 2), "a Python pickle"),
    "pickle 4": (lambda trap: pickle.dumps([trap, 0.5], 4), "a Python pickle"),
    "pickle 5": (lambda trap: pickle.dumps([trap, 0.5], 5), "a Python pickle"),
    "pickle 0": (lambda trap: pickle.dumps(trap, 0), "damaged or truncated"),
    "numpy objects": (numpy_objects, "a NumPy file"),
}


@contextmanager
def cheap() -> Iterator[None]:
    """Under a second of the processor, and without a large allocation."""
    tracemalloc.start()
    began = time.thread_time()
    try:
        yield
    finally:
        spent, peak = time.thread_time() - began, tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert spent < 1, f"took {spent:.2f} s"
    assert peak < 64 * 2**20, f"took {peak / 2**20:.0f} MB"


def refused(path: Path) -> ModelError:
    with pytest.raises(ModelError) as caught, cheap():
        Checkpoint.open(path)
    error = caught.value
    assert error.exit_code == 4
    assert str(path) in error.message
    assert all(word is None or (word.isprintable() and len(word) < 500) for word in (error.message, error.cause))
    return error


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile(tmp_path: Path, name: str) -> None:
    content, words = HOSTILE[name]
    path = tmp_path / "model.safetensors"
    path.write_bytes(content)
    error = refused(path)
    assert words in (error.cause or "")
    assert "models verify" in (error.hint or "")


@pytest.mark.parametrize("name", RUNNABLE)
def test_nothing_is_unpickled(tmp_path: Path, name: str) -> None:
    make, words = RUNNABLE[name]
    marker = tmp_path / "marker"
    path = tmp_path / "model.safetensors"
    path.write_bytes(make(Trap(marker)))
    assert words in (refused(path).cause or "")
    assert not marker.exists()


def test_the_trap_works(tmp_path: Path) -> None:
    pickle.loads(pickle.dumps(Trap(tmp_path / "marker")))
    assert (tmp_path / "marker").exists()


@pytest.mark.parametrize("length", [HEADER_LIMIT + 1, 100_000_001])
def test_a_header_too_long_is_not_even_read(tmp_path: Path, length: int) -> None:
    path = tmp_path / "model.safetensors"
    with path.open("wb") as file:
        file.write(packed(b"{", length=length))
        file.truncate(length + 100)  # a sparse file: takes no room
    assert "the limit is" in (refused(path).cause or "")


def listed(open_: bytes, one: bytes, count: int, close: bytes) -> bytes:
    return open_ + b",".join(one % n if b"%" in one else one for n in range(count)) + close


@pytest.mark.parametrize(
    ("open_", "one", "count", "close"),
    [(b"{", b'"%d":0', 380_000, b"}"), (b'{"__metadata__":{', b'"%d":""', 350_000, b"}}"),
     (b'{"x":[', b"0", 1_900_000, b"]}")],
    ids=["many tensors", "much metadata", "a long list"],
)  # fmt: skip
def test_the_largest_header_is_still_quick(tmp_path: Path, open_: bytes, one: bytes, count: int, close: bytes) -> None:
    """A header of twenty times the length takes about twenty times the processor time."""

    def seconds(count: int) -> float:
        header = listed(open_, one, count, close)
        assert len(header) < HEADER_LIMIT
        path = tmp_path / "model.safetensors"
        path.write_bytes(packed(header))
        began = time.thread_time()
        try:
            read_header(path)
        except ModelError as error:
            assert "needs exactly" in (error.cause or "")
        return time.thread_time() - began

    assert len(listed(open_, one, count, close)) > HEADER_LIMIT / 2
    small = min(seconds(count // 20) for _ in range(3))
    assert seconds(count) < 150 * max(small, 0.001)  # 400 if it were the square


def test_missing_folder_link_pipe_and_socket(tmp_path: Path) -> None:
    assert "is missing" in refused(tmp_path / "model.safetensors").message
    (tmp_path / "folder").mkdir()
    with pytest.raises(ModelError, match="usable") as caught:
        read_header(tmp_path / "folder")
    assert caught.value.cause == "it is a folder"
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    assert "is missing" in refused(tmp_path / "dangling").message
    os.mkfifo(tmp_path / "pipe")
    assert refused(tmp_path / "pipe").cause == "it is not a regular file"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "socket"))
        assert refused(tmp_path / "socket").cause == "it is not a regular file"
    with pytest.raises(ModelError, match="cannot read"):
        read_header(tmp_path / "a\0b")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_no_permission(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(one())
    path.chmod(0)
    assert refused(path).cause == "Permission denied"


@pytest.mark.parametrize("metadata", [None, {}, {"format": "pt"}, {"made by": "someone"}])
def test_metadata_may_be_absent(tmp_path: Path, metadata: dict[str, str] | None) -> None:
    path = tmp_path / "model.safetensors"
    save_file({"x": torch.arange(6.0).reshape(2, 3)}, path, metadata=metadata)
    header = read_header(path)
    assert header.metadata == (metadata or {})
    assert header.tensors["x"].shape == (2, 3)


def test_empty_tensors_scalars_and_padding(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    entries = {
        "none": {"dtype": "F32", "shape": [0, 5], "data_offsets": [0, 0]},
        "scalar": {"dtype": "I16", "shape": [], "data_offsets": [0, 2]},
        "also none": {"dtype": "F32", "shape": [0], "data_offsets": [2, 2]},
    }
    path.write_bytes(packed(json.dumps(entries).encode() + b"     ", b"\x07\x00"))
    files = Checkpoint.open(path)
    assert files.tensor("scalar").item() == 7
    assert files.tensor("none").shape == (0, 5)


def test_untrusted_text_is_made_printable() -> None:
    assert shown("a\x1b[31mb\n\ud800\u202ec") == "a?[31mb???c"
    assert len(shown("x" * 1000)) == 120


SMALL = {
    "a.weight": torch.arange(6.0).reshape(2, 3),
    "a.bias": torch.tensor([1.5, -2.0]),
    "b": torch.ones(4).bfloat16(),
}
SMALL_NAMES: Names = {"weight": One("a.weight"), "bias": One("a.bias"), "b": One("b")}


def small_file(folder: Path) -> bytes:
    path = folder / "good.safetensors"
    if not path.exists():
        save_file(SMALL, path, metadata={"format": "pt"})
    return path.read_bytes()


def loads_or_refuses(path: Path) -> None:
    """The whole promise: a ModelError, or finite numbers that the official reader sees too."""
    module = nn.Module()
    for name, source in SMALL_NAMES.items():
        tensor = SMALL[source.name]  # type: ignore[union-attr]
        module.register_parameter(name, nn.Parameter(torch.empty(tensor.shape, device="meta")))
    try:
        fill(module, SMALL_NAMES, Checkpoint.open(path), "cpu", torch.float32)
    except ModelError as error:
        assert str(error)
        return
    official = load_file(path)
    for name, source in SMALL_NAMES.items():
        value = getattr(module, name).detach()
        assert value.isfinite().all()
        assert torch.equal(value, official[source.name].float())  # type: ignore[union-attr]


PROPERTY = settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)


@PROPERTY
@given(data=st.data())
def test_any_flipped_byte(tmp_path: Path, data: st.DataObject) -> None:
    content = bytearray(small_file(tmp_path))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(content) - 1))
        content[at] ^= data.draw(st.integers(1, 255))
    path = tmp_path / "bad.safetensors"
    path.write_bytes(content)
    loads_or_refuses(path)


@PROPERTY
@given(data=st.data())
def test_any_cut_or_insertion(tmp_path: Path, data: st.DataObject) -> None:
    content = small_file(tmp_path)
    start = data.draw(st.integers(0, len(content)))
    stop = data.draw(st.integers(start, len(content)))
    path = tmp_path / "bad.safetensors"
    path.write_bytes(content[:start] + data.draw(st.binary(max_size=20)) + content[stop:])
    loads_or_refuses(path)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=10,
)
OFFSETS = st.lists(st.integers(-8, 64), min_size=2, max_size=2)
TENSOR = st.fixed_dictionaries(
    {
        "dtype": st.sampled_from(["F32", "BF16", "U8", "I64", "BOOL", "X"]) | JSON,
        "shape": st.lists(st.integers(-1, 6), max_size=3) | JSON,
        "data_offsets": OFFSETS | JSON,
    }
)


@PROPERTY
@given(
    header=st.dictionaries(st.sampled_from(["a.weight", "a.bias", "b", "__metadata__", "z"]), TENSOR | JSON),
    data=st.binary(max_size=64),
)
def test_any_header(tmp_path: Path, header: dict[str, object], data: bytes) -> None:
    path = tmp_path / "bad.safetensors"
    path.write_bytes(packed(header, data))
    loads_or_refuses(path)
