"""The family: a config -> modules without weights, and where weights are stored; filled modules -> a SpeechModel."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import nn

from omnitts_cli.families.common.family import Family
from omnitts_cli.families.common.fields import Fields
from omnitts_cli.families.common.parts import (
    Language,
    Part,
    book_names,
    conv_names,
    language_names,
    talker_names,
    text_names,
    upsampling_names,
)
from omnitts_cli.families.common.tokenizer import TextTokenizer
from omnitts_cli.families.qwen3_tts import released
from omnitts_cli.families.qwen3_tts.cloner import Qwen3Cloner, encoder_names, speaker_names
from omnitts_cli.families.qwen3_tts.config import CODEC_FOLDER, Config, config_of, read_config
from omnitts_cli.families.qwen3_tts.prompt import Qwen3Prompter
from omnitts_cli.kernels import plain
from omnitts_cli.kernels.ops import Ops
from omnitts_cli.models.codec_decoder import CodecDecoder, DecoderShape
from omnitts_cli.models.codec_encoder import CodecEncoder
from omnitts_cli.models.embed import Place, TextEmbedder
from omnitts_cli.models.roles import Facts, SpeechModel
from omnitts_cli.models.sources import Names
from omnitts_cli.models.speaker import SpeakerEncoder
from omnitts_cli.text.model_input import text_input_of


@dataclass(frozen=True)
class Parts:
    """The parts of a model. The last two are set if the model is built for cloning."""

    language: Part
    decoder: Part
    encoder: Part | None
    speaker: Part | None

    def all(self) -> list[Part]:
        return [part for part in (self.language, self.decoder, self.encoder, self.speaker) if part is not None]


def parts(config: Config, ops: Ops = plain.OPS, *, cloning: bool = True) -> Parts:
    """The modules of a config, without weights: nothing large is allocated before the files are checked."""
    with torch.device("meta"):
        text = TextEmbedder(config.text_vocabulary, config.text_width, config.talker.stack.hidden)
        language, decoder = Language(config.talker, config.predictor, text, ops), CodecDecoder(config.decoder)
    names = language_names(config.predictor, talker_names(config.talker), text_names())
    return Parts(
        # fine-tuned folders may or may not have lost the speaker encoder that they no longer use
        Part(language, names, "", ("speaker_encoder.*",), float32=False),
        Part(decoder, decoder_names(config.decoder), CODEC_FOLDER, ("encoder.*",)),
        *(encoders(config) if cloning else (None, None)),
    )


def encoders(config: Config) -> tuple[Part | None, Part | None]:
    """The parts for cloning: the codec's encoder and the speaker encoder."""
    if config.encoder is None or config.speaker_encoder is None:
        return None, None
    with torch.device("meta"):
        encoder, speaker = CodecEncoder(config.encoder), SpeakerEncoder(config.speaker_encoder)
    return (
        Part(encoder, encoder_names(config.encoder), CODEC_FOLDER, None),
        Part(speaker, speaker_names(config.speaker_encoder), "", None),
    )


def cloner(config: Config, filled: Callable[[Part], nn.Module], place: Place) -> Qwen3Cloner | None:
    """A cloner whose encoders are built and `filled` for the first clip; None where the model does not clone."""

    def load() -> tuple[nn.Module, nn.Module]:
        encoder, speaker = encoders(config)
        return filled(encoder), filled(speaker)

    return Qwen3Cloner(load, place) if "cloned" in config.kinds else None


def assemble(
    name: str,
    config: Config,
    parts: Parts,
    tokenizer: TextTokenizer,
    place: Place = torch.from_numpy,
    ops: Ops = plain.OPS,
) -> SpeechModel:
    """Filled parts -> the model that the engine runs."""
    tokenizer.input = text_input_of(config.text_input)
    language, decoder = parts.language.module, parts.decoder.module
    assert isinstance(language, Language) and isinstance(decoder, CodecDecoder)
    for part in parts.all():
        part.module.eval().requires_grad_(False)
    decoder.prepare()
    language.talker.prepare()
    language.predictor.prepare(language.embedder)
    language.text.prepare(ops, language.talker.head)
    built = (parts.encoder.module, parts.speaker.module) if parts.encoder and parts.speaker else None
    head = language.talker.head
    return SpeechModel(
        name=name,
        facts=facts(config),
        talker=language.talker,
        predictor=language.predictor,
        embedder=language.embedder,
        codec=decoder,
        prompter=Qwen3Prompter(config, tokenizer, language.text, language.embedder, place),
        cloner=Qwen3Cloner(lambda: built, place) if built else None,
        sampling=config.sampling,
        kinds=config.kinds,
        speakers={name: speaker.about for name, speaker in config.speakers.items()},
        languages=config.languages,
        device=head.device,
        dtype=language.embedder.first.dtype,
        ops=ops,
        longest_piece=config.longest_piece,
        plain_letters=config.plain_letters,
        obeys_style=config.obeys_style,
        vector_of=partial(vector_of, language.embedder, config) if {"named", "cloned"} <= config.kinds else None,
    )


def vector_of(embedder: nn.Module, config: Config, name: str) -> np.ndarray:
    """The row that stands for a named voice in a prompt: a clone with this vector is that voice."""
    row = torch.tensor([config.speakers[name.lower()].id], device=next(embedder.parameters()).device)
    vector: np.ndarray = embedder.control(row)[0].float().cpu().numpy()
    return vector


def facts(config: Config) -> Facts:
    return Facts(
        groups=config.predictor.groups,
        codes=config.predictor.codes,
        vocabulary=config.talker.vocabulary,
        end_code=config.control.end,
        hidden=config.talker.stack.hidden,
        sample_rate=config.sample_rate,
        samples_per_frame=config.decoder.samples_per_frame,
        max_positions=config.max_positions,
    )


def _made_up_config(file: Path, name: str) -> Config:
    top, codec = Fields(file, released.model_config(name)), Fields(file, released.CODEC_CONFIG)
    return config_of(top, codec, Fields(file, {}))


def _complete(name: str, variant: str | None) -> str:
    """The whole name of a size, such as "0.6b", and a variant."""
    name = f"{name}-{variant or 'custom_voice'}" if name in released.SIZES else name
    return name.replace("_", "")


FAMILY = Family(
    model_type="qwen3_tts",
    read_config=read_config,
    parts=partial(parts, cloning=False),
    assemble=assemble,
    cloner=cloner,
    voices=lambda config: {name: speaker.about for name, speaker in config.speakers.items()},
    languages=lambda config: config.languages,
    made_up=released.NAMES,
    made_up_config=_made_up_config,
    complete=_complete,
)


def decoder_names(shape: DecoderShape, prefix: str = "decoder.") -> Names:
    """Names of the decoder."""
    names: Names = {}
    for ours, theirs, count in (("leading", "rvq_first", 1), ("residual", "rvq_rest", shape.groups - 1)):
        root = f"{prefix}quantizer.{theirs}"
        codebooks = [f"{root}.vq.layers.{i}._codebook" for i in range(count)]
        names |= book_names(ours, root, codebooks, "embedding_sum")
    names |= conv_names("opening.conv", f"{prefix}pre_conv.conv")
    names |= conv_names("transformer.into", f"{prefix}pre_transformer.input_proj")
    names |= conv_names("transformer.out", f"{prefix}pre_transformer.output_proj")
    return names | upsampling_names(shape, prefix)
