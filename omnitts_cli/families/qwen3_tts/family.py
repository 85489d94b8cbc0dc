"""The family: a config, where weights are stored, and what makes a SpeechModel of them. Does not import torch."""

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from omnitts_cli.families.common.family import Family, Stored
from omnitts_cli.families.common.fields import Fields
from omnitts_cli.families.common.names import (
    book_names,
    language_names,
    renamed,
    talker_names,
    text_names,
    upsampling_names,
)
from omnitts_cli.families.common.tokenizer import TextTokenizer
from omnitts_cli.families.qwen3_tts import released
from omnitts_cli.families.qwen3_tts.cloner import Qwen3Cloner
from omnitts_cli.families.qwen3_tts.config import CODEC_FOLDER, Config, config_of, read_config
from omnitts_cli.families.qwen3_tts.prompt import Qwen3Prompter
from omnitts_cli.kernels.arrays import read
from omnitts_cli.models.compiled import Compiled, Compute
from omnitts_cli.models.prompts import Place
from omnitts_cli.models.roles import SpeechModel
from omnitts_cli.models.shapes import TENSORS, DecoderShape, decoder_sizes, language_sizes
from omnitts_cli.models.sources import Names
from omnitts_cli.text.model_input import text_input_of


def modules() -> Any:
    """The family as modules of PyTorch, which is imported now."""
    return importlib.import_module("omnitts_cli.families.qwen3_tts.modules")


def stored(config: Config) -> Stored:
    """The tensors of the networks that speak."""
    names = language_names(config.predictor, talker_names(config.talker), text_names())
    language = language_sizes(config.talker, config.predictor, config.text_vocabulary, config.text_width)
    # fine-tuned folders may or may not have lost the speaker encoder that they no longer use
    return Stored(
        (names, language, "", ("speaker_encoder.*",)),
        (decoder_names(config.decoder), decoder_sizes(config.decoder), CODEC_FOLDER, ("encoder.*",)),
        config.decoder,
    )


def compiled(name: str, config: Config, compute: Compute, tokenizer: TextTokenizer) -> SpeechModel:
    """The model that the compiled library calculates."""
    tokenizer.input = text_input_of(config.text_input, config.languages)
    networks = compute.networks(config.talker, config.predictor, config.decoder)
    return Compiled(
        networks=networks,
        prompter=Qwen3Prompter(config, tokenizer, networks.text, networks.codes, np.array),
        cloner=None,
        device=None,
        dtype=np.float32,
        vector_of=voice_vectors(config, networks.codes, np.asarray),
        **config.model_fields(name),
    )


def voice_vectors(config: Config, codes: Any, place: Place) -> Callable[[str], np.ndarray] | None:
    """The row that stands for a named voice in a prompt: a clone with this vector is that voice. None where the model
    does not speak both kinds.
    """
    if not {"named", "cloned"} <= config.kinds:
        return None
    return lambda name: read(codes.control(place(np.array([config.speakers[name.lower()].id])))[0]).astype(np.float32)


def cloner(config: Config, filled: Callable[[Any], Any], place: Place) -> Qwen3Cloner | None:
    """A cloner whose encoders are built and `filled` for the first clip; None where the model does not clone."""

    def load() -> tuple[Any, Any]:
        encoder, speaker = modules().encoders(config)
        return filled(encoder), filled(speaker)

    return Qwen3Cloner(load, place) if "cloned" in config.kinds else None


def _made_up_config(file: Path, name: str) -> Config:
    top, codec = Fields(file, released.model_config(name)), Fields(file, released.codec_config())
    return config_of(top, codec, Fields(file, {}))


def _complete(name: str, variant: str | None) -> str:
    """The whole name of a size, such as "0.6b", and a variant."""
    name = f"{name}-{variant or 'custom_voice'}" if name in released.SIZES else name
    return name.replace("_", "")


FAMILY = Family(
    model_type="qwen3_tts",
    read_config=read_config,
    parts=lambda config, ops: modules().parts(config, ops, cloning=False),
    assemble=lambda *given: modules().assemble(*given),
    stored=stored,
    compiled=compiled,
    cloner=cloner,
    made_up=released.NAMES,
    made_up_config=_made_up_config,
    complete=_complete,
)


def decoder_names(shape: DecoderShape) -> Names:
    """Names of the decoder."""
    names = renamed(TENSORS["decoder"], "", "decoder.")
    for ours, theirs, count in (("leading", "rvq_first", 1), ("residual", "rvq_rest", shape.groups - 1)):
        root = f"decoder.quantizer.{theirs}"
        names |= book_names(ours, root, [f"{root}.vq.layers.{i}._codebook" for i in range(count)], "embedding_sum")
    return names | upsampling_names(shape, "decoder.")
