"""The family: a config -> modules without numbers and where those are stored; filled modules -> a SpeechModel."""

from pathlib import Path

import torch

from omnitts_cli.families.common.family import Family
from omnitts_cli.families.common.fields import Fields
from omnitts_cli.families.common.names import language_names
from omnitts_cli.families.common.parts import Language, Part, Parts
from omnitts_cli.families.common.tokenizer import TextTokenizer
from omnitts_cli.families.qwen3_omni import released
from omnitts_cli.families.qwen3_omni.config import Config, config_of, read_config
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
    read_thinker_config,
    thinker_parts,
)
from omnitts_cli.kernels import plain
from omnitts_cli.kernels.ops import Ops
from omnitts_cli.models.codec_decoder import Code2Wav
from omnitts_cli.models.embed import TextEmbedder
from omnitts_cli.models.experts import Experts
from omnitts_cli.models.prompts import Place
from omnitts_cli.models.roles import SpeechModel


def parts(config: Config, ops: Ops = plain.OPS) -> Parts:
    """The modules of a config, without numbers: nothing large is allocated before the files are compared."""
    with torch.device("meta"):
        hidden = config.talker.stack.hidden
        text = TextEmbedder(config.text_vocabulary, config.text_width, hidden, config.text_inner)
        language, codec = Language(config.talker, config.predictor, text, ops), Code2Wav(config.decoder)
    names = language_names(config.predictor, talker_names(config.talker), text_names())
    return Parts(
        Part(language, names, "", BESIDE_LANGUAGE, float32=False),
        Part(codec, code2wav_names(config.decoder), "", BESIDE_CODEC),
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
    prompter = OmniPrompter(config, tokenizer, language.text, language.embedder, place)
    return parts.networks(name, config, ops, prompter)


def _made_up_config(file: Path, name: str) -> Config:
    return config_of(Fields(file, released.config()), Fields(file, {}))


FAMILY = Family(
    model_type=released.FAMILY,
    read_config=read_config,
    parts=parts,
    assemble=assemble,
    made_up=(released.NAME,),
    made_up_config=_made_up_config,
    thinker=Family(
        model_type=released.FAMILY,
        read_config=read_thinker_config,
        parts=thinker_parts,
        assemble=assemble_thinker,
        made_up=(released.THINKER,),
        made_up_config=lambda file, name: made_up_thinker_config(file),
    ),
)
