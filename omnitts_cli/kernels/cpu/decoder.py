"""The codec's decoder in C: the next codes of some streams -> their sound, as one call.

The weights of a large decoder are read from memory for every chunk, so with `halves` its large matrices are stored in
float16, and its layers are dealt to threads. Sums are float32 in any case.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from omnitts_cli.kernels.cpu import library
from omnitts_cli.kernels.cpu.library import PANEL, SMALL, Library, address, check, panels, single, threads
from omnitts_cli.kernels.ops import DecoderParts, Product

ACTIVATIONS = ("", "snake", "gelu", "swiglu")
LARGE = 128 << 10
"""Products of more weights than this are dealt to threads by outputs; those of fewer by columns."""
TOGETHER = 16  # panels that are compared at once
ROUNDING = 2**-11
"""The most that storing a matrix in float16 may change it, relative to its root mean square. Beyond float16's range,
and far below it, matrices stay in float32."""


def fuse_decoder(native: Library, parts: DecoderParts, halves: bool) -> NativeDecoder:
    """A decoder as one call."""
    return NativeDecoder(native, parts, halves)


def halved(panels: np.ndarray) -> np.ndarray | None:
    """The same in float16, or None if that is not nearly the same."""
    with np.errstate(over="ignore"):
        made = panels.astype(np.float16)
    apart = whole = 0.0
    for first in range(0, len(panels), TOGETHER):  # not to need a third copy
        full = panels[first : first + TOGETHER].ravel()
        rest = made[first : first + TOGETHER].ravel() - full
        apart, whole = apart + float(rest @ rest), whole + float(full @ full)
    return made if apart**0.5 <= ROUNDING * whole**0.5 else None


@dataclass(frozen=True)
class Packed:
    """A product as native/codec.c reads it."""

    weight: np.ndarray  # [panels, taps * inputs, PANEL] float32 or float16
    vectors: np.ndarray  # the bias if there is one, then scale and inverse of a snake: [0 to 3, padded outputs] float32
    size: tuple[int, int]  # outputs, taps * inputs
    taps: int = 1
    dilation: int = 1
    eps: float | None = None
    activation: str = ""


def packed_shapes(size: tuple[int, int], biased: bool, activation: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Of `weight` and `vectors`."""
    (outputs, inputs), parts = size, _parts(activation)
    rows = biased + 2 * (activation == "snake")
    return (parts * -(-outputs // parts // PANEL), inputs, PANEL), (rows, -(-outputs // PANEL) * PANEL)


def _parts(activation: str) -> int:
    return 2 if activation == "swiglu" else 1


def halves_fit(size_bytes: int) -> bool:
    """Whether a decoder with so many bytes of weights in float32 is large enough to store matrices in float16."""
    return size_bytes > SMALL


def pack(product: Product, halves: bool) -> Packed:
    """`halves`: large matrices in float16."""
    weight = np.asarray(product.weight)
    made = panels(weight, parts=_parts(product.activation))
    short = halved(made) if halves and made.size > LARGE else None
    given = [one for one in (product.bias, product.scale, product.inverse) if one is not None]
    padded = [np.pad(single(one), (0, -len(weight) % PANEL)) for one in given]
    vectors = np.stack(padded) if padded else np.empty((0, 0), np.float32)
    more = product.taps, product.dilation, product.eps, product.activation
    return Packed(made if short is None else short, vectors, (len(weight), weight.shape[1]), *more)


class NativeDecoder:
    """Codes [B, T, G] of slots [B] -> sound [B, samples]. Keeps all tensors to which its C structure points."""

    def __init__(self, native: Library, parts: DecoderParts, halves: bool) -> None:
        self._decode, self._samples, self._kept = native.decode, parts.samples, list[Any]()
        large = halves_fit(parts.size_bytes)
        self.threads = threads() if large else 1
        self._halves = large and halves
        opening = self._product(parts.opening)
        tracks = [library.Track(part.past, part.rate, part.channels) for part in parts.tracks.parts]
        _, slots, heads, ring, depth = parts.keys.shape
        self._struct = library.Decoder(
            opening=opening,
            leaving=self._product(parts.leaving),
            widen=self._product(parts.widen),
            layer=self._array([self._layer(layer) for layer in parts.layers]),
            stretch=self._array([self._stretch(stretch) for stretch in parts.stretches]),
            rise=self._array([self._rise(rise) for rise in parts.rises]),
            track=self._array(tracks),
            books=self._address(parts.books),
            closing=self._address(parts.closing),
            closing_bias=self._address(parts.closing_bias),
            rates=self._address(parts.rates),
            layers=len(parts.layers),
            stretches=len(parts.stretches),
            rises=len(parts.rises),
            tracks=len(tracks),
            groups=parts.books.shape[0],
            codes=parts.books.shape[1],
            book=parts.books.shape[2],
            closing_taps=parts.closing.shape[0],
            heads=heads,
            depth=depth,
            window=parts.window,
            ring=ring,
            slots=slots,
            kept=parts.tracks.kept,
            samples=parts.samples,
            large=LARGE,
            history=self._address(parts.history),
            keys=self._address(parts.keys),
            values=self._address(parts.values),
            frames=self._address(parts.frames, np.int64),
        )

    def __call__(self, codes: Any, slots: Any) -> Any:
        given, (rows, frames, _) = np.ascontiguousarray(np.asarray(codes)), codes.shape
        sound = np.empty((rows, frames * self._samples), np.float32)
        where = address(given, np.int64), address(slots, np.int64)
        check(self._decode(ctypes.byref(self._struct), *where, rows, frames, address(sound), self.threads))
        return sound

    def _address(self, array: Any, kind: Any = np.float32) -> int:
        self._kept.append(array)
        return address(array, kind)

    def _array(self, structs: Sequence[Any]) -> int | None:
        if not structs:
            return None
        array = (type(structs[0]) * len(structs))(*structs)
        self._kept.append(array)
        return ctypes.addressof(array)

    def _product(self, product: Product | Packed) -> library.Product:
        ready = product if isinstance(product, Packed) else pack(product, self._halves)
        half, biased = ready.weight.dtype == np.float16, len(ready.vectors) % 2
        names = ("bias", "scale", "inverse") if biased else ("scale", "inverse")
        return library.Product(
            weight=self._address(ready.weight, ready.weight.dtype),
            outputs=ready.size[0],
            inputs=ready.size[1] // ready.taps,
            taps=ready.taps,
            dilation=ready.dilation,
            activation=ACTIVATIONS.index(ready.activation),
            half=half,
            eps=-1.0 if ready.eps is None else ready.eps,
            **{name: self._address(vector) for name, vector in zip(names, ready.vectors, strict=False)},
        )

    def _layer(self, layer: Any) -> library.DecoderLayer:
        return library.DecoderLayer(*map(self._product, (layer.qkv, layer.out, layer.gate_up, layer.down)))

    def _stretch(self, stretch: Any) -> library.Stretch:
        return library.Stretch(
            rise=self._product(stretch.rise),
            up=self._product(stretch.up),
            down=self._product(stretch.down),
            weight=self._address(stretch.weight),
            bias=self._address(stretch.bias),
            taps=stretch.weight.shape[0],
            eps=stretch.eps,
        )

    def _rise(self, rise: Any) -> library.Rise:
        units = [library.Unit(*map(self._product, pair)) for pair in rise.units]
        return library.Rise(rise=self._product(rise.rise), unit=self._array(units), units=len(units))
