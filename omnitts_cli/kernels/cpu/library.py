"""The compiled library: its structures, its functions, and why it may be missing.

Structures have the fields of their namesakes in `native/*.c`, in the same order. ctypes releases Python's lock during a
call. The library keeps no state of its own, so threads and forked processes may call it at once. What is given may be
arrays of NumPy or tensors on a CPU; results are arrays of NumPy. Does not import torch.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from omnitts_cli.kernels.cpu import build
from omnitts_cli.kernels.ops import type_name

SMALL = 64 << 20
"""Above this many bytes of weights, matrix products take nearly all the time, and a copy of the weights too much
memory."""
PANEL = 16
MOST_THREADS = 64
P, N, REAL = ctypes.c_void_p, ctypes.c_int64, ctypes.c_float


@dataclass(frozen=True)
class Library:
    """The functions of one instruction set."""

    variant: str
    stack: Callable[..., int]
    choose: Callable[..., int]
    frame: Callable[..., int]
    decode: Callable[..., int]


ARGUMENTS = {
    "stack": (P, P, P, N, P, P, P),
    "choose": (P, N, N, N, P, P, P, P, P, P),
    "frame": (P, P, N, P),
    "decode": (P, P, P, N, N, P, ctypes.c_int),
}


@dataclass(frozen=True)
class QuantisedLibrary:
    """The functions for weights of 8 bits of one instruction set."""

    variant: str
    stack: Callable[..., int]
    frame: Callable[..., int]
    multiply: Callable[..., int]
    text: Callable[..., int]
    make: Callable[..., int]
    sum: Callable[..., int]


QUANTISED_ARGUMENTS = {
    "stack": (P, P, P, N, P, P, P, ctypes.c_int),
    "frame": (P, P, N, P, ctypes.c_int),
    "multiply": (P, P, N, P, ctypes.c_int),
    "text": (P, P, N, P, ctypes.c_int),
    "make": (P, N, N, N, P, ctypes.c_int),
    "sum": (P, N),
}


def load(variant: str | None = None) -> Library | None:
    """The library of these sources for the best or the named instruction set; None where it was not built."""
    found = _opened()
    if found is None:
        return None
    variant = variant or _variants(found)[0]
    functions = {name: getattr(found, f"{name}_{variant}") for name in ARGUMENTS}
    for name, function in functions.items():
        function.argtypes, function.restype = ARGUMENTS[name], ctypes.c_int
    return Library(variant, **functions)


def load_quantised(variant: str | None = None) -> QuantisedLibrary | None:
    """The same for weights of 8 bits."""
    found = _opened()
    if found is None:
        return None
    variant = variant or _quantised_variants(found)[0]
    functions = {name: getattr(found, f"quantised_{name}_{variant}") for name in QUANTISED_ARGUMENTS}
    for name, function in functions.items():
        function.argtypes = QUANTISED_ARGUMENTS[name]
        function.restype = ctypes.c_uint64 if name == "sum" else ctypes.c_int
    return QuantisedLibrary(variant, **functions)


def handles(variant: str | None = None, eight: str | None = None) -> dict[str, Any]:
    """Both, by their names in kernels/choose.py; {} where the library was not built."""
    found, bits = load(variant), load_quantised(eight)
    return {} if found is None or bits is None else {"c": found, "c8": bits}


def quantised_usable() -> list[str]:
    """The instruction sets for weights of 8 bits that this processor has, fastest first."""
    found = _opened()
    return [] if found is None else _quantised_variants(found)


def usable() -> list[str]:
    """The instruction sets in the library that this processor has, fastest first."""
    found = _opened()
    return [] if found is None else _variants(found)


def origin() -> tuple[str, str]:
    """Where the library was compiled, "here" or for a "wheel", and by which compiler. There has to be one."""
    found = _opened()
    assert found is not None
    found.native_origin.restype = ctypes.c_char_p
    place, _, compiler = found.native_origin().decode().partition(" ")
    return place, compiler


def why_not() -> str | None:
    """Why the library that is there cannot be loaded; None if it can, or if there is none."""
    place = build.library()
    try:
        ctypes.CDLL(str(place))
    except OSError as error:
        return str(error) if place.exists() else None
    return None


def _opened() -> ctypes.CDLL | None:
    try:
        return ctypes.CDLL(str(build.library()))
    except OSError:
        return None


def _variants(found: ctypes.CDLL) -> list[str]:
    found.native_variant.restype = ctypes.c_char_p
    compiled = list(build.variants())
    return compiled[compiled.index(found.native_variant().decode()) :]


def _quantised_variants(found: ctypes.CDLL) -> list[str]:
    """A compiler may have known fewer sets than the processor has; AVX-512 comes without the VNNI of 256 bits."""
    found.native_quantised_variant.restype = ctypes.c_char_p
    every = list(build.quantised_variants())
    best = found.native_quantised_variant().decode()
    below = [name for name in every[every.index(best) :] if name == best or name != "avxvnni"]
    return [name for name in below if hasattr(found, f"quantised_stack_{name}")]


_chosen: dict[str, int | None] = {"threads": None}


def use_threads(count: int | None) -> None:
    """Sets `threads`; None: as many as torch uses."""
    _chosen["threads"] = count


def threads() -> int:
    """Of a call."""
    count = _chosen["threads"]
    if count is None:
        count = sys.modules["torch"].get_num_threads() if "torch" in sys.modules else 1
    return min(count, MOST_THREADS)


def check(status: int) -> None:
    if status:
        raise MemoryError("the CPU library ran out of memory")


def single(array: Any) -> np.ndarray:
    """The numbers in float32, contiguous."""
    return np.ascontiguousarray(array if isinstance(array, np.ndarray) else array.float(), np.float32)


def panels(weight: Any, norm: Any = None, parts: int = 1) -> np.ndarray:
    """[outputs, inputs] -> [outputs / PANEL, inputs, PANEL]. Each of so many equal parts begins a panel, and its last
    panel is padded with zeros. `norm` [inputs] is multiplied in.
    """
    given = np.asarray(weight)
    outputs, inputs = given.shape[0] // parts, given.shape[1]
    by = np.float32(1) if norm is None else np.asarray(norm)[:, None]
    made = np.empty((parts, -(-outputs // PANEL), inputs, PANEL), np.float32)
    whole = outputs // PANEL
    for part, target in zip(given.reshape(parts, outputs, inputs), made, strict=True):
        np.multiply(part[: whole * PANEL].reshape(whole, PANEL, inputs).swapaxes(1, 2), by, out=target[:whole])
        for last in target[whole:]:
            rest = part[whole * PANEL :].T
            last[:, : rest.shape[1]], last[:, rest.shape[1] :] = rest * by, 0
    return made.reshape(-1, inputs, PANEL)


def address(array: Any, kind: Any = np.float32) -> int:
    """The address of an array's data. The caller keeps the array alive while C uses the address."""
    if not isinstance(array, np.ndarray):
        assert array.device.type == "cpu" and type_name(array.dtype) == np.dtype(kind).name
        array = np.asarray(array)
    assert array.dtype == kind and array.flags.c_contiguous
    found: int = array.__array_interface__["data"][0]
    return found


class Layer(ctypes.Structure):
    _fields_ = [(name, P) for name in ("qkv", "qk_norm", "out", "gate_up", "down")]


class QuantisedLayer(ctypes.Structure):
    _fields_ = [(name, P) for name in ("input_norm", "qk_norm", "mlp_norm", "qkv", "out", "gate_up", "down")]


class Stack(ctypes.Structure):
    _fields_ = [
        *((name, N) for name in ("hidden", "inner", "heads", "kv_heads", "depth", "layers")),
        ("eps", REAL),
        ("norm", P),
        ("layer", P),
    ]


class Text(ctypes.Structure):
    _fields_ = [
        *((name, P) for name in ("inner", "inner_bias", "out", "out_bias")),
        *((name, N) for name in ("width", "middle", "outputs")),
    ]


class Cache(ctypes.Structure):
    _fields_ = [(name, P) for name in ("keys", "values", "cos", "sin")] + [("slots", N), ("capacity", N)]


class Prompts(ctypes.Structure):
    _fields_ = [*((name, P) for name in ("rows", "slots", "positions")), ("count", N)]


class Frame(ctypes.Structure):
    _fields_ = [
        ("talker", P),
        ("predictor", P),
        ("cache", Cache),
        *((name, P) for name in ("rope_cos", "rope_sin", "head", "heads", "project", "project_bias", "inputs")),
        *((name, P) for name in ("first", "rest")),
        *((name, N) for name in ("vocabulary", "audio", "end", "groups", "codes", "least_frames", "stall")),
        *((name, N) for name in ("text_rows", "frames")),
        *((name, P) for name in ("row", "text", "pad")),
        *((name, P) for name in ("position", "made", "stop", "limit", "made_codes", "reference", "last", "repeats")),
        *((name, P) for name in ("written", "live", "closed", "seen")),
        *((name, P) for name in ("seed", "top_k", "predictor_top_k")),
        *((name, P) for name in ("temperature", "top_p", "penalty", "predictor_temperature", "predictor_top_p")),
        ("ignore_end", P),
    ]


class Product(ctypes.Structure):
    _fields_ = [
        *((name, P) for name in ("weight", "bias", "scale", "inverse")),
        *((name, N) for name in ("outputs", "inputs", "taps", "dilation", "activation", "half")),
        ("eps", REAL),
    ]


class DecoderLayer(ctypes.Structure):
    _fields_ = [(name, Product) for name in ("qkv", "out", "gate_up", "down")]


class Stretch(ctypes.Structure):
    _fields_ = [
        *((name, Product) for name in ("rise", "up", "down")),
        ("weight", P),
        ("bias", P),
        ("taps", N),
        ("eps", REAL),
    ]


class Unit(ctypes.Structure):
    _fields_ = [("conv", Product), ("point", Product)]


class Rise(ctypes.Structure):
    _fields_ = [("rise", Product), ("unit", P), ("units", N)]


class Track(ctypes.Structure):
    _fields_ = [(name, N) for name in ("past", "rate", "channels")]


class Decoder(ctypes.Structure):
    _fields_ = [
        *((name, Product) for name in ("opening", "leaving", "widen")),
        *((name, P) for name in ("layer", "stretch", "rise", "track", "books", "closing", "closing_bias", "rates")),
        *((name, N) for name in ("layers", "stretches", "rises", "tracks", "groups", "codes", "book", "closing_taps")),
        *((name, N) for name in ("heads", "depth", "window", "ring", "slots", "kept", "samples", "large")),
        *((name, P) for name in ("history", "keys", "values", "frames")),
    ]
