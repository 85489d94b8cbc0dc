"""A tiny random model of the Qwen3-TTS family, made in memory in a few milliseconds: for tests and dry runs.

It has every part of a real one (all three kinds of voices, a cloner, a codec that makes audible noise) and ends its
speech by itself after a few dozen frames when codes are drawn.
"""

import math
from collections.abc import Iterable
from pathlib import Path

import torch
from torch import nn

from omnitts_cli.families.common.fields import Fields
from omnitts_cli.families.common.parts import Parts
from omnitts_cli.families.common.tokenizer import TextTokenizer, byte_vocabulary
from omnitts_cli.families.qwen3_tts.config import Config, config_of
from omnitts_cli.families.qwen3_tts.modules import assemble, parts
from omnitts_cli.kernels import plain
from omnitts_cli.kernels.ops import Ops
from omnitts_cli.models.codec_decoder import CodecDecoder
from omnitts_cli.models.prompts import Place
from omnitts_cli.models.roles import SpeechModel
from omnitts_cli.parse import json_object

KINDS = ("named", "cloned", "designed")
SPECIAL_TOKENS = ("im_start", "im_end", "tts_pad", "tts_bos", "tts_eos", "assistant")
CONTROLS = ("pad", "bos", "eos_token", "think", "nothink", "think_bos", "think_eos")
LANGUAGES = ("english", "german", "chinese", "sichuan_dialect")
SPEAKERS = ("ann", "ben", "eric")
LOUDNESS = 0.1  # root mean square of the sound of random codes, about


def toy(
    seed: int = 0,
    kinds: Iterable[str] = KINDS,
    groups: int = 4,
    codes: int = 32,
    hidden: int = 32,
    layers: int = 2,
    predictor_hidden: int = 24,
    device: torch.device | str = "cpu",
    dtype: torch.dtype = torch.float32,
    place: Place = torch.from_numpy,
    ops: Ops = plain.OPS,
) -> SpeechModel:
    """The same seed and sizes give the same model. `place` puts arrays on `device`."""
    config = toy_config(kinds, groups, codes, hidden, layers, predictor_hidden)
    pieces = parts(config, ops)
    generator = torch.Generator().manual_seed(seed)
    for part in pieces.all():
        # what to_empty does; its empty_like of a tensor without values imports sympy, which takes longer than all else
        part.module._apply(lambda empty: torch.empty(empty.shape, dtype=empty.dtype))
        _randomise(part.module, generator)
    _audible(pieces)
    for part in pieces.all():
        part.module.to(device)
    pieces.language.module.to(dtype)

    return assemble("random:toy", config, pieces, TextTokenizer(byte_vocabulary(), []), place, ops)


def toy_config(
    kinds: Iterable[str] = KINDS,
    groups: int = 4,
    codes: int = 32,
    hidden: int = 32,
    layers: int = 2,
    predictor_hidden: int = 24,
) -> Config:
    """Config files made of toy.json and read like any other: 8 kHz, 640 samples a frame, bytes as text."""
    given = json_object(Path(__file__).with_suffix(".json").read_bytes())
    controls = [*CONTROLS, *LANGUAGES, *SPEAKERS]
    ids = {name: codes + index for index, name in enumerate(controls)}
    stack = given["stack"] | {"num_hidden_layers": layers, "num_code_groups": groups}
    codec = given["codec"] | {"encoder_valid_num_quantizers": groups}
    for part in ("decoder_config", "encoder_config"):
        codec[part] |= {"codebook_size": codes, "num_quantizers": groups}
    talker = stack | {
        "hidden_size": hidden,
        "vocab_size": codes + len(controls),
        "text_vocab_size": 256 + len(SPECIAL_TOKENS),
        "text_hidden_size": 16,
        "max_position_embeddings": 4096,
        **{f"codec_{name}_id": ids[name] for name in CONTROLS},
        "codec_language_id": {name: ids[name] for name in LANGUAGES},
        "spk_id": {name: ids[name] for name in SPEAKERS},
        "spk_is_dialect": {"eric": "sichuan_dialect"},
        "code_predictor_config": stack | {"hidden_size": predictor_hidden, "vocab_size": codes},
    }
    top = {
        "model_type": "qwen3_tts",
        "tokenizer_type": "qwen3_tts_tokenizer_12hz",
        "tts_model_type": "custom_voice",
        "omnitts": {"kinds": list(kinds), "voices": {"ann": "a random voice"}},
        "talker_config": talker,
        "speaker_encoder_config": given["speaker_encoder_config"],
        **{f"{name}_token_id": 256 + index for index, name in enumerate(SPECIAL_TOKENS)},
    }
    here = Path("random:toy")
    return config_of(Fields(here, top), Fields(here, codec), Fields(here, {}))


@torch.no_grad()
def _randomise(module: nn.Module, generator: torch.Generator) -> None:
    """Random values: norms near one, small vectors, and matrices that keep the scale of activations."""
    for name, weight in module.named_parameters():
        noise = torch.randn(weight.shape, generator=generator)
        if weight.ndim == 1:
            weight.copy_(("norm" in name and not name.endswith("bias")) + 0.1 * noise)
        elif name.endswith(("table", "first", "rest", "books")):
            weight.copy_(noise)
        else:
            weight.copy_(noise / math.sqrt(weight[0].numel()))


@torch.no_grad()
def _audible(pieces: Parts) -> None:
    """Scale the last layer of the decoder, so that its sound is neither silent nor cut off."""
    decoder = pieces.decoder.module
    assert isinstance(decoder, CodecDecoder)
    shape = decoder.shape
    codes = torch.arange(8)[:, None] * 7 + torch.arange(shape.groups)
    assert decoder.closing.conv.bias is not None
    decoder.closing.conv.bias.zero_()
    loud = decoder.sound(decoder.quantiser.decode(codes[None] % shape.codes)).std()
    decoder.closing.conv.weight.mul_(LOUDNESS / loud)
