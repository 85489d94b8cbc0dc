"""The codec's Triton kernels against their plain versions."""

from dataclasses import replace

import pytest
import tables
import torch
from codec_case import DEVICE, INTERPRETED, random, small_codec
from hopper import captured as in_a_graph
from torch import Tensor

from omnitts_cli.kernels import plain_codec, tiles
from omnitts_cli.kernels.ops import CodecOps, Product
from omnitts_cli.models.codec_decoder import Code2Wav
from omnitts_cli.models.shapes import Code2WavShape, TransformerShape
from omnitts_cli.models.slot_decoder import slot_decoder

triton = pytest.importorskip("triton")
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not INTERPRETED and not torch.cuda.is_available(), reason="no GPU and no interpreter"),
]
BOUND = 1e-5


@pytest.fixture
def products(monkeypatch: pytest.MonkeyPatch) -> CodecOps:
    """The operations with small tiles, so that small tensors take every path."""
    monkeypatch.setattr(tiles, "TILES", ((32, 32, 32, 4, 3), (16, 32, 32, 4, 3)))
    monkeypatch.setattr(tiles, "NORMED_TILES", ((16, 32, 32, 4, 3),))
    monkeypatch.setattr(tiles, "UNIT_TILES", {64: (32, 32, 4, 3), 32: (32, 16, 4, 3)})
    return ops(torch.float16)


def ops(kind: torch.dtype) -> CodecOps:
    codec = tables.card().codec
    assert codec is not None
    return replace(codec, operand=kind)


def distance(got: Tensor, wanted: Tensor) -> float:
    return float((got.float() - wanted.float()).abs().max() / wanted.float().abs().max())


def layer(
    outputs: int, inputs: int, kind: torch.dtype = torch.float32, taps: int = 1, activation: str = "", **more
) -> Product:
    weight = (random(outputs, taps * inputs) * (taps * inputs) ** -0.5).to(kind)
    counts = torch.zeros(64, dtype=torch.int32, device=DEVICE)
    snake = {"scale": random(outputs, seed=1), "inverse": random(outputs, seed=2)} if activation == "snake" else {}
    return Product(weight, random(outputs, seed=3), taps, activation=activation, counts=counts, **snake, **more)


@pytest.mark.parametrize(
    ("made", "columns", "residual"),
    [
        pytest.param(
            {"outputs": 48, "inputs": 32, "taps": 7, "dilation": 3, "activation": "snake"}, 40, True, id="conv"
        ),
        pytest.param({"outputs": 32, "inputs": 96, "taps": 2}, 5, False, id="rise, shared out"),
        pytest.param({"outputs": 64, "inputs": 64, "activation": "gelu"}, 9, False, id="gelu"),
        pytest.param({"outputs": 64, "inputs": 64, "eps": 1e-5, "activation": "swiglu"}, 9, False, id="norm and gate"),
        pytest.param({"outputs": 32, "inputs": 64, "eps": 1e-5}, 3, True, id="norm and residual"),
        pytest.param({"outputs": 24, "inputs": 24}, 3, False, id="odd sizes go the plain way"),
    ],
)
def test_product(products: CodecOps, made: dict, columns: int, residual: bool) -> None:
    one = layer(**made)
    x = random(2, columns + (one.taps - 1) * one.dilation, made["inputs"])
    outputs = made["outputs"] // (2 if one.activation == "swiglu" else 1)
    results = []
    for product in (plain_codec.product, products.product):
        # out lies in a track, after its history
        track = torch.full((2, 4 + columns, outputs), 7.0, device=DEVICE)
        wide = random(2, columns, made["outputs"], seed=4)
        given = {"before": wide, "residual": wide if residual else None} if one.activation != "swiglu" else {}
        product(x, one, out=track[:, 4:], **given)
        results.append((track, wide))
    for got, wanted in zip(*reversed(results), strict=True):
        assert distance(got, wanted) < BOUND
    assert one.counts is not None
    assert not one.counts.any()


@pytest.mark.parametrize("inputs", [96, 48])
@pytest.mark.parametrize("keep", [True, False])
def test_whole_unit(products: CodecOps, monkeypatch: pytest.MonkeyPatch, inputs: int, keep: bool) -> None:
    monkeypatch.setattr(tiles, "UNIT_ENOUGH", 1)
    kind = torch.float16
    wide = layer(inputs, inputs, kind, taps=7, activation="snake", dilation=3)
    point = layer(inputs, inputs, kind, activation="snake")
    x = random(2, 40 + 18, inputs).to(kind)
    results = []
    for unit in (plain_codec.residual_unit, products.residual_unit):
        residual = random(2, 40, inputs, seed=5).to(kind)
        out = torch.zeros_like(residual)
        unit(x, wide, point, residual, keep, out)
        results.append((residual, out))
    for got, wanted in zip(*reversed(results), strict=True):
        assert distance(got, wanted) < 2e-3  # the step between is rounded to 10 bits


def test_snake_of_large_angles(products: CodecOps) -> None:
    """The sine's angle may be far from zero."""
    one = replace(layer(32, 32, activation="snake"), scale=torch.full((32,), 40.0, device=DEVICE))
    x = 30 * random(1, 16, 32)
    got, wanted = torch.empty_like(x), torch.empty_like(x)
    products.product(x, one, out=got)
    exact = replace(one, **{name: getattr(one, name).double() for name in ("weight", "bias", "scale", "inverse")})
    y = torch.nn.functional.linear(x.double(), exact.weight, exact.bias)
    wanted = plain_codec.snake(y, exact.scale, exact.inverse)
    # an angle of a few thousand has lost four digits before its sine is taken
    assert distance(got, wanted) < 2e-4


def test_half_precision_saturates(products: CodecOps) -> None:
    one = layer(32, 32, torch.float16)
    out = torch.zeros(1, 16, 32, dtype=torch.float16, device=DEVICE)
    products.product((60_000 * random(1, 16, 32).sign()).half(), one, out=out)
    assert out.isfinite().all()
    assert out.abs().max() == 65504


@pytest.mark.parametrize(("kind", "bound"), [(torch.float32, 1e-5), (torch.float16, 4e-3)], ids=str)
def test_streams_are_the_whole(products: CodecOps, kind: torch.dtype, bound: float) -> None:
    made = small_codec().to(DEVICE)
    codes = torch.randint(0, 8, (2, 6, 2), generator=torch.Generator().manual_seed(1)).to(DEVICE)
    streams, slots = slot_decoder(made, 3, 3, ops(kind)), torch.tensor([2, 0], device=DEVICE)
    sound = torch.cat([streams.decode(codes[:, at : at + size], slots) for at, size in ((0, 1), (1, 3), (4, 2))], 1)
    assert distance(sound, made(codes)) < bound


@pytest.mark.parametrize("keeps", [True, False])
def test_new_streams_start_with_zeros(products: CodecOps, keeps: bool) -> None:
    from omnitts_cli.kernels.triton.codec_rest import zero_start

    frames, slots = torch.tensor([0, 3, 0], device=DEVICE), torch.tensor([1, 2], device=DEVICE)
    track, wide = random(2, 50, 48), random(2, 40, 48).half()
    out, wanted = track[:, 10:], [track.clone(), wide.clone()]
    zero_start(frames, slots, 23, out, wide if keeps else None)
    plain_codec.zero_start(frames, slots, 23, wanted[0][:, 10:], wanted[1] if keeps else None)
    assert torch.equal(track, wanted[0]) and torch.equal(wide, wanted[1])
    assert not out[1, :23].any() and out[1, 23:].all() and out[0].all()


@pytest.mark.parametrize(("kind", "bound"), [(torch.float32, 1e-5), (torch.float16, 4e-3)], ids=str)
def test_streams_that_lose_their_first_samples(products: CodecOps, kind: torch.dtype, bound: float) -> None:
    shape = Code2WavShape(
        groups=2,
        codes=8,
        width=192,
        transformer=TransformerShape(32, 32, 1, 1, 32, scale=0.3),
        window=4,
        stretches=(2,),
        rises=(2, 2),
    )
    torch.manual_seed(0)
    made = Code2Wav(shape)
    made.prepare()
    made = made.to(DEVICE)
    codes = torch.randint(0, 8, (2, 6, 2), generator=torch.Generator().manual_seed(1)).to(DEVICE)
    streams, slots = slot_decoder(made, 3, 4, ops(kind)), torch.tensor([2, 0], device=DEVICE)
    old = [streams.decode(codes[:1, :2], slots[:1])]
    both = streams.decode(torch.stack([codes[0, 2:], codes[1, :4]]), slots)
    old.append(both[:1])
    assert distance(torch.cat(old, 1)[:, shape.missing_samples :], made(codes[:1])) < bound
    assert distance(both[1:, shape.missing_samples :], made(codes[1:, :4])) < bound


@pytest.mark.skipif(INTERPRETED, reason="graphs need a GPU")
def test_captured_is_eager() -> None:
    made = small_codec().to(DEVICE)
    codes = torch.randint(0, 8, (2, 3, 2), device=DEVICE)
    eager, captured = (slot_decoder(made, 3, 3, ops(torch.float16)) for _ in range(2))
    slots = torch.tensor([2, 0], device=DEVICE)
    captured.decode(codes, slots)
    sound, graph = in_a_graph(lambda: captured.decode(codes, slots))
    captured.clear(slots)
    for _ in range(3):
        graph.replay()
        assert torch.equal(sound, eager.decode(codes, slots))


@pytest.mark.skipif(INTERPRETED, reason="the interpreter compiles nothing")
def test_ready_compiles_everything_and_runs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    from triton.runtime.jit import JITFunction

    made = small_codec().to(DEVICE)
    streams = slot_decoder(made, 3, 3, ops(torch.float16))
    codes = torch.zeros(2, 3, 2, dtype=torch.int64, device=DEVICE)
    streams.prepare([(3, 2)])
    assert not streams._frames.any()  # type: ignore[attr-defined]
    compiled: list[object] = []
    monkeypatch.setattr(JITFunction, "_do_compile", lambda *given, **more: compiled.append(given))
    streams.decode(codes, torch.tensor([2, 0], device=DEVICE))
    assert not compiled
