"""The family: a config -> modules without numbers and where those are stored; filled modules -> a SpeechModel."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import nn

from omnitts_cli.families.common.family import Family
from omnitts_cli.families.common.fields import Fields
from omnitts_cli.families.common.names import talker_names, text_names
from omnitts_cli.families.common.parts import Language, Part, SkipInit, language_names
from omnitts_cli.families.common.tokenizer import TextTokenizer
from omnitts_cli.families.qwen3_tts import released
from omnitts_cli.families.qwen3_tts.config import CODEC_FOLDER, Config, config_of, read_config
from omnitts_cli.families.qwen3_tts.names.codec import decoder_names, encoder_names
from omnitts_cli.families.qwen3_tts.names.speaker import speaker_names
from omnitts_cli.families.qwen3_tts.prompt import Qwen3Prompter
from omnitts_cli.families.qwen3_tts.voice import Qwen3Cloner
from omnitts_cli.kernels import plain
from omnitts_cli.kernels.ops import Ops
from omnitts_cli.models.codec_decoder import CodecDecoder
from omnitts_cli.models.codec_encoder import CodecEncoder
from omnitts_cli.models.embed import Place, TextEmbedder
from omnitts_cli.models.roles import Facts, SpeechModel
from omnitts_cli.models.speaker import SpeakerEncoder


@dataclass(frozen=True)
class Parts:
    """A model in pieces. The last two are there when the model can clone."""

    language: Part
    decoder: Part
    encoder: Part | None
    speaker: Part | None

    def all(self) -> list[Part]:
        return [part for part in (self.language, self.decoder, self.encoder, self.speaker) if part is not None]


def parts(config: Config, ops: Ops = plain.OPS) -> Parts:
    """The modules of a config, without numbers: nothing large is allocated before the files are compared."""
    with torch.device("meta"), SkipInit():
        text = TextEmbedder(config.text_vocabulary, config.text_width, config.talker.stack.hidden)
        language, decoder = Language(config.talker, config.predictor, text, ops), CodecDecoder(config.decoder)
        encoder = CodecEncoder(config.encoder) if config.encoder else None
        speaker = SpeakerEncoder(config.speaker_encoder) if config.speaker_encoder else None
    names = language_names(config.predictor, talker_names(config.talker), text_names())
    return Parts(
        # fine-tuned folders may or may not have lost the speaker encoder that they no longer use
        Part(language, names, "", ("speaker_encoder.*",), float32=False),
        Part(decoder, decoder_names(config.decoder), CODEC_FOLDER, ("encoder.*",)),
        Part(encoder, encoder_names(config.encoder), CODEC_FOLDER, None) if encoder else None,
        Part(speaker, speaker_names(config.speaker_encoder), "", None) if speaker else None,
    )


def assemble(
    name: str,
    config: Config,
    parts: Parts,
    tokenizer: TextTokenizer,
    place: Place = torch.from_numpy,
    ops: Ops = plain.OPS,
) -> SpeechModel:
    """Filled parts -> the model that the engine runs."""
    language, decoder = parts.language.module, parts.decoder.module
    assert isinstance(language, Language) and isinstance(decoder, CodecDecoder)
    for part in parts.all():
        part.module.eval().requires_grad_(False)
    decoder.prepare()
    language.talker.prepare()
    language.predictor.prepare(language.embedder)
    cloner = None
    if parts.encoder and parts.speaker:
        cloner = Qwen3Cloner(parts.encoder.module, parts.speaker.module, place)
    head = language.talker.head
    return SpeechModel(
        name=name,
        facts=facts(config),
        talker=language.talker,
        predictor=language.predictor,
        embedder=language.embedder,
        codec=decoder,
        prompter=Qwen3Prompter(config, tokenizer, language.text, language.embedder, place),
        cloner=cloner,
        sampling=config.sampling,
        kinds=config.kinds,
        speakers={name: speaker.about for name, speaker in config.speakers.items()},
        languages=config.languages,
        device=head.device,
        dtype=head.dtype,
        ops=ops,
        longest_piece=config.longest_piece,
        plain_letters=config.plain_letters,
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
    parts=parts,
    assemble=assemble,
    voices=lambda config: {name: speaker.about for name, speaker in config.speakers.items()},
    languages=lambda config: config.languages,
    made_up=released.NAMES,
    made_up_config=_made_up_config,
    complete=_complete,
)
