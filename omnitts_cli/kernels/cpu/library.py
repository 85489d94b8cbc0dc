"""The compiled library: its functions, and why it may be missing. What they are given is made in networks.py.

ctypes releases Python's lock during a call. The library keeps no state of its own, so threads and forked processes may
call it at once. Does not import torch.
"""

import ctypes
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from omnitts_cli.kernels.cpu import build

SMALL = 64 << 20
"""Above this many bytes of weights, matrix products take nearly all the time, and a copy of the weights too much
memory."""
P, N = ctypes.c_void_p, ctypes.c_int64


@dataclass(frozen=True)
class Library:
    """The functions of one instruction set."""

    variant: str
    stack: Callable[..., int]
    choose: Callable[..., int]
    frame: Callable[..., int]
    decode: Callable[..., int]
    decode_bytes: Callable[..., int]


ARGUMENTS = {
    "stack": (P, P, P, N, P, P, P),
    "choose": (P, N, N, N, P, P, P, P, P, P),
    "frame": (P, P, N, P, ctypes.c_int),
    "decode": (P, P, P, N, N, P, ctypes.c_int, P),
    "decode_bytes": (P, N, N, ctypes.c_int),
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
RESULTS = {"decode_bytes": N, "sum": ctypes.c_uint64}
"""What they return in place of a status."""


def load(variant: str | None = None) -> Library | None:
    """The library of these sources for the best or the named instruction set; None where it was not built."""
    if (found := _opened()) is None:
        return None
    variant = variant or _variants(found)[0]
    return Library(variant, **_functions(found, ARGUMENTS, "", variant))


def load_quantised(variant: str | None = None) -> QuantisedLibrary | None:
    """The same for weights of 8 bits."""
    if (found := _opened()) is None:
        return None
    variant = variant or _quantised_variants(found)[0]
    return QuantisedLibrary(variant, **_functions(found, QUANTISED_ARGUMENTS, "quantised_", variant))


def _functions(found: ctypes.CDLL, arguments: Mapping[str, Sequence[Any]], prefix: str, variant: str) -> dict[str, Any]:
    functions = {name: getattr(found, f"{prefix}{name}_{variant}") for name in arguments}
    for name, function in functions.items():
        function.argtypes, function.restype = arguments[name], RESULTS.get(name, ctypes.c_int)
    return functions


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
