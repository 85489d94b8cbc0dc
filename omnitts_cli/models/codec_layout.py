"""The weights of a codec's decoder, rearranged as operands of products: norms and scales are folded in, and consecutive
linear layers become one. Does not import torch; what is folded has the same bits on every device.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate
from math import prod
from operator import mul
from typing import Any

import numpy as np

from omnitts_cli.kernels.ops import DecoderParts, Product
from omnitts_cli.kernels.tracks import Track, Tracks
from omnitts_cli.models.shapes import DecoderShape, UpsamplingShape

Values = Callable[[str], np.ndarray]
"""The name of a tensor of the decoder -> its values in float32."""
Make = Callable[..., Product]
"""Weight, bias, the other fields -> a Product with the arrays of a device."""


def host_product(weight: np.ndarray, bias: np.ndarray | None = None, **more: Any) -> Product:
    """A product with arrays of NumPy, in float32."""
    whole = {name: _single(value) for name, value in more.items() if isinstance(value, np.ndarray)}
    return Product(_single(weight), None if bias is None else _single(bias), **more | whole)


def _single(array: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(array, np.float32)


@dataclass(frozen=True)
class OpeningProducts:
    """What embeds the codes."""

    books: Any  # [G, V, W] float32
    product: Product


@dataclass(frozen=True)
class LayerProducts:
    """Of the transformer."""

    qkv: Product
    out: Product
    gate_up: Product
    down: Product


@dataclass(frozen=True)
class StretchProducts:
    """Upsampling at the same width, and a ConvNeXt block."""

    rise: Product
    weight: Any  # [taps, C] float32, of the depthwise convolution
    bias: Any
    eps: float
    up: Product
    down: Product
    last: bool  # the next layer reads a track


@dataclass(frozen=True)
class RiseProducts:
    """Upsampling to half the width, and residual units."""

    rise: Product
    units: list[tuple[Product, Product]]


class Lazily(Sequence[Any]):
    """Layers that are rearranged when they are asked for: a device with a layout of its own needs one at a time."""

    def __init__(self, make: Callable[[int], Any], count: int) -> None:
        self._make, self._count = make, count

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: Any) -> Any:
        if not 0 <= index < self._count:
            raise IndexError(index)
        return self._make(index)


@dataclass(frozen=True)
class CodecLayout:
    """All of it."""

    opening: OpeningProducts | None
    layers: Sequence[LayerProducts]
    leaving: Product  # the transformer's output; with stretches, folded into the first one
    stretches: Sequence[StretchProducts]
    widen: Product
    rises: Sequence[RiseProducts]
    closing: Any  # [taps, C] float32
    closing_bias: Any

    @staticmethod
    def of(shape: UpsamplingShape, values: Values, make: Make, place: Callable[[np.ndarray], Any]) -> CodecLayout:
        """`place` puts an array on the device, where it is not a part of a product."""
        leaving, bias = _leaving(shape, values)
        first = prod(shape.stretches)
        rates = [*accumulate(shape.rises, mul, initial=first)]  # columns of a frame
        before = leaving, bias, shape.transformer.eps
        return CodecLayout(
            opening=_opening(values, make, place) if isinstance(shape, DecoderShape) else None,
            layers=Lazily(partial(_layer, shape, values, make), shape.transformer.layers),
            leaving=make(leaving, bias, eps=shape.transformer.eps),
            stretches=Lazily(partial(_stretch, shape, values, make, place, before), len(shape.stretches)),
            widen=_conv(values, make, "widen.conv", _after(shape, 0)),
            rises=Lazily(partial(_rise, shape, values, make, rates), len(shape.rises)),
            closing=place(_single(values("closing.conv.weight")[0].T)),
            closing_bias=place(values("closing.conv.bias")),
        )

    def whole(self) -> CodecLayout:
        """With all layers rearranged."""
        return replace(self, layers=[*self.layers], stretches=[*self.stretches], rises=[*self.rises])


def tracks_of(shape: UpsamplingShape) -> list[Track]:
    """The input of every causal layer, in order."""

    def walk() -> Iterator[Track]:
        rate, reach = 1, shape.kernel - 1
        if isinstance(shape, DecoderShape):
            yield Track(shape.opening_kernel - 1, 1, 2 * shape.book_width)
        for stretch in shape.stretches:
            rate *= stretch
            yield Track(reach, rate, shape.latent)  # type: ignore[attr-defined]
        yield Track(reach, rate, shape.latent)  # type: ignore[attr-defined]
        for step, rise in enumerate(shape.rises):
            yield Track(1, rate, shape.width >> step)
            rate *= rise
            for dilation in shape.dilations:
                yield Track(reach * dilation, rate, shape.width >> (step + 1))
        yield Track(reach, rate, shape.width >> len(shape.rises))

    return list(walk())


def rotations(shape: UpsamplingShape) -> np.ndarray:
    """Radians by which a frame turns each pair of the transformer's heads, [D / 2] float32."""
    depth = shape.transformer.head_dim
    exponents = np.arange(0, depth, 2, dtype=np.float32) / np.float32(depth)
    return (shape.transformer.rope_theta ** -exponents.astype(np.float64)).astype(np.float32)


def decoder_parts(
    layout: CodecLayout,
    shape: UpsamplingShape,
    tracks: Tracks,
    place: Callable[[np.ndarray], Any],
    size_bytes: int,
    **state: Any,
) -> DecoderParts:
    """Everything for a decoder as one operation; `state`: history, frames, keys and values of its slots."""
    assert layout.opening is not None
    return DecoderParts(
        books=layout.opening.books,
        opening=layout.opening.product,
        layers=layout.layers,
        leaving=layout.leaving,
        stretches=layout.stretches,
        widen=layout.widen,
        rises=layout.rises,
        closing=layout.closing,
        closing_bias=layout.closing_bias,
        tracks=tracks,
        rates=place(rotations(shape)),
        window=shape.window,
        samples=shape.samples_per_frame,
        size_bytes=size_bytes,
        **state,
    )  # fmt: skip


def _after(shape: UpsamplingShape, step: int) -> str:
    """The snake before rise number `step`, or before the closing layer."""
    return f"rises.{step}.snake" if step < len(shape.rises) else "snake"


def _factors(values: Values, name: str, copies: int = 1) -> dict[str, np.ndarray]:
    """Of a snake: computed in float64 and rounded once. `copies` of them side by side."""
    scale, height = (np.exp(values(f"{name}.{part}").astype(np.float64)) for part in ("alpha", "beta"))
    inverse = 1 / (height.astype(np.float32) + np.float32(1e-9))
    return {"scale": np.tile(_single(scale), copies), "inverse": np.tile(_single(inverse), copies)}


def _conv(values: Values, make: Make, name: str, snake: str, dilation: int = 1, columns: int = 0) -> Product:
    """A convolution and the snake after it; `columns` as in `Product`."""
    weight = values(f"{name}.weight")  # [outputs, inputs, taps]
    flat = weight.transpose(0, 2, 1).reshape(len(weight), -1)
    more = {"taps": weight.shape[2], "dilation": dilation, "columns": columns, "activation": "snake"}
    return make(flat, values(f"{name}.bias"), **more, **_factors(values, snake))


def _opening(values: Values, make: Make, place: Callable[[np.ndarray], Any]) -> OpeningProducts:
    """codes -> entries -> latent -> opening -> hidden: everything after the entries is linear, so it is one product."""
    sides = ("leading", "residual")
    spread = np.concatenate([values(f"quantiser.{side}.out.weight") for side in sides], 1).astype(np.float64)
    opening, into = (values(f"{name}.weight").astype(np.float64) for name in ("opening.conv", "transformer.into"))
    hidden, (latent, quantised, taps) = len(into), opening.shape
    weight = (into @ opening.reshape(latent, -1)).reshape(hidden, quantised, taps).transpose(0, 2, 1) @ spread
    bias = into @ values("opening.conv.bias").astype(np.float64) + values("transformer.into.bias")
    books = np.concatenate([values(f"quantiser.{side}.books") for side in sides])
    return OpeningProducts(place(books), make(weight.reshape(hidden, -1), bias, taps=taps))


def _leaving(shape: UpsamplingShape, values: Values) -> tuple[np.ndarray, np.ndarray]:
    """Weight and bias of the transformer's output layer, with the weight of the last norm folded in."""
    norm = values("transformer.norm").astype(np.float64)
    if not isinstance(shape, DecoderShape):
        return np.diag(norm), np.zeros_like(norm)
    return values("transformer.out.weight").astype(np.float64) * norm, values("transformer.out.bias").astype(np.float64)


def _layer(shape: UpsamplingShape, values: Values, make: Make, index: int) -> LayerProducts:
    def of(name: str) -> np.ndarray:
        return values(f"transformer.layers.{index}.{name}")

    def normed(weight: str, norm: str, activation: str = "") -> Product:
        return make(of(f"{weight}.weight") * of(norm), eps=shape.transformer.eps, activation=activation)

    def scaled(weight: str, scale: str) -> Product:
        return make(of(f"{weight}.weight") * of(scale)[:, None])

    return LayerProducts(
        qkv=normed("attention.qkv", "attention_norm"),
        out=scaled("attention.out", "attention_scale"),
        gate_up=normed("gate_up", "mlp_norm", "swiglu"),
        down=scaled("down", "mlp_scale"),
    )


def _stretch(
    shape: UpsamplingShape,
    values: Values,
    make: Make,
    place: Callable[[np.ndarray], Any],
    before: tuple[np.ndarray, np.ndarray, float],
    index: int,
) -> StretchProducts:
    """`before`: weight, bias and eps of the normed linear layer directly before the first one."""

    def of(name: str) -> np.ndarray:
        return values(f"stretches.{index}.{name}")

    rate, eps = shape.stretches[index], None
    stored = of("rise.weight").astype(np.float64)  # [inputs, C, rate]
    weight = stored.transpose(2, 1, 0).reshape(-1, len(stored))  # [rate * C, inputs]
    bias = np.tile(of("rise.bias").astype(np.float64), rate)
    if index == 0:
        bias, eps = bias + weight @ before[1], before[2]
        weight = weight @ before[0]
    up, scale = of("mix.up.weight"), of("mix.scale")
    up_bias = of("mix.up.bias") + up.astype(np.float64) @ of("mix.norm.bias")
    return StretchProducts(
        rise=make(weight, bias, eps=eps),
        weight=place(_single(of("mix.depthwise.conv.weight")[:, 0].T)),
        bias=place(of("mix.depthwise.conv.bias")),
        eps=shape.norm_eps,
        up=make(up * of("mix.norm.weight"), up_bias, activation="gelu"),
        down=make(of("mix.down.weight") * scale[:, None], of("mix.down.bias") * scale),
        last=index + 1 == len(shape.stretches),
    )


def _rise(shape: UpsamplingShape, values: Values, make: Make, rates: list[int], index: int) -> RiseProducts:
    """`rates`: columns per frame before each rise."""
    here, rate, columns = f"rises.{index}", shape.rises[index], rates[index]
    stored = values(f"{here}.rise.conv.weight")
    # [inputs, outputs, blocks, rate]: block b is what an input in column n adds to column n + b
    blocks = stored.reshape(*stored.shape[:2], -1, rate)[:, :, ::-1]  # the tap of the oldest column comes first
    taps, outputs = blocks.shape[2], blocks.shape[1]
    weight = blocks.transpose(3, 1, 2, 0).reshape(rate * outputs, -1)  # [rate * outputs, taps * inputs]
    units = len(shape.dilations)
    later = [f"{here}.units.{j}.before" for j in range(1, units)] + [_after(shape, index + 1)]
    return RiseProducts(
        rise=make(
            weight, np.tile(values(f"{here}.rise.conv.bias"), rate), taps=taps, columns=columns, activation="snake",
            **_factors(values, f"{here}.units.0.before", rate),
        ),
        units=[
            (
                _conv(values, make, f"{here}.units.{j}.wide.conv", f"{here}.units.{j}.after", dilation, columns * rate),
                _conv(values, make, f"{here}.units.{j}.point", snake),
            )
            for j, (dilation, snake) in enumerate(zip(shape.dilations, later, strict=True))
        ],
    )  # fmt: skip
