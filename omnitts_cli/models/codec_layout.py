"""The weights of a codec's decoder, rearranged as operands of products: norms and scales are folded in, and consecutive
linear layers become one. Does not import torch; what is folded has the same bits on every device.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import accumulate
from math import prod
from operator import mul
from typing import Any, NamedTuple

import numpy as np

from omnitts_cli.kernels.ops import DecoderParts, Product
from omnitts_cli.kernels.tracks import Track, Tracks
from omnitts_cli.models.shapes import DecoderShape, UpsamplingShape

Values = Callable[[str], np.ndarray]
"""The name of a tensor of the decoder -> its values in float32."""
Arrays = dict[str, np.ndarray]
"""Of a product: "weight", and perhaps "bias", "scale" and "inverse"."""
Make = Callable[..., Any]
"""A name, what computes the Arrays, (outputs, inputs of all taps), whether there is a bias, the other fields -> a
Product with the arrays of a device."""
Place = Callable[[str, Callable[[], np.ndarray], tuple[int, ...]], Any]
"""The same for an array outside the products: a name, what computes it, its shape -> the array on a device."""


def host_product(name: str, fold: Callable[[], Arrays], size: tuple[int, int], biased: bool, **more: Any) -> Product:
    """A product with arrays of NumPy, in float32."""
    return Product(**{part: _single(array) for part, array in fold().items()}, **more)


def host_array(name: str, fold: Callable[[], np.ndarray], size: tuple[int, ...]) -> np.ndarray:
    """An array of NumPy, in float32."""
    return _single(fold())


def _single(array: np.ndarray) -> Any:
    """As a field of a Product, which is a tensor or an array."""
    return np.ascontiguousarray(array, np.float32)


RISE_TAPS = 2  # an output of a rise depends on so many columns


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

    @property
    def taps(self) -> int:
        """Of the depthwise convolution."""
        return int(self.weight.shape[0])


class UnitProducts(NamedTuple):
    """A residual unit."""

    conv: Product
    point: Product


@dataclass(frozen=True)
class RiseProducts:
    """Upsampling to half the width, and residual units."""

    rise: Product
    units: list[UnitProducts]


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
    def of(shape: UpsamplingShape, values: Values, make: Make, place: Place) -> "CodecLayout":
        """What `make` and `place` do not compute is not read either."""
        leaving = cache(partial(_leaving, shape, values))
        first, hidden, last = prod(shape.stretches), shape.transformer.hidden, shape.width >> len(shape.rises)
        rates = [*accumulate(shape.rises, mul, initial=first)]  # columns of a frame
        latent: int = shape.latent  # type: ignore[attr-defined]
        return CodecLayout(
            opening=_opening(shape, values, make, place) if isinstance(shape, DecoderShape) else None,
            layers=Lazily(partial(_layer, shape, values, make), shape.transformer.layers),
            leaving=make("leaving", leaving, (latent, hidden), True, eps=shape.transformer.eps),
            stretches=Lazily(partial(_stretch, shape, values, make, place, leaving), len(shape.stretches)),
            widen=_conv(values, make, "widen.conv", _after(shape, 0), (shape.width, latent, shape.kernel)),
            rises=Lazily(partial(_rise, shape, values, make, rates), len(shape.rises)),
            closing=place("closing", lambda: values("closing.conv.weight")[0].T, (shape.kernel, last)),
            closing_bias=place("closing.bias", lambda: values("closing.conv.bias"), (1,)),
        )

    def whole(self) -> "CodecLayout":
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


def kept_of(shape: UpsamplingShape) -> int:
    """Numbers of history per stream, of all tracks."""
    return sum(part.past * part.channels for part in tracks_of(shape))


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
    opening = layout.opening
    assert opening is not None
    sizes: dict[str, Any] = {"window": shape.window, "samples": shape.samples_per_frame, "size_bytes": size_bytes}
    parts = vars(layout) | {"books": opening.books, "opening": opening.product, "rates": place(rotations(shape))}
    return DecoderParts(**parts, **sizes, **state, tracks=tracks)


def _after(shape: UpsamplingShape, step: int) -> str:
    """The snake before rise number `step`, or before the closing layer."""
    return f"rises.{step}.snake" if step < len(shape.rises) else "snake"


def _factors(values: Values, name: str, copies: int = 1) -> dict[str, np.ndarray]:
    """Of a snake: computed in float64 and rounded once. `copies` of them side by side."""
    scale, height = (np.exp(values(f"{name}.{part}").astype(np.float64)) for part in ("alpha", "beta"))
    inverse = 1 / (height.astype(np.float32) + np.float32(1e-9))
    return {"scale": np.tile(_single(scale), copies), "inverse": np.tile(_single(inverse), copies)}


def _conv(
    values: Values, make: Make, name: str, snake: str, size: tuple[int, int, int], dilation: int = 1, columns: int = 0
) -> Product:
    """A convolution and the snake after it. `size`: outputs, inputs, taps; `columns` as in `Product`."""
    outputs, inputs, taps = size

    def fold() -> Arrays:
        weight = values(f"{name}.weight")  # [outputs, inputs, taps]
        flat = weight.transpose(0, 2, 1).reshape(outputs, -1)
        return {"weight": flat, "bias": values(f"{name}.bias"), **_factors(values, snake)}

    more = {"taps": taps, "dilation": dilation, "columns": columns, "activation": "snake"}
    product: Product = make(name.removesuffix(".conv"), fold, (outputs, taps * inputs), True, **more)
    return product


def _opening(shape: DecoderShape, values: Values, make: Make, place: Place) -> OpeningProducts:
    """codes -> entries -> latent -> opening -> hidden: everything after the entries is linear, so it is one product."""
    sides, hidden, taps = ("leading", "residual"), shape.transformer.hidden, shape.opening_kernel

    def fold() -> Arrays:
        spread = np.concatenate([values(f"quantiser.{side}.out.weight") for side in sides], 1).astype(np.float64)
        opening, into = (values(f"{name}.weight").astype(np.float64) for name in ("opening.conv", "transformer.into"))
        latent, quantised, _ = opening.shape
        weight = (into @ opening.reshape(latent, -1)).reshape(hidden, quantised, taps).transpose(0, 2, 1) @ spread
        bias = into @ values("opening.conv.bias").astype(np.float64) + values("transformer.into.bias")
        return {"weight": weight.reshape(hidden, -1), "bias": bias}

    def books() -> np.ndarray:
        return np.concatenate([values(f"quantiser.{side}.books") for side in sides])

    return OpeningProducts(
        place("books", books, (shape.groups, shape.codes, shape.book_width)),
        make("opening", fold, (hidden, taps * 2 * shape.book_width), True, taps=taps),
    )


def _leaving(shape: UpsamplingShape, values: Values) -> Arrays:
    """The transformer's output layer, with the weight of the last norm folded in."""
    norm = values("transformer.norm").astype(np.float64)
    if not isinstance(shape, DecoderShape):
        return {"weight": np.diag(norm), "bias": np.zeros_like(norm)}
    weight, bias = (values(f"transformer.out.{part}").astype(np.float64) for part in ("weight", "bias"))
    return {"weight": weight * norm, "bias": bias}


def _layer(shape: UpsamplingShape, values: Values, make: Make, index: int) -> LayerProducts:
    at, here = shape.transformer, f"transformer.layers.{index}"
    wide = at.heads * at.head_dim

    def of(name: str) -> np.ndarray:
        return values(f"{here}.{name}")

    def normed(name: str, weight: str, norm: str, outputs: int, activation: str = "") -> Any:
        def fold() -> Arrays:
            return {"weight": of(f"{weight}.weight") * of(norm)}

        return make(f"layers.{index}.{name}", fold, (outputs, at.hidden), False, eps=at.eps, activation=activation)

    def scaled(name: str, weight: str, scale: str, inputs: int) -> Any:
        def fold() -> Arrays:
            return {"weight": of(f"{weight}.weight") * of(scale)[:, None]}

        return make(f"layers.{index}.{name}", fold, (at.hidden, inputs), False)

    return LayerProducts(
        qkv=normed("qkv", "attention.qkv", "attention_norm", 3 * wide),
        out=scaled("out", "attention.out", "attention_scale", wide),
        gate_up=normed("gate_up", "gate_up", "mlp_norm", 2 * at.inner, "swiglu"),
        down=scaled("down", "down", "mlp_scale", at.inner),
    )


def _stretch(
    shape: UpsamplingShape, values: Values, make: Make, place: Place, before: Callable[[], Arrays], index: int
) -> StretchProducts:
    """`before`: the normed linear layer directly before the first one."""
    here, rate, latent = f"stretches.{index}", shape.stretches[index], shape.latent  # type: ignore[attr-defined]
    wide = shape.expansion * latent

    def of(name: str) -> np.ndarray:
        return values(f"{here}.{name}")

    def rise() -> Arrays:
        stored = of("rise.weight").astype(np.float64)  # [inputs, C, rate]
        weight = stored.transpose(2, 1, 0).reshape(-1, len(stored))  # [rate * C, inputs]
        bias = np.tile(of("rise.bias").astype(np.float64), rate)
        if index == 0:
            earlier = before()
            bias, weight = bias + weight @ earlier["bias"], weight @ earlier["weight"]
        return {"weight": weight, "bias": bias}

    def up() -> Arrays:
        weight = of("mix.up.weight")
        bias = of("mix.up.bias") + weight.astype(np.float64) @ of("mix.norm.bias")
        return {"weight": weight * of("mix.norm.weight"), "bias": bias}

    def down() -> Arrays:
        scale = of("mix.scale")
        return {"weight": of("mix.down.weight") * scale[:, None], "bias": of("mix.down.bias") * scale}

    inputs, eps = (latent, None) if index else (shape.transformer.hidden, shape.transformer.eps)
    return StretchProducts(
        rise=make(f"{here}.rise", rise, (rate * latent, inputs), True, eps=eps),
        weight=place(f"{here}.weight", lambda: of("mix.depthwise.conv.weight")[:, 0].T, (shape.kernel, latent)),
        bias=place(f"{here}.bias", lambda: of("mix.depthwise.conv.bias"), (latent,)),
        eps=shape.norm_eps,
        up=make(f"{here}.up", up, (wide, latent), True, activation="gelu"),
        down=make(f"{here}.down", down, (latent, wide), True),
        last=index + 1 == len(shape.stretches),
    )


def _rise(shape: UpsamplingShape, values: Values, make: Make, rates: list[int], index: int) -> RiseProducts:
    """`rates`: columns per frame before each rise."""
    here, rate, columns = f"rises.{index}", shape.rises[index], rates[index]
    inputs, width = shape.width >> index, shape.width >> (index + 1)
    units = len(shape.dilations)
    later = [f"{here}.units.{j}.before" for j in range(1, units)] + [_after(shape, index + 1)]

    def fold() -> Arrays:
        stored = values(f"{here}.rise.conv.weight")
        # [inputs, outputs, blocks, rate]: block b is what an input in column n adds to column n + b
        blocks = stored.reshape(*stored.shape[:2], -1, rate)[:, :, ::-1]  # the tap of the oldest column comes first
        weight = blocks.transpose(3, 1, 2, 0).reshape(rate * width, -1)  # [rate * outputs, taps * inputs]
        bias = np.tile(values(f"{here}.rise.conv.bias"), rate)
        return {"weight": weight, "bias": bias, **_factors(values, f"{here}.units.0.before", rate)}

    more = {"taps": RISE_TAPS, "columns": columns, "activation": "snake"}
    return RiseProducts(
        rise=make(f"{here}.rise", fold, (rate * width, RISE_TAPS * inputs), True, **more),
        units=[
            UnitProducts(
                _conv(
                    values, make, f"{here}.units.{j}.wide.conv", f"{here}.units.{j}.after",
                    (width, width, shape.kernel), dilation, columns * rate,
                ),
                _conv(values, make, f"{here}.units.{j}.point", snake, (width, width, 1)),
            )
            for j, (dilation, snake) in enumerate(zip(shape.dilations, later, strict=True))
        ],
    )  # fmt: skip
