"""The encoder against the official package: latents within rounding, codes exactly."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from golden_set import case
from tiny_models import error
from torch import Tensor, nn

from omnitts_cli.models.codec_encoder import CodecEncoder

soxr = pytest.importorskip("soxr")

BOUND = 1e-5


def test_every_stage(encoder: CodecEncoder) -> None:
    golden = case("codec/encode_24k").tensors
    stages: dict[str, Tensor] = {}

    def listen(name: str) -> Callable[..., None]:
        def hook(_module: nn.Module, _given: object, made: Tensor) -> None:
            stages[name] = made

        return hook

    modules = {"conv": encoder.closing, "transformer": encoder.transformer, "downsample": encoder.last_fall}
    handles = [module.register_forward_hook(listen(name)) for name, module in modules.items()]
    codes = encoder(golden["audio"][None])[0]
    for handle in handles:
        handle.remove()
    assert max(error(stages[name], golden[name]) for name in modules) < BOUND
    assert torch.equal(codes, golden["codes"])
    assert torch.equal(codes, golden["codes_all_quantizers"][:, : encoder.shape.groups])


def test_the_transformer_attends_to_a_long_clip_from_its_start(encoder: CodecEncoder) -> None:
    """14 s are more steps than the window in the published config, which the official package does not apply."""
    golden = case("codec/encode_14s").tensors
    made: list[Tensor] = []
    handle = encoder.transformer.register_forward_hook(lambda _module, _given, out: made.append(out))
    codes = encoder(golden["audio"][None])[0]
    handle.remove()
    assert error(made[0], golden["transformer"]) < BOUND
    assert torch.equal(codes, golden["codes"])


def test_clips_of_a_batch_one_by_one(encoder: CodecEncoder) -> None:
    """The official package encoded both at once; only the shorter clip's last, partial frame is another alone."""
    golden = case("codec/encode_batch").tensors
    short, long = (encoder(golden[f"audio.{i}"][None])[0] for i in (0, 1))
    assert torch.equal(long, golden["codes.1"])
    assert torch.equal(short[:-1], golden["codes.0"][:-1])
    assert len(short) == len(golden["codes.0"]) and len(golden["audio.0"]) % encoder.shape.samples_per_frame


CLONES = [
    "base/icl_stream_text_longer", "base/icl_stream_codec_longer", "base/icl_nonstream", "base/icl_16k_reference",
    "base/batch_mixed_stream",
]  # fmt: skip


@pytest.mark.parametrize("name", CLONES)
def test_references_of_clones(encoder: CodecEncoder, name: str) -> None:
    golden = case(name).tensors
    clips = [key.removesuffix(".codes") for key in golden if key.endswith(".codes")]
    assert clips
    for clip in clips:
        sound = golden[f"{clip}.audio"]
        if name.endswith("16k_reference"):
            sound = torch.from_numpy(soxr.resample(sound.numpy(), 16_000, 24_000, quality="HQ"))
        assert torch.equal(encoder(sound[None])[0], golden[f"{clip}.codes"])


@pytest.mark.parametrize("samples", [1, 959, 1920, 1921, 3840])
def test_a_started_frame_counts(encoder: CodecEncoder, samples: int) -> None:
    frame = encoder.shape.samples_per_frame
    assert frame == 1920
    assert encoder(torch.zeros(2, samples)).shape == (2, -(-samples // frame), encoder.shape.groups)


def test_other_sizes_follow_from_the_shape_and_learn(encoder: CodecEncoder) -> None:
    torch.manual_seed(0)
    shape = replace(encoder.shape, groups=3, codes=5, falls=(2, 5), last_fall=3, dilations=(1, 2))
    other = CodecEncoder(shape)
    assert shape.samples_per_frame == 30
    other.latent(torch.randn(2, 95)).square().mean().backward()
    still = [name for name, weight in other.named_parameters() if weight.grad is None or not weight.grad.any()]
    assert all(name.startswith("quantiser.") for name in still), still
    assert other(torch.randn(2, 95)).shape == (2, 4, 3)
