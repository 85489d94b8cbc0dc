"""The decoder against the official package, and a stream against the whole."""

from dataclasses import replace

import pytest
import torch
from golden_set import case
from tiny_models import error, make_decoder, random_codes
from torch import Tensor

from omnitts_cli.models.codec_decoder import CodecDecoder

BOUND = 1e-5


def stream(decoder: CodecDecoder, codes: Tensor, sizes: list[int], dtype: torch.dtype = torch.float32) -> Tensor:
    """Decode codes [B, T, G] in chunks of these sizes."""
    state, parts = decoder.initial_state(codes.shape[0], "cpu", dtype), []
    for part in codes.split(sizes, 1):
        sound, state = decoder.step(part, state)
        parts.append(sound)
    return torch.cat(parts, 1)


def test_a_long_clip_in_one_pass(decoder: CodecDecoder) -> None:
    golden = case("codec/decode_340_chunked")
    whole = decoder(golden.tensors["codes"][None])[0]
    assert error(golden.same("wav_single_pass", whole), golden.tensors["wav_single_pass"]) < BOUND


def test_a_step_keeps_the_state_that_it_was_given(decoder: CodecDecoder) -> None:
    codes = random_codes(decoder, 2, 6)
    _, state = decoder.step(codes[:, :3], decoder.initial_state(2, "cpu", torch.float32))
    before = {name: value.clone() for name, value in state.items()}
    first, after = decoder.step(codes[:, 3:], state)
    assert all(torch.equal(state[name], before[name]) for name in before)
    assert torch.equal(decoder.step(codes[:, 3:], state)[0], first)
    assert {n: (v.shape, v.dtype) for n, v in after.items()} == {n: (v.shape, v.dtype) for n, v in state.items()}
    assert all(value.shape[0] == 2 and value.numel() for value in after.values())


@pytest.mark.parametrize("frames", [1, 4])
def test_a_step_reads_no_number_on_the_host(frames: int) -> None:
    """On a device without numbers, any read of a value would raise: what is left can be captured."""
    decoder = make_decoder()
    decoder.prepare()
    decoder = decoder.to("meta")
    codes = torch.zeros(3, frames, decoder.shape.groups, dtype=torch.int64, device="meta")
    sound, _ = decoder.step(codes, decoder.initial_state(3, "meta", torch.float32))
    assert sound.shape == (3, frames * decoder.shape.samples_per_frame)


def test_sound_is_clamped_for_listeners_and_not_for_training() -> None:
    decoder = make_decoder()
    with torch.no_grad():
        decoder.closing.conv.bias += 5.0
        codes = random_codes(decoder, 1, 3)
        assert decoder.sound(decoder.quantiser.decode(codes)).max() > 1.5
        assert decoder(codes).max() == 1.0
        assert decoder.step(codes, decoder.initial_state(1, "cpu", torch.float32))[0].max() == 1.0


def test_gradients_reach_every_weight_that_speaks() -> None:
    decoder = make_decoder().train()
    latent = torch.randn(2, 5, decoder.shape.quantised, generator=torch.Generator().manual_seed(8), requires_grad=True)
    decoder.sound(latent).square().mean().backward()
    assert latent.grad is not None and latent.grad.abs().min() > 0
    silent = [name for name, weight in decoder.named_parameters() if weight.grad is None or not weight.grad.any()]
    assert all(name.startswith("quantiser.") for name in silent), silent


def test_training_again_forgets_what_was_folded() -> None:
    decoder = make_decoder()
    codes = random_codes(decoder, 1, 2)
    decoder.prepare()
    before = decoder(codes)
    decoder.train()
    with torch.no_grad():
        decoder.snake.alpha += 0.5
        assert not torch.allclose(decoder(codes), before, atol=1e-4)


def test_bfloat16_is_close_and_streams(decoder: CodecDecoder) -> None:
    small = make_decoder()
    small.prepare(torch.bfloat16)
    assert small.snake.scale is not None and small.snake.scale.dtype == torch.float32
    assert small.quantiser.leading.books.dtype == torch.float32
    codes = random_codes(decoder, 1, 30)
    exact = decoder(codes)
    for sound in (small(codes), stream(small, codes, [5] * 6, torch.bfloat16)):
        assert sound.dtype == torch.float32
        noise = (sound - exact).square().mean() / exact.square().mean()
        assert noise < 10 ** (-25 / 10), f"{10 * noise.log10():.1f} dB"


def test_other_sizes_follow_from_the_shape(decoder: CodecDecoder) -> None:
    """Another codec: fewer groups, other rates, one stretch, a window of one frame."""
    shape = replace(
        decoder.shape, groups=4, codes=7, stretches=(3,), rises=(5, 2), dilations=(1, 2), window=1, kernel=5
    )
    torch.manual_seed(11)
    other = CodecDecoder(shape).eval().requires_grad_(False)
    assert shape.samples_per_frame == 30
    codes = random_codes(other, 2, 9)
    whole = other(codes)
    assert whole.shape == (2, 270)
    assert error(stream(other, codes, [1, 4, 2, 2]), whole) < BOUND
