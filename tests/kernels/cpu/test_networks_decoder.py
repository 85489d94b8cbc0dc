"""The decoder in C, small and large; that it sounds right is also proved in tests/models/test_slot_decoder.py."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import tables
import torch
from tiny_models import error, lively, random_codes
from torch import Tensor

from omnitts_cli.devices.cpu import CPUDevice
from omnitts_cli.families.toy import toy
from omnitts_cli.kernels import plain_codec
from omnitts_cli.kernels.cpu import library
from omnitts_cli.kernels.cpu.networks import QUAD_TAPS, halved, in_quads
from omnitts_cli.kernels.ops import CodecOps, Product
from omnitts_cli.models.codec_decoder import CodecDecoder
from omnitts_cli.models.shapes import DecoderShape, TransformerShape
from omnitts_cli.models.slot_decoder import slot_decoder

BOUND = 1e-5  # as in tests/models/test_slot_decoder.py
FEWER = {"hidden": 48, "inner": 96, "layers": 2, "heads": 3, "head_dim": 16, "scale": 0.4}
RELEASED = {"hidden": 512, "inner": 1024, "layers": 8, "heads": 16, "head_dim": 64, "scale": 0.01}


def shape(sizes: dict[str, Any], width: int, latent: int, **more: Any) -> DecoderShape:
    transformer = TransformerShape(**sizes)
    return DecoderShape(**more, latent=latent, width=width, transformer=transformer, stretches=(2, 2))


def small_shape() -> DecoderShape:
    """Widths that fill no panel, and rates that leave tiles of few columns."""
    return shape(FEWER, 104, 56, groups=3, codes=16, book_width=6, quantised=10, window=5, rises=(3, 2))


def quad_shape() -> DecoderShape:
    """Widths of whole panels, so that with float16 the units' convolutions are in quads; rates that fill no quad."""
    return shape(FEWER, 128, 56, groups=3, codes=16, book_width=6, quantised=10, window=5, rises=(3, 2))


def released_shape() -> DecoderShape:
    more = {"groups": 16, "codes": 2048, "book_width": 256, "quantised": 512, "window": 72, "rises": (8, 5, 4, 3)}
    return shape(RELEASED, 1536, 1024, **more)


@pytest.fixture(params=library.usable() or [None])
def ops(request: pytest.FixtureRequest) -> CodecOps:
    """Of each instruction set of this processor."""
    codec = tables.compiled(request.param).codec
    assert codec is not None
    return codec


@pytest.fixture
def threads() -> Any:
    """A function that sets the number of threads; it is put back at the end."""
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


@pytest.fixture
def everything_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("omnitts_cli.kernels.cpu.networks.SMALL", 1000)
    monkeypatch.setattr("omnitts_cli.kernels.cpu.networks.LARGE", 0)


@torch.inference_mode()
def spoken(decoder: CodecDecoder, ops: CodecOps, codes: Tensor, sizes: list[int], halves: bool = False) -> Tensor:
    """Streams in slots 3, 0, 2, in chunks of these sizes."""
    streams, slots = slot_decoder(decoder, 4, max(sizes), ops, halves), torch.tensor([3, 0, 2])[: len(codes)]
    assert streams.in_c and sum(sizes) == codes.shape[1]
    return torch.cat([streams.decode(part, slots) for part in codes.split(sizes, 1)], 1)


def test_a_small_decoder_runs_beside_the_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    """A large one has threads of its own instead."""
    native, codec = tables.compiled(), toy().codec
    small = slot_decoder(codec, 2, 4, native.codec)
    assert small.in_c and small.beside
    assert not slot_decoder(codec, 2, 4, tables.PYTHON.codec).in_c and not slot_decoder(codec, 2, 4, None).in_c
    monkeypatch.setattr("omnitts_cli.kernels.cpu.networks.SMALL", 1000)
    monkeypatch.setattr("omnitts_cli.kernels.cpu.networks.threads", lambda: 2)
    large = slot_decoder(codec, 2, 4, native.codec)
    assert large.in_c and not large.beside


@pytest.mark.usefixtures("everything_is_large")
def test_a_large_decoder_is_as_exact_as_a_small_one(ops: CodecOps, threads: Callable[[int], None]) -> None:
    threads(2)
    decoder = lively(small_shape())
    for rows, sizes in ((1, [1] * 8), (3, [5, 1, 2]), (2, [8])):
        codes = random_codes(decoder, rows, 8)
        assert error(spoken(decoder, ops, codes, sizes), decoder(codes)) < BOUND


@pytest.mark.usefixtures("everything_is_large")
@pytest.mark.parametrize(
    ("of", "halves"),
    [(small_shape, False), (small_shape, True), (quad_shape, True)],
    ids=["float32", "float16", "quads"],
)
def test_its_bits_do_not_depend_on_chunks_neighbours_and_threads(
    of: Callable[[], DecoderShape], halves: bool, ops: CodecOps, threads: Callable[[int], None]
) -> None:
    decoder, found = lively(of()), list[Tensor]()
    codes = random_codes(decoder, 3, 8)
    for count in (1, 3):
        threads(count)
        for rows, sizes in ((1, [8]), (1, [1] * 8), (1, [1, 2, 5]), (3, [8]), (3, [1, 4, 3])):
            found.append(spoken(decoder, ops, codes[:rows], sizes, halves)[0])
    assert all(torch.equal(one, found[0]) for one in found)


def test_how_work_is_shared_does_not_change_bits(ops: CodecOps, monkeypatch: pytest.MonkeyPatch) -> None:
    decoder = lively(small_shape())
    codes = random_codes(decoder, 2, 9)
    truth = spoken(decoder, ops, codes, [9])
    monkeypatch.setattr("omnitts_cli.kernels.cpu.networks.SMALL", 1000)
    monkeypatch.setattr("omnitts_cli.kernels.cpu.networks.threads", lambda: 3)
    for large in (0, 4000, 1 << 20):
        monkeypatch.setattr("omnitts_cli.kernels.cpu.networks.LARGE", large)
        assert torch.equal(spoken(decoder, ops, codes, [4, 5]), truth)


def rounded(table: CodecOps) -> CodecOps:
    """The operations with the weights of products rounded to float16, except those in quads, and everything else in
    float32.
    """

    def half(layer: Product) -> Product:
        if in_quads(layer.weight.shape[0], layer.weight.shape[1], layer.taps, layer.columns):
            return layer
        return replace(layer, weight=layer.weight.half().float())

    def product(x: Tensor, layer: Product, *more: Any, **named: Any) -> None:
        table.product(x, half(layer), *more, **named)

    def residual_unit(x: Tensor, conv: Product, point: Product, *more: Any) -> None:
        table.residual_unit(x, half(conv), half(point), *more)

    return replace(table, product=product, residual_unit=residual_unit)


@pytest.mark.usefixtures("everything_is_large")
@pytest.mark.parametrize("of", [small_shape, quad_shape])
def test_float16_rounds_the_weights_and_nothing_else(of: Callable[[], DecoderShape], ops: CodecOps) -> None:
    decoder = lively(of())
    codes = random_codes(decoder, 2, 12)
    whole, short = decoder(codes), spoken(decoder, ops, codes, [4, 8], True)
    slots, reference = torch.arange(2), slot_decoder(decoder, 2, 12, rounded(plain_codec.OPS))
    assert error(short, reference.decode(codes, slots)) < BOUND
    assert 10 * BOUND < error(short, whole) < 2e-3
    noise = (short - whole).square().mean() / whole.square().mean()
    assert 10 * noise.log10() < -60


def test_what_is_calculated_in_quads() -> None:
    assert in_quads(16, 16 * QUAD_TAPS, QUAD_TAPS, 8)
    for other in ((16, 16 * 5, 5, 8), (16, 16 * QUAD_TAPS, QUAD_TAPS, 0), (24, 16 * QUAD_TAPS, QUAD_TAPS, 8)):
        assert not in_quads(*other)


@pytest.mark.parametrize(
    ("size", "fits"), [(1.0, True), (1e-3, True), (1e-7, False), (1e6, False), (float("nan"), False)]
)
def test_whether_a_matrix_fits_float16(size: float, fits: bool) -> None:
    matrix = size * torch.randn(64, 64, generator=torch.Generator().manual_seed(1))
    assert (halved(matrix.numpy()) is not None) == fits


@pytest.mark.usefixtures("everything_is_large")
def test_what_float16_cannot_hold_stays_float32(ops: CodecOps) -> None:
    decoder = lively(small_shape())
    decoder.transformer.into.weight.data *= 1e7
    codes = random_codes(decoder, 1, 6)
    whole, short = decoder(codes), spoken(decoder, ops, codes, [6], True)
    assert whole.abs().max() > 0 and error(short, whole) < 2e-3


@pytest.mark.slow
def test_released_shapes(threads: Callable[[int], None]) -> None:
    native = tables.compiled().codec
    assert native is not None
    threads(2)
    decoder = lively(released_shape())
    codes = random_codes(decoder, 2, 6)
    whole = decoder(codes)
    for sizes in ([1, 1, 4], [6]):
        assert error(spoken(decoder, native, codes, sizes), whole) < BOUND
    short = spoken(decoder, native, codes, [1, 1, 4], True)
    threads(4)
    assert torch.equal(short, spoken(decoder, native, codes, [6], True))
    noise = (short - whole).square().mean() / whole.square().mean()
    assert 10 * noise.log10() < -60


@pytest.mark.parametrize("in_c", [True, False], ids=["in C", "in Python"])
def test_with_exact_the_sound_does_not_depend_on_chunks_and_neighbours(
    in_c: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every bit: in chunks of any size, whole, and beside another stream."""
    tables.compiled()
    if not in_c:
        monkeypatch.setattr("omnitts_cli.kernels.calls.MOST_TRACKS", 1)
    device, codec = CPUDevice(1), toy().codec
    device.make_exact()
    codes = torch.randint(0, 8, (2, 30, codec.shape.groups), generator=torch.Generator().manual_seed(1))

    def sound(rows: int, sizes: list[int]) -> Tensor:
        decoder, made, at = slot_decoder(codec, 2, 30, device.ops().codec), list[Tensor](), 0
        assert decoder.in_c == in_c
        while at < 30:
            size = sizes[min(len(made), len(sizes) - 1)]
            made.append(decoder.decode(codes[:rows, at : at + size], torch.arange(rows)))
            at += size
        return torch.cat(made, 1)

    with torch.inference_mode():
        whole = sound(1, [30])
        for sizes in ([1], [2], [3], [4], [8], [12], [25], [1, 2, 4, 8, 16]):
            assert torch.equal(sound(1, sizes), whole)
            assert torch.equal(sound(2, sizes)[:1], whole)
