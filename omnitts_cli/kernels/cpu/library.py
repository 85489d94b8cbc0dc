"""The compiled library: its functions, and why it may be missing. What they are given is made in networks.py.

ctypes releases Python's lock during a call. The library keeps no state of its own, so threads and forked processes may
call it at once. Does not import torch.
"""

import ctypes
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any

from omnitts_cli.kernels.cpu import build

SMALL = 64 << 20
"""Above this many bytes of weights, matrix products take nearly all the time, and a copy of the weights too much
memory."""
P, N = ctypes.c_void_p, ctypes.c_int64


Function = Callable[..., int]


def takes(*arguments: Any, gives: Any = ctypes.c_int) -> dict[str, Any]:
    """The types of a function of the library; without `gives` it returns a status."""
    return {"argtypes": arguments, "restype": gives}


@dataclass(frozen=True)
class Library:
    """The functions of one instruction set."""

    variant: str
    stack: Function = field(metadata=takes(P, P, P, N, P, P, P))
    choose: Function = field(metadata=takes(P, N, N, N, P, P, P, P, P, P))
    frame: Function = field(metadata=takes(P, P, N, P, ctypes.c_int))
    decode: Function = field(metadata=takes(P, P, P, N, N, P, ctypes.c_int, P))
    decode_bytes: Function = field(metadata=takes(P, N, N, ctypes.c_int, gives=N))


@dataclass(frozen=True)
class QuantisedLibrary:
    """The functions for weights of 8 bits of one instruction set."""

    variant: str
    stack: Function = field(metadata=takes(P, P, P, N, P, P, P, ctypes.c_int))
    frame: Function = field(metadata=takes(P, P, N, P, ctypes.c_int))
    multiply: Function = field(metadata=takes(P, P, N, P, ctypes.c_int))
    text: Function = field(metadata=takes(P, P, N, P, ctypes.c_int))
    make: Function = field(metadata=takes(P, N, N, N, P, ctypes.c_int))
    sum: Function = field(metadata=takes(P, N, gives=ctypes.c_uint64))


def load(variant: str | None = None) -> Library | None:
    """The library of these sources for the best or the named instruction set; None where it was not built."""
    return _loaded(Library, "", variant or next(iter(usable()), ""))


def load_quantised(variant: str | None = None) -> QuantisedLibrary | None:
    """The same for weights of 8 bits."""
    return _loaded(QuantisedLibrary, "quantised_", variant or next(iter(quantised_usable()), ""))


def _loaded(kind: Any, prefix: str, variant: str) -> Any:
    if (found := _opened()) is None:
        return None
    functions = {}
    for one in fields(kind)[1:]:
        functions[one.name] = function = getattr(found, f"{prefix}{one.name}_{variant}")
        function.argtypes, function.restype = one.metadata["argtypes"], one.metadata["restype"]
    return kind(variant, **functions)


def handles(variant: str | None = None, eight: str | None = None) -> dict[str, Any]:
    """Both, by their names in kernels/choose.py; {} where the library was not built."""
    found, bits = load(variant), load_quantised(eight)
    return {} if found is None or bits is None else {"c": found, "c8": bits}


def usable() -> list[str]:
    """The instruction sets in the library that this processor has, fastest first."""
    if (found := _opened()) is None:
        return []
    found.native_variant.restype = ctypes.c_char_p
    compiled = list(build.variants())
    return compiled[compiled.index(found.native_variant().decode()) :]


def quantised_usable() -> list[str]:
    """The same for weights of 8 bits. A compiler may have known fewer sets than the processor has; AVX-512 comes
    without the VNNI of 256 bits.
    """
    if (found := _opened()) is None:
        return []
    found.native_quantised_variant.restype = ctypes.c_char_p
    every = list(build.quantised_variants())
    best = found.native_quantised_variant().decode()
    below = [name for name in every[every.index(best) :] if name == best or name != "avxvnni"]
    return [name for name in below if hasattr(found, f"quantised_stack_{name}")]


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
