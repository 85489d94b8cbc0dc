"""Code2Wav: the same sound whole and in pieces of any size. The official one: families/qwen3_omni/test_equal.py."""

from dataclasses import replace

import pytest
import tables
import torch
from golden_set import omni_folder
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_models import near
from torch import Tensor

from omnitts_cli.families.qwen3_omni.names import BESIDE_CODEC, code2wav_names
from omnitts_cli.kernels import plain_codec
from omnitts_cli.kernels.ops import CodecOps
from omnitts_cli.models.codec_decoder import Code2Wav
from omnitts_cli.models.shapes import Code2WavShape, TransformerShape
from omnitts_cli.models.slot_decoder import slot_decoder
from omnitts_cli.weights.checkpoint import Checkpoint
from omnitts_cli.weights.load import fill

SHAPE = Code2WavShape(
    groups=16,
    codes=64,
    width=48,
    transformer=TransformerShape(hidden=32, inner=48, layers=2, heads=4, head_dim=8),
    window=12,
    stretches=(2, 2),
    rises=(8, 5, 4, 3),
)


@pytest.fixture(scope="module")
def codec() -> Code2Wav:
    made = Code2Wav(SHAPE)
    fill(made, code2wav_names(SHAPE), Checkpoint.open(omni_folder()), "cpu", torch.float32, unused=BESIDE_CODEC)
    made.prepare()
    return made


@pytest.fixture(scope="module")
def codes() -> Tensor:
    return torch.randint(0, SHAPE.codes, (1, 40, SHAPE.groups), generator=torch.Generator().manual_seed(4))


def streamed(codec: Code2Wav, codes: Tensor, sizes: list[int]) -> Tensor:
    """Chunks of `sizes`, the last size again and again, without what stands for nothing: [B, samples]."""
    state, chunks, at = codec.initial_state(len(codes), "cpu", torch.float32), [], 0
    while at < codes.shape[1]:
        size = sizes[min(len(chunks), len(sizes) - 1)]
        sound, state = codec.step(codes[:, at : at + size], state)
        chunks.append(sound)
        at += size
    return torch.cat(chunks, 1)[:, SHAPE.missing_samples :]


def test_samples_are_counted_from_the_rates() -> None:
    assert (SHAPE.samples_per_frame, SHAPE.cuts, SHAPE.missing_samples) == (1920, (8, 45, 184, 555), 555)
    assert replace(SHAPE, rises=(3, 2)).cuts == (3, 8)


@settings(max_examples=8, deadline=None)
@given(sizes=st.lists(st.integers(1, 9), min_size=1, max_size=6))
def test_any_pieces_give_the_same_sound(codec: Code2Wav, codes: Tensor, sizes: list[int]) -> None:
    assert near(streamed(codec, codes[:, :20], sizes), codec(codes[:, :20]))


def test_one_frame_is_shorter_by_what_is_missing(codec: Code2Wav, codes: Tensor) -> None:
    sound = codec(codes[:, :1])
    assert sound.shape == (1, 1365)
    assert near(codec(codes)[:, : 1920 - 555], sound)


@pytest.mark.parametrize(
    "ops",
    [
        pytest.param(None, id="step"),
        pytest.param(plain_codec.OPS, id="tracks"),
        pytest.param(tables.PYTHON.codec, id="cpu"),
    ],
)
def test_new_and_old_streams_share_a_step(codec: Code2Wav, codes: Tensor, ops: CodecOps | None) -> None:
    """A row that begins has silence before it; its neighbour, in the middle of its sound, loses nothing."""
    streams, slots = slot_decoder(codec, 3, 4, ops), torch.tensor([2, 0])
    old, new = codes[:, :8], codes[:, 20:24]
    first = streams.decode(old[:, :4], slots[1:])
    both = streams.decode(torch.cat([new, old[:, 4:]]), slots)
    assert both.shape == (2, 4 * 1920)
    assert near(both[:1, 555:], codec(new))
    assert near(torch.cat([first, both[1:]], 1)[:, 555:], codec(old))
    streams.clear(slots[:1])
    sound = streams.decode(new, slots[:1])
    assert near(sound[:, 555:], codec(new)) and not sound[:, :555].any()
