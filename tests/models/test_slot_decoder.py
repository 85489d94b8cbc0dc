"""Streams in slots give the sound of the whole, over the decoder's own step and over the table of operations."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
import tables
import torch
from tiny_models import error, lively, random_codes
from torch import Tensor

from omnitts_cli.kernels import plain_codec
from omnitts_cli.kernels.cpu import library
from omnitts_cli.kernels.ops import CodecOps, Product, Unit
from omnitts_cli.models.codec_decoder import CodecDecoder
from omnitts_cli.models.shapes import DecoderShape, TransformerShape
from omnitts_cli.models.slot_decoder import slot_decoder

BOUND = 1e-5
TABLES = [
    pytest.param(None, id="step"),
    pytest.param(plain_codec.OPS, id="tracks"),
    pytest.param(tables.PYTHON.codec, id="cpu"),
    *(pytest.param(tables.native(name).codec, id=name) for name in library.usable()),
]


def other_decoder(stretches: tuple[int, ...]) -> CodecDecoder:
    """Sizes unlike those of the golden codec, no two widths alike, and numbers that make every term count."""
    return lively(
        DecoderShape(
            groups=3,
            codes=16,
            book_width=6,
            quantised=10,
            latent=14,
            width=48,
            transformer=TransformerShape(hidden=12, inner=22, layers=2, heads=3, head_dim=4, scale=0.4),
            window=5,
            stretches=stretches,
            rises=(3, 2),
        )
    )


def spoken(decoder: CodecDecoder, ops: CodecOps | None, codes: Tensor, sizes: list[int]) -> Tensor:
    """Rows of `codes` in slots 3, 0, 2, ... of streams that have spoken before."""
    slots = torch.tensor([3, 0, 2])[: codes.shape[0]]
    streams = slot_decoder(decoder, 5, max(sizes), ops)
    streams.prepare([(size, len(slots)) for size in sizes])
    streams.decode(codes[:, -1:], slots)
    streams.clear(slots)
    return torch.cat([streams.decode(part, slots) for part in codes.split(sizes, 1)], 1)


@pytest.mark.parametrize("ops", TABLES)
@pytest.mark.parametrize("sizes", [[1] * 15, [1, 2, 4, 8], [15], [7, 1, 7]], ids=str)
def test_chunks_are_the_whole(decoder: CodecDecoder, ops: CodecOps | None, sizes: list[int]) -> None:
    codes = random_codes(decoder, 2, sum(sizes))
    assert error(spoken(decoder, ops, codes, sizes), decoder(codes)) < BOUND


@pytest.mark.parametrize("suits", [True, False])
def test_the_end_as_one_operation(decoder: CodecDecoder, suits: bool) -> None:
    """It writes the sound, and of the later tracks only what the next call needs."""
    asked = list[tuple[int, ...]]()

    def close(
        x: Tensor, rise: Product, tracks: Sequence[Tensor], units: Sequence[Unit], weight: Tensor, bias: Tensor,
        sound: Tensor,
    ) -> bool:  # fmt: skip
        asked.append(tuple(sound.shape))
        if suits:
            whole, (rows, columns), channels = [track.clone() for track in tracks], sound.shape, weight.shape[1]
            wide, blocks = torch.empty(rows, columns, channels), (rows, x.shape[1] - rise.taps + 1, -1)
            new = torch.empty_like(wide)
            plain_codec.product(x, rise, before=wide.view(blocks), out=new.view(blocks))
            whole[0][:, whole[0].shape[1] - columns :] = new
            for track, following, (conv, point) in zip(whole[:-1], whole[1:], units, strict=True):
                plain_codec.residual_unit(track, conv, point, wide, True, following[:, following.shape[1] - columns :])
            plain_codec.output_conv(whole[-1], weight, bias, sound)
            for track, made in zip(tracks, whole, strict=True):
                past = track.shape[1] - columns
                track[:, past:] = torch.nan
                track[:, columns:] = made[:, columns:]
        return suits

    ops, codes = replace(plain_codec.OPS, close=close), random_codes(decoder, 2, 15)
    assert error(spoken(decoder, ops, codes, [8, 7]), decoder(codes)) < BOUND
    samples = decoder.shape.samples_per_frame
    assert asked[-2:] == [(2, 8 * samples), (2, 7 * samples)]


@pytest.mark.parametrize("ops", TABLES[1:])
@pytest.mark.parametrize("stretches", [(), (2,), (1, 3), (2, 1)], ids=str)
def test_other_shapes(stretches: tuple[int, ...], ops: CodecOps) -> None:
    decoder = other_decoder(stretches)
    codes = random_codes(decoder, 3, 12)
    assert error(spoken(decoder, ops, codes, [5, 1, 6]), decoder(codes)) < BOUND


@pytest.mark.parametrize("ops", TABLES)
def test_slots_of_different_age_share_a_call(decoder: CodecDecoder, ops: CodecOps | None) -> None:
    codes = random_codes(decoder, 2, decoder.shape.window + 6)
    streams, samples = slot_decoder(decoder, 3, 8, ops), decoder.shape.samples_per_frame
    old, new = torch.tensor([2]), torch.tensor([1])
    for frame in range(0, decoder.shape.window + 2, 2):
        streams.decode(codes[:1, frame : frame + 2], old)
    age = decoder.shape.window + 2
    both = torch.stack([codes[0, age : age + 3], codes[1, :3]])
    sound = streams.decode(both, torch.cat([old, new]))
    assert error(sound[:1], decoder(codes[:1])[:, age * samples : (age + 3) * samples]) < BOUND
    assert error(sound[1:], decoder(codes[1:])[:, : 3 * samples]) < BOUND


@pytest.mark.parametrize("ops", TABLES)
def test_a_broken_stream_leaves_nothing_behind(decoder: CodecDecoder, ops: CodecOps | None) -> None:
    """A slot whose stream went wrong is as good as new after `clear`."""
    codes = random_codes(decoder, 2, 4)
    slots, streams = torch.tensor([0, 1]), slot_decoder(decoder, 2, 4, ops)
    clean = streams.decode(codes, slots)
    for held in vars(streams).values():
        for tensor in held.values() if isinstance(held, dict) else [held]:
            if isinstance(tensor, Tensor) and tensor.is_floating_point() and tensor.shape[0] == 2:
                tensor[0] = float("nan")
    streams.clear(slots)
    assert torch.equal(streams.decode(codes, slots), clean)


def test_halves_are_as_good_as_ten_bits(decoder: CodecDecoder) -> None:
    """float16 has the mantissa of TF32, which is what libraries give convolutions in float32."""
    codes = random_codes(decoder, 2, 12)
    whole = decoder(codes)
    half = spoken(decoder, replace(plain_codec.OPS, operand=torch.float16), codes, [4, 8])
    rough = spoken(decoder, replace(plain_codec.OPS, operand=torch.bfloat16), codes, [4, 8])
    assert 0 < error(half, whole) < 4e-3
    assert error(half, whole) < error(rough, whole) / 2
