"""The family: a config -> modules without numbers and where those are stored; filled modules -> a SpeechModel."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch

from omnitts_cli.families.common.family import Family, ThinkerFamily
from omnitts_cli.families.common.fields import Fields
from omnitts_cli.families.common.names import language_names
from omnitts_cli.families.common.parts import Language, Part
from omnitts_cli.families.common.tokenizer import TextTokenizer
from omnitts_cli.families.qwen3_omni import released
from omnitts_cli.families.qwen3_omni.config import SAMPLE_RATE, Config, config_of, read_config
from omnitts_cli.families.qwen3_omni.names import (
    BESIDE_CODEC,
    BESIDE_LANGUAGE,
    code2wav_names,
    talker_names,
    text_names,
)
from omnitts_cli.families.qwen3_omni.prompt import OmniPrompter
from omnitts_cli.families.qwen3_omni.thinker import (
    assemble_thinker,
    made_up_thinker_config,
    projection_part,
    read_thinker_config,
    thinker_part,
    tower_part,
)
from omnitts_cli.kernels import plain
from omnitts_cli.kernels.ops import Ops
from omnitts_cli.models.codec_decoder import Code2Wav
from omnitts_cli.models.embed import TextEmbedder
from omnitts_cli.models.experts import Experts
from omnitts_cli.models.networks import Networks
from omnitts_cli.models.prompts import Place
from omnitts_cli.models.roles import SpeechModel
from omnitts_cli.models.shapes import Facts


@dataclass(frozen=True)
class Parts:
    """A model in pieces, all of them in the same files. The thinker stays there."""

    language: Part
    decoder: Part

    def all(self) -> list[Part]:
        return [self.language, self.decoder]


def parts(config: Config, ops: Ops = plain.OPS) -> Parts:
    """The modules of a config, without numbers: nothing large is allocated before the files are compared."""
    with torch.device("meta"):
        hidden = config.talker.stack.hidden
        text = TextEmbedder(config.text_vocabulary, config.text_width, hidden, config.text_inner)
        language, codec = Language(config.talker, config.predictor, text, ops), Code2Wav(config.codec)
    names = language_names(config.predictor, talker_names(config.talker), text_names())
    return Parts(
        Part(language, names, "", BESIDE_LANGUAGE, float32=False),
        Part(codec, code2wav_names(config.codec), "", BESIDE_CODEC),
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
    language, codec = parts.language.module, parts.decoder.module
    assert isinstance(language, Language) and isinstance(codec, Code2Wav)
    for part in parts.all():
        part.module.eval().requires_grad_(False)
    for module in language.modules():
        if isinstance(module, Experts):
            module.merge_shared()
    codec.prepare()
    language.text.to_host()
    head = language.talker.head
    return Networks(
        name=name,
        facts=facts(config),
        talker=language.talker,
        predictor=language.predictor,
        embedder=language.embedder,
        codec=codec,
        prompter=OmniPrompter(config, tokenizer, language.text, language.embedder, place),
        cloner=None,
        sampling=config.sampling,
        kinds=frozenset(["named"]),
        speakers=config.about,
        languages=config.languages,
        device=head.device,
        dtype=language.embedder.first.dtype,
        ops=ops,
    )


def facts(config: Config) -> Facts:
    return Facts(
        groups=config.predictor.groups,
        codes=config.predictor.codes,
        vocabulary=config.talker.vocabulary,
        end_code=config.control.end,
        hidden=config.talker.stack.hidden,
        sample_rate=SAMPLE_RATE,
        samples_per_frame=config.codec.samples_per_frame,
        max_positions=config.max_positions,
        missing_samples=config.codec.missing_samples,
        least_frames=0,
    )


def _made_up_config(file: Path, name: str) -> Config:
    return config_of(Fields(file, released.config()), Fields(file, {}))


FAMILY = Family(
    model_type=released.FAMILY,
    read_config=read_config,
    parts=parts,
    assemble=assemble,
    voices=lambda config: config.about,
    languages=lambda config: config.languages,
    made_up=(released.NAME,),
    made_up_config=_made_up_config,
    thinker=ThinkerFamily(
        read_config=read_thinker_config,
        part=thinker_part,
        tower=tower_part,
        projection=projection_part,
        assemble=assemble_thinker,
        made_up=(released.THINKER,),
        made_up_config=made_up_thinker_config,
    ),
)
