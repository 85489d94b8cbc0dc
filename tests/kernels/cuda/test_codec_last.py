"""The end of the codec in one CUDA kernel against plain operations, in the emulator and on a card."""

from dataclasses import replace

import pytest
import tables
import torch
from cuda_emulator import EmulatedKernel, in_the_emulator
from hopper import on_hopper, random, relative_error
from torch import Tensor

from omnitts_cli.kernels import calls, plain_codec
from omnitts_cli.kernels.cuda import codec_last
from omnitts_cli.kernels.cuda.codec_last import COLUMNS, DILATIONS, prepared, shared_bytes, suits
from omnitts_cli.kernels.ops import Product, Unit

PASTS = 6, 18, 54, 6
"""Columns of history of the three units and of the closing convolution."""


def layer(inputs: int, seed: int, dilation: int, device: str) -> Product:
    weight = (random(96, inputs, seed=seed, device=device) * inputs**-0.5).half()
    bias, scale, inverse = (random(96, seed=seed + i, device=device) for i in (1, 2, 3))
    return Product(weight, bias, inputs // 96, dilation, None, "snake", scale.abs(), inverse.abs())


def units(device: str = "cpu") -> list[Unit]:
    return [(layer(7 * 96, 10 * d, d, device), layer(96, 10 * d + 5, 1, device)) for d in DILATIONS]


def rise(device: str = "cpu") -> Product:
    """The last rise, with a rate of 3."""
    weight = (random(288, 384, device=device) * 384**-0.5).half()
    scale, inverse = (random(96, seed=seed, device=device).abs().repeat(3) for seed in (7, 8))
    return Product(weight, random(288, seed=9, device=device), 2, 1, None, "snake", scale, inverse)


def closing(device: str = "cpu") -> tuple[Tensor, Tensor]:
    return 0.03 * random(7, 96, device=device), 0.1 * random(1, device=device)


def inputs(streams: int, columns: int, device: str = "cpu") -> tuple[list[Tensor], Tensor]:
    """Tracks that contain only their history, and the residual."""
    tracks = [torch.full((streams, past + columns, 96), torch.nan, device=device).half() for past in PASTS]
    for at, (track, past) in enumerate(zip(tracks, PASTS, strict=True)):
        track[:, :past] = random(*track.shape, seed=at, device=device)[:, :past]
    return tracks, random(streams, columns, 96, seed=1, device=device).half()


def plain(tracks: list[Tensor], layers: list[Unit], residual: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    first, wide = rise(str(residual.device)), residual.float()
    assert first.scale is not None and first.inverse is not None
    tracks[0][:, PASTS[0] :] = plain_codec.snake(wide, first.scale[:96], first.inverse[:96])
    sound = wide.new_empty(residual.shape[:2])
    for at, (conv, point) in enumerate(layers):
        plain_codec.residual_unit(tracks[at], conv, point, wide, True, tracks[at + 1][:, PASTS[at + 1] :])
    plain_codec.output_conv(tracks[3], weight, bias, sound)
    return sound


def check(before: list[Tensor], after: list[Tensor], sound: Tensor, wanted: Tensor, whole: list[Tensor]) -> None:
    """The sound and what the next call needs are right, and the rest is as it was."""
    assert relative_error(sound, wanted) < 1e-3
    for at, past in enumerate(PASTS):
        assert relative_error(after[at][:, -past:], whole[at][:, -past:]) < 1e-3
        assert after[at][:, past:-past].isnan().all()
        assert torch.equal(after[at][:, :past], before[at][:, :past])


def test_shared_memory_suffices() -> None:
    assert shared_bytes() <= 227 << 10


def test_layers_that_do_not_suit() -> None:
    first, layers, (weight, _) = rise(), units(), closing()
    assert suits(first, layers, weight)
    assert not suits(replace(first, activation=""), layers, weight)
    assert not suits(first, layers[:2], weight)
    assert not suits(first, layers[::-1], weight)
    assert not suits(first, layers, weight[:5])
    assert not suits(first, [*layers[:2], (layers[2][0], replace(layers[2][1], activation=""))], weight)


@in_the_emulator
@pytest.mark.parametrize(("streams", "turns", "programs", "seed"), [(1, 2, 2, 0), (2, 3, 4, 1), (3, 1, 2, 2)])
def test_emulated(streams: int, turns: int, programs: int, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs that begin at the beginning of a stream and within one, that go on to the next one, and idle ones."""
    monkeypatch.setattr(codec_last, "Kernel", EmulatedKernel)
    monkeypatch.setattr(EmulatedKernel, "order", seed)
    kernels = codec_last.compiled.__wrapped__(0)
    assert kernels is not None
    layers, (weight, bias) = units(), closing()
    tracks, residual = inputs(streams, turns * COLUMNS)
    before, whole = [track.clone() for track in tracks], [track.clone() for track in tracks]
    sound = torch.full(residual.shape[:2], 9.0)
    codec_last.launch(kernels, programs, tracks, prepared(rise(), layers, weight), residual, weight, bias, sound)
    check(before, tracks, sound, plain(whole, layers, residual, weight, bias), whole)


@in_the_emulator
def test_bits_do_not_depend_on_the_other_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stream alone in a call, beside another one, and in two calls of which the second has the first's history."""
    monkeypatch.setattr(codec_last, "Kernel", EmulatedKernel)
    kernels = codec_last.compiled.__wrapped__(0)
    assert kernels is not None
    layers, (weight, bias) = units(), closing()

    def call(tracks: list[Tensor], residual: Tensor, programs: int) -> Tensor:
        sound = torch.full(residual.shape[:2], 9.0)
        codec_last.launch(kernels, programs, tracks, prepared(rise(), layers, weight), residual, weight, bias, sound)
        return sound

    tracks, residual = inputs(2, 3 * COLUMNS)
    alone = [track[:1].clone() for track in tracks]
    first = [track[:1, : past + COLUMNS].clone() for track, past in zip(tracks, PASTS, strict=True)]
    second = [track[:1, : past + 2 * COLUMNS].clone() for track, past in zip(tracks, PASTS, strict=True)]
    together = call(tracks, residual, 4)[:1]
    assert torch.equal(call(alone, residual[:1].contiguous(), 2), together)
    begun = call(first, residual[:1, :COLUMNS].contiguous(), 2)
    for after, before, past in zip(second, first, PASTS, strict=True):
        after[:, :past] = before[:, -past:]
    assert torch.equal(torch.cat([begun, call(second, residual[:1, COLUMNS:].contiguous(), 2)], 1), together)


@on_hopper
@pytest.mark.parametrize(("streams", "frames"), [(32, 16), (16, 16), (24, 8), (16, 8), (7, 8), (32, 2), (1, 16)])
def test_on_a_card(streams: int, frames: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last rise and the end of the codec. A second call gives the same bits."""
    monkeypatch.setattr(calls, "CODEC_LAST", 1)
    ops = tables.card("triton nvrtc").codec
    assert ops is not None and ops.close is not None
    first, layers, (weight, bias) = rise("cuda"), units("cuda"), closing("cuda")
    columns = frames * 640
    tracks, residual = inputs(streams, 3 * columns, "cuda")
    x = random(streams, columns + 1, 192, device="cuda").half()
    before, whole = [track.clone() for track in tracks], [track.clone() for track in tracks]
    again = [track.clone() for track in tracks]
    sound, repeated = (torch.full(residual.shape[:2], 9.0, device="cuda") for _ in range(2))
    for these, made in ((tracks, sound), (again, repeated)):
        assert ops.close(x, first, these, layers, weight, bias, made)
    plain_codec.product(x, first, before=residual.view(streams, columns, -1))
    check(before, tracks, sound, plain(whole, layers, residual, weight, bias), whole)
    assert torch.equal(sound, repeated)
    assert all(torch.equal(a.nan_to_num(9), b.nan_to_num(9)) for a, b in zip(tracks, again, strict=True))


@on_hopper
def test_calls_that_do_not_suit() -> None:
    first, layers, (weight, bias) = rise("cuda"), units("cuda"), closing("cuda")
    for streams, columns in ((1, COLUMNS), (128, 1024)):  # too few; not whole turns
        tracks, residual = inputs(streams, columns, "cuda")
        sound = torch.empty(residual.shape[:2], device="cuda")
        close = tables.card("triton nvrtc").codec.close
        assert close(residual, first, tracks, layers, weight, bias, sound) is None
