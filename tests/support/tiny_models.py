"""Models and parts of the tiny golden checkpoints, loaded the way families load them, without an engine."""

import functools
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from golden_set import checkpoint
from torch import Tensor

from omnitts_cli.families.common.fields import Fields
from omnitts_cli.families.common.parts import Parts
from omnitts_cli.families.common.tokenizer import read_tokenizer
from omnitts_cli.families.qwen3_omni.prompt import OmniPrompter
from omnitts_cli.families.qwen3_tts.config import Config, decoder_shape, read_config
from omnitts_cli.families.qwen3_tts.family import decoder_names
from omnitts_cli.families.qwen3_tts.modules import assemble, parts
from omnitts_cli.kernels import plain
from omnitts_cli.kernels.ops import Ops
from omnitts_cli.models.codec_decoder import CodecDecoder
from omnitts_cli.models.roles import SpeechModel
from omnitts_cli.models.shapes import DecoderShape
from omnitts_cli.voices import Cloned
from omnitts_cli.weights.checkpoint import Checkpoint
from omnitts_cli.weights.load import fill


def filled(folder: Path, config: Config, ops: Ops = plain.OPS) -> Parts:
    pieces = parts(config, ops)
    for part in pieces.all():
        files = Checkpoint.open(folder / part.folder)
        fill(part.module, part.names, files, "cpu", torch.float32, unused=part.leftover)
    return pieces


@functools.cache
def tiny_model(name: str, ops: Ops = plain.OPS) -> SpeechModel:
    """A golden checkpoint as a SpeechModel in float32; shared, so leave it as it is."""
    folder = checkpoint(name)
    config = read_config(folder)
    tokenizer = read_tokenizer(folder, config.text_vocabulary)
    return assemble(name, config, filled(folder, config, ops), tokenizer, ops=ops)


def a_clone(frames: int | None = None, transcript: str | None = "hello.", seed: int = 0) -> Cloned:
    """A made-up cloned voice for models with 64 codes in 16 groups and a width of 64."""
    rng = np.random.default_rng(seed)
    embedding = rng.standard_normal(64).astype(np.float32)
    if frames is None:
        return Cloned(embedding)
    return Cloned(embedding, rng.integers(0, 64, (frames, 16)), transcript)


@functools.cache
def language(name: str) -> Any:
    """Talker, predictor and embedder of a tiny checkpoint, not prepared, by its name. Do not change them."""
    folder = checkpoint(name)
    part = parts(read_config(folder)).language
    fill(part.module, part.names, Checkpoint.open(folder), "cpu", torch.float32, unused=part.leftover)
    return part.module.eval().requires_grad_(False)


def _codec() -> tuple[Checkpoint, Fields, int, int]:
    folder = checkpoint("base") / "speech_tokenizer"
    fields = Fields(folder, json.loads((folder / "config.json").read_text()))
    decoder = fields.values["decoder_config"]
    return Checkpoint.open(folder), fields, decoder["num_quantizers"], decoder["codebook_size"]


def make_decoder() -> CodecDecoder:
    """A fresh decoder each time, with the numbers of the tiny codec, not prepared."""
    files, *config = _codec()
    shape = decoder_shape(*config)
    with torch.device("meta"):
        made = CodecDecoder(shape)
    fill(made, decoder_names(shape), files, "cpu", torch.float32, unused=("encoder.*",))
    return made


def lively(shape: DecoderShape) -> CodecDecoder:
    """A prepared decoder of this shape, with numbers that make every term count."""
    decoder, generator = CodecDecoder(shape), torch.Generator().manual_seed(7)
    for name, weight in decoder.named_parameters():
        if weight.dim() == 1 and "scale" not in name:
            weight.data += 0.3 * torch.randn(weight.shape, generator=generator)
    decoder.prepare()
    return decoder


def random_codes(decoder: CodecDecoder, rows: int, frames: int) -> Tensor:
    """Codes [rows, frames, groups], the same for the same numbers."""
    generator = torch.Generator().manual_seed(rows + frames)
    return torch.randint(0, decoder.shape.codes, (rows, frames, decoder.shape.groups), generator=generator)


def error(got: Tensor, wanted: Tensor) -> float:
    """Largest difference, relative to the largest wanted value."""
    assert got.shape == wanted.shape
    return float((got - wanted).abs().max() / wanted.abs().max())


def near(ours: Tensor, theirs: Tensor) -> bool:
    """Equal up to the rounding of float32 products of other shapes."""
    return ours.shape == theirs.shape and bool((ours - theirs).abs().max() <= 1e-5 * theirs.abs().max())


def with_turn(model: SpeechModel, user_turn: str | None) -> OmniPrompter:
    """The second family's prompter with another user turn."""
    its: Any = model.prompter
    return OmniPrompter(its._config, its._tokenizer, its._text, its._frames, user_turn=user_turn)
