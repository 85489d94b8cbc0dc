"""The codec's large products and residual units in CUDA C++ against their plain versions."""

import functools
import re
from collections.abc import Callable
from dataclasses import replace
from types import ModuleType

import pytest
import tables
import torch
from codec_case import halves
from cuda_emulator import EmulatedKernel, in_the_emulator
from hopper import on_hopper, random, relative_error
from precise import without_tf32
from torch import Tensor

from omnitts_cli.kernels import plain_codec
from omnitts_cli.kernels.cuda import codec_tiles
from omnitts_cli.kernels.cuda.codec_tiles import PRODUCTS, UNITS, Kind, order, packed
from omnitts_cli.kernels.ops import Product

KINDS = (*UNITS.values(), *PRODUCTS.values())
NAMES = [f"{kind.taps} taps, {kind.inputs} to {kind.outputs}" for kind in KINDS]
MOST_SHARED = 227 << 10


layer = functools.partial(halves, device="cpu")


@pytest.mark.parametrize("outputs", [96, 128, 192])
def test_order_gives_each_thread_four_neighbours(outputs: int) -> None:
    places = order(outputs)
    assert places.sort().values.tolist() == list(range(outputs))
    # what thread `lane` of four holds of a row: outputs 2 lane and 2 lane + 1 of every eight
    held = places.view(-1, 4, 2).transpose(0, 1).flatten(1).view(4, -1, 4)
    assert (held.diff() == 1).all()
    assert (held[:, :, 0] % 16 == 4 * torch.arange(4)[:, None]).all()  # side by side, they fill lines of 64 bytes


@pytest.mark.parametrize("kind", KINDS, ids=NAMES)
def test_shared_memory_suffices(kind: Kind) -> None:
    assert kind.shared_bytes() <= MOST_SHARED
    assert kind.outputs % kind.tile == kind.tile % 32 == kind.inputs % 16 == 0


@pytest.mark.parametrize(
    ("source", "threads"),
    [("codec_resident.cu", 512), ("codec_stream.cu", 512), ("codec_deep.cu", 384), ("codec_last.cu", 512)],
)
def test_registers_suffice(source: str, threads: int) -> None:
    """A program begins with the same number for all threads; what some give up must suffice for what others take, or
    they wait for ever. The emulator has no registers."""
    text = (codec_tiles.HERE / source).read_text("utf-8")
    (fewer,), (more,) = (
        re.findall(rf"setmaxnreg\.{change}\.sync\.aligned\.u32 (\d+)", text) for change in ("dec", "inc")
    )
    at_first = 65_536 // threads // 8 * 8
    assert 128 * int(fewer) + (threads - 128) * int(more) <= at_first * threads


# ---- in the emulator


@pytest.fixture
def emulated(monkeypatch: pytest.MonkeyPatch) -> Callable[[Kind], EmulatedKernel]:
    """The kernel of a kind."""
    monkeypatch.setattr(codec_tiles, "Kernel", EmulatedKernel)
    return lambda kind: codec_tiles.compiled.__wrapped__(kind, 0)


@in_the_emulator
@pytest.mark.parametrize(
    ("kind", "streams", "blocks", "seed"),
    [
        *(pytest.param(kind, 3, 2, 1, id=f"{name}, 3 streams") for kind, name in zip(KINDS, NAMES, strict=True)),
        *(
            pytest.param(kind, 1, 7, 0, id=f"{name}, 1 stream", marks=[pytest.mark.slow] * (kind is not KINDS[0]))
            for kind, name in zip(KINDS, NAMES, strict=True)
        ),
    ],
)
def test_emulated(
    kind: Kind, streams: int, blocks: int, seed: int, emulated: Callable[[Kind], EmulatedKernel],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """Whole and partial turns, programs that go on to the next stream, threads in turn and in any order."""
    monkeypatch.setattr(EmulatedKernel, "order", seed)
    dilation = 3 if kind.point else 1
    conv = layer(kind.outputs, kind.inputs, kind.taps, dilation)
    point = layer(kind.outputs, kind.outputs) if kind.point else None
    x = random(streams, blocks * 64 + (kind.taps - 1) * dilation, kind.inputs).half()
    wide = random(streams, blocks * 64, kind.outputs, seed=5).half()
    track = torch.full((streams, 8 + blocks * 64, kind.outputs), 7.0).half()
    before, plain_wide, plain_track = track[:, :8].clone(), wide.clone(), track.clone()
    programs = 2 * kind.slices
    codec_tiles.launch(
        emulated(kind),
        kind,
        programs,
        packed(kind, conv, point),
        x,
        dilation,
        wide if kind.adds else None,
        wide,
        track[:, 8:],
    )
    if point is not None:
        plain_codec.residual_unit(x, conv, point, plain_wide, True, plain_track[:, 8:])
    else:
        plain_codec.product(x, conv, plain_wide if kind.adds else None, plain_wide, plain_track[:, 8:])
    assert torch.equal(track[:, :8], before)
    assert relative_error(track, plain_track) < 1e-3
    assert relative_error(wide, plain_wide) < 1e-3


@in_the_emulator
@pytest.mark.parametrize("channels", list(UNITS))
def test_emulated_saturation(channels: int, emulated: Callable[[Kind], EmulatedKernel]) -> None:
    """Residual and output are float16 and stay finite."""
    kind = UNITS[channels]
    conv, point = layer(channels, channels, 7), layer(channels, channels)
    conv = replace(conv, weight=conv.weight * 60000)
    x, wide = random(1, 64 + 6, channels).half(), random(1, 64, channels, seed=5).half()
    out, plain_wide, plain_out = torch.empty_like(wide), wide.clone(), torch.empty_like(wide)
    codec_tiles.launch(emulated(kind), kind, 2 * kind.slices, packed(kind, conv, point), x, 1, wide, wide, out)
    plain_codec.residual_unit(x, conv, point, plain_wide, True, plain_out)
    for got, wanted in ((wide, plain_wide), (out, plain_out)):
        assert got.isfinite().all() and got.abs().max() == 65504
        assert relative_error(got, wanted) < 1e-3


@in_the_emulator
def test_without_the_snake(emulated: Callable[[Kind], EmulatedKernel]) -> None:
    """The last rise writes only its result before the snake."""
    kind, conv = PRODUCTS[2, 192, 288, False], layer(288, 192, 2)
    x = random(2, 2 * 64 + 1, 192).half()
    made, wanted = (torch.full((2, 128, 288), 7.0).half() for _ in range(2))
    codec_tiles.launch(emulated(kind), kind, 2 * kind.slices, packed(kind, conv, None), x, 1, None, made, None)
    plain_codec.product(x, conv, before=wanted)
    assert relative_error(made, wanted) < 1e-3


# ---- on a card


def call(
    module: ModuleType, x: Tensor, conv: Product, point: Product | None, adds: bool, keep: bool
) -> tuple[Tensor, Tensor]:
    """The residual, and the track, whose first eight columns are the past."""
    columns, outputs = x.shape[1] - (conv.taps - 1) * conv.dilation, conv.weight.shape[0]
    wide = random(x.shape[0], columns, outputs, seed=5, device="cuda").half()
    track = torch.full((x.shape[0], 8 + columns, outputs), 7.0, device="cuda").half()
    if point is not None:
        module.residual_unit(x, conv, point, wide, keep, track[:, 8:])
    else:
        module.product(x, conv, wide if adds else None, wide if keep else None, track[:, 8:])
    return wide, track


CASES = [
    pytest.param(kind, dilation, streams, blocks, keep, id=f"{name}, dilation {dilation}, {streams} x {blocks}, {keep}")
    for kind, name in zip(KINDS, NAMES, strict=True)
    for dilation in ((1, 3, 9) if kind.point else (1,))
    for streams, blocks in ((1, 1), (3, 10), (7, 61))
    for keep in (True, False)
]


@on_hopper
@pytest.mark.parametrize(("kind", "dilation", "streams", "blocks", "keep"), CASES)
def test_results(kind: Kind, dilation: int, streams: int, blocks: int, keep: bool) -> None:
    """Any number of blocks of 64 columns, in any number of streams; twice with the same bits."""
    conv = layer(kind.outputs, kind.inputs, kind.taps, dilation, device="cuda")
    point = layer(kind.outputs, kind.outputs, device="cuda") if kind.point else None
    x = random(streams, blocks * 64 + (kind.taps - 1) * dilation, kind.inputs, device="cuda").half()
    got = call(codec_tiles, x, conv, point, kind.adds, keep)
    wanted = call(plain_codec, x, conv, point, kind.adds, keep)
    assert relative_error(got[1][:, 8:], wanted[1][:, 8:]) < 2e-3
    assert torch.equal(got[1][:, :8], wanted[1][:, :8])  # what lies in front is left alone
    if keep:
        assert relative_error(got[0], wanted[0]) < 2e-3
    else:
        assert torch.equal(got[0], wanted[0])
    for mine, again in zip(got, call(codec_tiles, x, conv, point, kind.adds, keep), strict=True):
        assert torch.equal(mine, again)


@on_hopper
def test_the_released_codec() -> None:
    """Large calls of the ordinary kernels, and calls of other sizes: near to float32 on the whole clip."""
    from omnitts_cli.models.slot_decoder import slot_decoder
    from omnitts_cli.settings.engine import EngineSettings
    from omnitts_cli.speech import load

    with without_tf32(), torch.inference_mode():
        name, settings = "random:0.6b-customvoice", EngineSettings(device="cuda", offline=True)
        codec = load.load_model(name, load.device_for(name, settings), settings=settings).codec.cuda()
        codes = torch.randint(0, 2048, (16, 40, 16), generator=torch.Generator().manual_seed(1)).cuda()
        slots, whole = torch.arange(16).cuda(), codec(codes)
        assert whole.std() > 1e-3
        decoder = slot_decoder(codec, 16, 16, tables.card("triton nvrtc").codec)
        for sizes in ((16, 16, 8), (1, 2, 4, 1, 16, 16)):
            decoder.clear(slots)
            sound = torch.cat([decoder.decode(part, slots) for part in codes.split(sizes, 1)], 1)
            assert relative_error(sound, whole) < 2.6e-3, sizes
