"""The family as modules of PyTorch: a config -> modules without weights; filled modules -> a SpeechModel."""

import torch

from omnitts_cli.families.common.parts import Language, Part, Parts
from omnitts_cli.families.common.tokenizer import TextTokenizer
from omnitts_cli.families.qwen3_tts.cloner import Qwen3Cloner
from omnitts_cli.families.qwen3_tts.config import CODEC_FOLDER, Config
from omnitts_cli.families.qwen3_tts.encoders import encoder_names, speaker_names
from omnitts_cli.families.qwen3_tts.family import stored, voice_vectors
from omnitts_cli.families.qwen3_tts.prompt import Qwen3Prompter
from omnitts_cli.kernels import plain
from omnitts_cli.kernels.ops import Ops
from omnitts_cli.models.codec_decoder import CodecDecoder
from omnitts_cli.models.codec_encoder import CodecEncoder
from omnitts_cli.models.embed import TextEmbedder
from omnitts_cli.models.prompts import Place
from omnitts_cli.models.roles import SpeechModel
from omnitts_cli.models.speaker import SpeakerEncoder
from omnitts_cli.text.model_input import text_input_of


def parts(config: Config, ops: Ops = plain.OPS, *, cloning: bool = True) -> Parts:
    """The modules of a config, without weights: nothing large is allocated before the files are checked."""
    with torch.device("meta"):
        text = TextEmbedder(config.text_vocabulary, config.text_width, config.talker.stack.hidden)
        language, decoder = Language(config.talker, config.predictor, text, ops), CodecDecoder(config.decoder)
    known = stored(config)
    (names, _, folder, leftover), (codec_names, _, codec_folder, beside) = known.language, known.decoder
    return Parts(
        Part(language, names, folder, leftover, float32=False),
        Part(decoder, codec_names, codec_folder, beside),
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


def assemble(
    name: str,
    config: Config,
    parts: Parts,
    tokenizer: TextTokenizer,
    place: Place = torch.from_numpy,
    ops: Ops = plain.OPS,
) -> SpeechModel:
    """Filled parts -> the model that the engine runs."""
    tokenizer.input = text_input_of(config.text_input, config.languages)
    language, decoder = parts.language.module, parts.decoder.module
    assert isinstance(language, Language) and isinstance(decoder, CodecDecoder)
    for part in parts.all():
        part.module.eval().requires_grad_(False)
    decoder.prepare()
    language.talker.prepare()
    language.predictor.prepare(language.embedder)
    language.text.prepare(ops, language.talker.head)
    built = (parts.encoder.module, parts.speaker.module) if parts.encoder and parts.speaker else None
    prompter = Qwen3Prompter(config, tokenizer, language.text, language.embedder, place)
    return parts.networks(
        name, config, ops, prompter,
        cloner=Qwen3Cloner(lambda: built, place) if built else None,
        vector_of=voice_vectors(config, language.embedder, place),
    )  # fmt: skip
