"""Loads what earlier stages trained, from a checkpoint or from the finished model in the work folder."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from omnitts_cli.errors import ModelError
from omnitts_cli.families.common.names import embedder_names, predictor_names, prefixed, talker_names, text_names
from omnitts_cli.families.qwen3_tts.encoders import encoder_names, speaker_names
from omnitts_cli.families.qwen3_tts.family import decoder_names
from omnitts_cli.models.sources import Names
from omnitts_cli.training.growth import begin_languages, begin_tokens, grown
from omnitts_cli.training.ids import codec_ids
from omnitts_cli.training.quantise import LearningQuantiser
from omnitts_cli.training.recipe import Recipe, SpeechSizes
from omnitts_cli.training.shapes import TinyCodec, build_codec
from omnitts_cli.training.speech import TinySpeech
from omnitts_cli.training.tokens import TokenLists
from omnitts_cli.tuning import checkpoints
from omnitts_cli.weights.checkpoint import Checkpoint
from omnitts_cli.weights.load import fill

STEM = "codec"
MODEL = "tiny"
"""The finished model in a work folder: written by export; training can continue from it."""
CODEC_FOLDER = "speech_tokenizer"


def trained_codec(recipe: Recipe, folder: Path) -> TinyCodec:
    """The codec that the codec stage left in `folder`, or that of the finished model there."""
    if tensors := checkpoints.load(folder, STEM):
        codec = build_codec(recipe.codec)
        quantiser = LearningQuantiser(recipe.codec.groups, recipe.codec.codes, recipe.codec.book_width)
        for name, module in (("encoder", codec.encoder), ("decoder", codec.decoder), ("quantiser", quantiser)):
            module.load_state_dict(checkpoints.under(name, tensors))
        quantiser.settle(codec.encoder.quantiser, codec.decoder.quantiser)
        return codec
    if finished := finished_codec(folder):
        return exported_codec(recipe, finished)
    raise ModelError(f"{folder} holds no codec", hint="the codec stage comes first")


def residual_books(codec: TinyCodec) -> Tensor:
    """The residual codebooks in half precision, as they are exported: [books, codes, width]. A polish or an export does
    not change them."""
    return codec.encoder.quantiser.residual.books.detach().half()


def kept_codes(before: Tensor, now: Tensor) -> Tensor:
    """The share of the codes of each book that still have their place: the old entry is nearest to the new one of the
    same code. Both [books, codes, width]."""
    before, now = before.float(), now.float()
    if before.shape != now.shape:
        return torch.zeros(len(now))
    # a book's mean depends on where the latents are centred
    before, now = (books - books.mean(1, keepdim=True) for books in (before, now))
    nearest = torch.cdist(before, now).argmin(-1)
    return (nearest == torch.arange(now.shape[1])).float().mean(-1)


def finished_codec(folder: Path) -> Path | None:
    """The folder of the finished model's codec, if there is one."""
    codec = folder / MODEL / CODEC_FOLDER
    return codec if (codec / "model.safetensors").exists() else None


def exported_codec(recipe: Recipe, folder: Path) -> TinyCodec:
    """A codec folder in the released layout."""
    codec, files = build_codec(recipe.codec), Checkpoint.open(folder)
    halves = (
        (codec.decoder, decoder_names(codec.decoder.shape), "encoder.*"),
        (codec.encoder, encoder_names(codec.encoder.shape), "decoder.*"),
    )
    for half, names, other in halves:
        fill(half, names, files, "cpu", torch.float32, unused=(other,))
    return codec


def finished_speech(recipe: Recipe, tokens: TokenLists, folder: Path) -> dict[str, Tensor]:
    """The weights of a model folder, whose language side may be smaller than the recipe's or have fewer tokens
    (`growth`)."""
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    sizes, known = _sizes(config["talker_config"]), TokenLists.read(folder)
    found = exported_speech(replace(recipe, speech=sizes), known, folder)
    if sizes == recipe.speech and known.size == tokens.size:
        return found.state_dict()
    weights = grown(found, TinySpeech(recipe, tokens))
    begin_tokens(weights["text.table"], known, tokens)
    begin_languages(weights["embedder.first"], codec_ids(recipe), config["talker_config"]["codec_language_id"])
    return weights


def _sizes(talker: dict[str, Any]) -> SpeechSizes:
    """The sizes of a language side, from its config."""
    predictor = talker["code_predictor_config"]
    own = {name: talker[key] for name, key in SIZES.items()}
    return SpeechSizes(
        text_width=talker["text_hidden_size"], **own, **{f"predictor_{n}": predictor[key] for n, key in SIZES.items()}
    )


SIZES = {
    "hidden": "hidden_size",
    "inner": "intermediate_size",
    "layers": "num_hidden_layers",
    "heads": "num_attention_heads",
    "kv_heads": "num_key_value_heads",
    "head_dim": "head_dim",
}
"""The recipe's names of sizes, and those of config.json."""


def exported_speech(recipe: Recipe, tokens: TokenLists, folder: Path) -> TinySpeech:
    """The language side of a model folder."""
    speech = TinySpeech(recipe, tokens)
    fill(speech, language_names(speech), Checkpoint.open(folder), "cpu", torch.float32)
    return speech


def language_names(speech: TinySpeech) -> Names:
    talker, predictor = speech.talker.shape, speech.predictor.shape
    return (
        prefixed("talker", talker_names(talker))
        | prefixed("predictor", predictor_names(predictor))
        | prefixed("embedder", embedder_names(predictor.groups))
        | prefixed("text", text_names())
        | prefixed("speaker", speaker_names(speech.speaker.shape))
    )
