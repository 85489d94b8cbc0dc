"""The family: a config -> modules without numbers and where those are stored; filled modules -> a SpeechModel."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from omnitts_cli.families.qwen3_tts.config import CODEC_FOLDER, Config
from omnitts_cli.families.qwen3_tts.names.codec import decoder_names, encoder_names
from omnitts_cli.families.qwen3_tts.names.speaker import speaker_names
from omnitts_cli.families.qwen3_tts.names.talker import embedder_names, predictor_names, prefixed, talker_names
from omnitts_cli.families.qwen3_tts.names.text import text_names
from omnitts_cli.families.qwen3_tts.prompt import Qwen3Prompter
from omnitts_cli.families.qwen3_tts.text import TextTokenizer
from omnitts_cli.families.qwen3_tts.voice import Qwen3Cloner
from omnitts_cli.kernels import plain
from omnitts_cli.kernels.ops import Ops
from omnitts_cli.models.codec_decoder import CodecDecoder
from omnitts_cli.models.codec_encoder import CodecEncoder
from omnitts_cli.models.embed import FrameEmbedder
from omnitts_cli.models.predictor import Predictor, PredictorShape
from omnitts_cli.models.prompt_rows import Place
from omnitts_cli.models.roles import Facts, SpeechModel
from omnitts_cli.models.sources import Names
from omnitts_cli.models.speaker import SpeakerEncoder
from omnitts_cli.models.talker import Talker, TalkerShape
from omnitts_cli.models.text_rows import TextEmbedder

HEAD = "talker.codec_head.weight"
"""A large tensor of the language side: the format it is stored in is the format of them all."""


class Language(nn.Module):
    """Everything between text and codes: the modules that share one number format."""

    def __init__(self, talker: TalkerShape, predictor: PredictorShape, text: TextEmbedder, ops: Ops) -> None:
        super().__init__()
        self.talker = Talker(talker, ops)
        self.predictor = Predictor(predictor, ops)
        self.embedder = FrameEmbedder(talker.vocabulary, predictor.groups, predictor.codes, talker.stack.hidden)
        self.text = text


@dataclass(frozen=True)
class Part:
    """A module and the tensors that fill it. `leftover`: names in the same file that belong to other parts."""

    module: nn.Module
    names: Names
    folder: str  # inside the model folder
    leftover: tuple[str, ...] | None
    float32: bool = True


@dataclass(frozen=True)
class Parts:
    """A model in pieces. The last two are there when the model can clone."""

    language: Part
    decoder: Part
    encoder: Part | None
    speaker: Part | None

    def all(self) -> list[Part]:
        return [part for part in (self.language, self.decoder, self.encoder, self.speaker) if part is not None]


class NoNumbers(TorchFunctionMode):
    """Skips first values: on "meta" there is nothing to fill, and asking for it imports torch's compiler, 3 s."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if getattr(func, "__module__", None) == nn.init.__name__:
            return args[0] if args else (kwargs or {})["tensor"]
        if func is torch.randn:
            func = torch.empty
        return func(*args, **(kwargs or {}))


def parts(config: Config, ops: Ops = plain.OPS) -> Parts:
    """The modules of a config, without numbers: nothing large is allocated before the files are compared."""
    with torch.device("meta"), NoNumbers():
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


def language_names(predictor: PredictorShape, talker: Names, text: Names) -> Names:
    """The rename table of `Language`."""
    return (
        prefixed("talker", talker)
        | prefixed("predictor", predictor_names(predictor))
        | prefixed("embedder", embedder_names(predictor.groups))
        | prefixed("text", text)
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
    )


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
