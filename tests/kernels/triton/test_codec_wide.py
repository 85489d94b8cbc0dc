"""The codec's large products through the copy engine against their plain versions."""

from types import ModuleType

import pytest
import tables
import torch
from codec_case import DEVICE, HOPPER_OR_INTERPRETER, INTERPRETED, random
from codec_case import halves as layer
from hopper import relative_error

from omnitts_cli.kernels import plain_codec, tiles
from omnitts_cli.kernels.ops import CodecOps

pytest.importorskip("triton")
pytestmark = HOPPER_OR_INTERPRETER
SIZE = 1 if INTERPRETED else 4
"""The interpreter takes seconds for tiles of the real size."""


@pytest.fixture
def wide(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module, used for any number of programs."""
    from omnitts_cli.kernels.triton import codec_wide

    monkeypatch.setattr(tiles, "WIDE_ENOUGH", 1)
    monkeypatch.setattr(tiles, "WIDE_ENOUGH_SMALL", 1)
    if INTERPRETED:
        monkeypatch.setattr(tiles, "WIDE_TILES", ((32, 32, 16, 4, 3), (16, 32, 16, 4, 3)))
    return codec_wide


def codec(exact: bool = False) -> CodecOps:
    """The operations as the thresholds of now choose them."""
    ops = tables.card(exact=exact).codec
    assert ops is not None
    return ops


@pytest.mark.parametrize(
    ("streams", "columns", "inputs", "outputs", "taps", "dilation", "activation", "adds", "keeps"),
    [
        pytest.param(2, 64, 32, 64, 7, 3, "snake", False, False, id="convolution"),
        pytest.param(2, 32, 48, 64, 1, 1, "snake", True, True, id="added to the residual"),
        pytest.param(3, 32, 32, 96, 2, 1, "", False, True, id="transposed convolution"),
        pytest.param(3, 16, 48, 64, 7, 1, "snake", False, False, id="convolution, few columns"),
        pytest.param(3, 16, 32, 96, 2, 1, "snake", False, True, id="transposed convolution, few columns"),
        pytest.param(4, 8, 32, 64, 1, 1, "gelu", False, False, id="streams as one"),
    ],
)
def test_product(
    wide: ModuleType, streams: int, columns: int, inputs: int, outputs: int, taps: int, dilation: int,
    activation: str, adds: bool, keeps: bool,
) -> None:  # fmt: skip
    columns, inputs, outputs = columns * SIZE, inputs * SIZE, outputs * SIZE
    one = layer(outputs, inputs, taps, dilation, activation)
    x = random(streams, columns + (taps - 1) * dilation, inputs).half()
    residual = random(streams, columns, outputs).half() if adds else None
    past = 0 if activation == "gelu" else 6
    results = []
    for product in (wide.product, plain_codec.product):
        kept = torch.full((streams, columns, outputs), float("nan"), device=DEVICE).half() if keeps else None
        track = torch.full((streams, past + columns, outputs), 7.0, device=DEVICE).half()
        product(x, one, residual, kept, track[:, past:])
        results.append((track, kept))
    assert torch.equal(results[0][0][:, :past], results[1][0][:, :past])  # what lies in front is left alone
    assert relative_error(results[0][0], results[1][0]) < 2e-3
    if keeps:
        assert relative_error(results[0][1], results[1][1]) < 2e-3


@pytest.mark.skipif(INTERPRETED, reason="the interpreter adds in NumPy's order")
@pytest.mark.parametrize(
    ("inputs", "outputs", "taps", "activation"),
    [(1024, 1536, 7, "snake"), (1536, 6144, 2, "snake"), (1024, 4096, 1, "gelu"), (4096, 1024, 1, "")],
)
def test_small_tiles_have_the_bits_of_the_other_kernels(
    wide: ModuleType, inputs: int, outputs: int, taps: int, activation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first products of the released codec, 16 frames of 32 streams, in the order that --exact asks for."""
    one, x = layer(outputs, inputs, taps, 1, activation), random(32, 64 + taps - 1, inputs).half()
    results = []
    for enough in (1, 1 << 40):
        monkeypatch.setattr(tiles, "WIDE_ENOUGH", enough)
        monkeypatch.setattr(tiles, "WIDE_ENOUGH_SMALL", enough)
        kept, out = torch.zeros(32, 64, outputs, device=DEVICE), torch.zeros(32, 64, outputs, device=DEVICE).half()
        codec(exact=True).product(x, one, before=kept, out=out)
        results.append((kept, out))
    for got, wanted in zip(*results, strict=True):
        assert torch.equal(got, wanted)


@pytest.mark.skipif(INTERPRETED, reason="the interpreter adds in NumPy's order")
@pytest.mark.parametrize(("columns", "channels"), [(256, 768), (640, 384), (640, 192), (1920, 96)])
def test_sums_have_the_bits_of_the_other_kernels(wide: ModuleType, columns: int, channels: int) -> None:
    """A convolution, the product after it and a transposed convolution of the released shapes, four streams."""
    conv, point, rise = layer(channels, channels, 7, 3), layer(channels, channels), layer(2 * channels, channels, 2)
    x = random(4, columns + 18, channels).half()
    results = []
    for enough in (1, 1 << 40):
        tiles.WIDE_ENOUGH = enough
        residual = random(4, columns, channels, seed=5).half()
        out = torch.zeros_like(residual)
        ops = codec()
        ops.residual_unit(x, conv, point, residual, True, out)
        kept = torch.zeros(4, columns, 2 * channels, device=DEVICE).half()
        ops.product(x[:, : columns + 1].contiguous(), rise, before=kept, out=torch.empty_like(kept))
        results.append((residual, out, kept))
    for got, wanted in zip(*results, strict=True):
        assert torch.equal(got, wanted)


def test_exact_uses_them(wide: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their sums have the order that --exact asks for, so the number of columns may choose them."""
    used = list[bool]()
    monkeypatch.setattr(wide, "product", lambda *_, **more: used.append(True))
    monkeypatch.setattr("omnitts_cli.kernels.triton.codec_products.run", lambda *_, **__: None)
    conv, point, x = layer(768, 768, 7, 3), layer(768, 768), random(1, 4096 + 18, 768)
    for exact in (True, False):
        out, residual = torch.empty(1, 4096, 768, device=DEVICE).half(), random(1, 4096, 768).half()
        codec(exact).residual_unit(x.half(), conv, point, residual, True, out)
        assert used
        used.clear()
