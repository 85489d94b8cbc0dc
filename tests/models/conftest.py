"""Codec and speaker encoder of the tiny golden checkpoints, loaded the way families load them."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from omnitts_cli.families.qwen3_tts.config import read_config
from omnitts_cli.families.qwen3_tts.family import parts
from omnitts_cli.families.qwen3_tts.names.codec import decoder_names, encoder_names
from omnitts_cli.families.qwen3_tts.names.speaker import speaker_names
from omnitts_cli.models.codec_decoder import CodecDecoder, DecoderShape
from omnitts_cli.models.codec_encoder import CodecEncoder, EncoderShape
from omnitts_cli.models.codec_transformer import TransformerShape
from omnitts_cli.models.speaker import SpeakerEncoder, SpeakerShape
from omnitts_cli.weights.checkpoint import Checkpoint
from omnitts_cli.weights.load import fill


def _transformer(config: dict[str, Any], eps: str) -> TransformerShape:
    keys = ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "head_dim")
    return TransformerShape(*(config[key] for key in keys), eps=config[eps], rope_theta=config["rope_theta"])


@pytest.fixture(scope="session")
def make_decoder(checkpoint: Callable[[str], Path]) -> Callable[[], CodecDecoder]:
    """A fresh decoder each time, with the numbers of the tiny codec, not prepared."""

    def make() -> CodecDecoder:
        folder = checkpoint("base") / "speech_tokenizer"
        config = json.loads((folder / "config.json").read_text())["decoder_config"]
        shape = DecoderShape(
            groups=config["num_quantizers"],
            codes=config["codebook_size"],
            book_width=config["codebook_dim"] // 2,
            quantised=config["codebook_dim"],
            latent=config["latent_dim"],
            width=config["decoder_dim"],
            transformer=_transformer(config, "rms_norm_eps"),
            window=config["sliding_window"],
            stretches=tuple(config["upsampling_ratios"]),
            rises=tuple(config["upsample_rates"]),
        )
        with torch.device("meta"):
            decoder = CodecDecoder(shape)
        fill(decoder, decoder_names(shape), Checkpoint.open(folder), "cpu", torch.float32, unused=("encoder.*",))
        return decoder

    return make


@pytest.fixture(scope="session")
def decoder(make_decoder: Callable[[], CodecDecoder]) -> CodecDecoder:
    """Prepared in float32. Do not change it."""
    made = make_decoder()
    made.prepare()
    return made


@pytest.fixture(scope="session")
def encoder(checkpoint: Callable[[str], Path]) -> CodecEncoder:
    folder = checkpoint("base") / "speech_tokenizer"
    config = json.loads((folder / "config.json").read_text())
    heard = config["encoder_config"]
    shape = EncoderShape(
        groups=config["encoder_valid_num_quantizers"],
        codes=heard["codebook_size"],
        book_width=heard["codebook_dim"],
        filters=heard["num_filters"],
        falls=tuple(reversed(heard["upsampling_ratios"])),
        transformer=_transformer(heard, "norm_eps"),
    )
    with torch.device("meta"):
        made = CodecEncoder(shape)
    fill(made, encoder_names(shape), Checkpoint.open(folder), "cpu", torch.float32, unused=None)
    return made.eval().requires_grad_(False)


@pytest.fixture(scope="session")
def speaker_encoder(checkpoint: Callable[[str], Path]) -> Callable[[str], SpeakerEncoder]:
    """The speaker encoder of a checkpoint, by its name."""

    def make(name: str) -> SpeakerEncoder:
        folder = checkpoint(name)
        config = json.loads((folder / "config.json").read_text())["speaker_encoder_config"]
        shape = SpeakerShape(
            embedding=config["enc_dim"],
            channels=tuple(config["enc_channels"]),
            gate=config["enc_se_channels"],
            attention=config["enc_attention_channels"],
        )
        with torch.device("meta"):
            made = SpeakerEncoder(shape)
        fill(made, speaker_names(shape), Checkpoint.open(folder), "cpu", torch.float32, unused=None)
        return made.eval().requires_grad_(False)

    return make


@pytest.fixture(scope="session")
def error() -> Callable[[Tensor, Tensor], float]:
    """Largest difference, relative to the largest wanted value."""

    def measure(got: Tensor, wanted: Tensor) -> float:
        assert got.shape == wanted.shape
        return float((got - wanted).abs().max() / wanted.abs().max())

    return measure


@pytest.fixture(scope="session")
def language(checkpoint: Callable[[str], Path]) -> Callable[[str], Any]:
    """Talker, predictor and embedder of a tiny checkpoint, not folded, by its name. Do not change them."""

    @cache
    def make(name: str) -> Any:
        folder = checkpoint(name)
        part = parts(read_config(folder)).language
        fill(part.module, part.names, Checkpoint.open(folder), "cpu", torch.float32, unused=part.leftover)
        return part.module.eval().requires_grad_(False)

    return make
