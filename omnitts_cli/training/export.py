"""Export: checkpoints of the stages -> a model folder in the released format, by the family's rename tables."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from omnitts_cli.families.common.parts import stored
from omnitts_cli.families.qwen3_tts.encoders import encoder_names
from omnitts_cli.families.qwen3_tts.family import decoder_names
from omnitts_cli.training import files, speech_stage
from omnitts_cli.training.recipe import Recipe
from omnitts_cli.training.speaker_heads import stretch
from omnitts_cli.training.speech import TinySpeech
from omnitts_cli.training.stage_results import exported_codec, language_names, trained_codec
from omnitts_cli.training.tokens import TokenLists
from omnitts_cli.tuning import checkpoints

LAST_LAYERS = ("rises", "snake", "closing")
"""The decoder's layers from 50 Hz to samples."""


def export_language(recipe: Recipe, work: Path, tokens: TokenLists, folder: Path) -> None:
    """Write all of a model folder except its codec; `work` is where the stages keep their checkpoints."""
    _describe(folder / "config.json", files.model_config(recipe, tokens))
    _describe(folder / "generation_config.json", files.generation_config(recipe))
    _describe(folder / "preprocessor_config.json", files.PREPROCESSOR)
    tokens.write(folder)
    speech = TinySpeech(recipe, tokens)
    saved = checkpoints.load(work, speech_stage.STEM)
    speech.load_state_dict(checkpoints.under("speech", saved))
    if (centre := saved.get(f"{speech_stage.STORED_HEADS}.centre")) is not None:
        # this makes up for the talker, whose own codes pull its voice towards the mean
        stretch(speech.speaker, centre, recipe.speaker.stretch)
    _write(stored(speech, language_names(speech)), torch.bfloat16, folder / "model.safetensors")


def export_codec(
    recipe: Recipe,
    work: Path,
    folder: Path,
    decoder: Path | None = None,
    share: float = 1.0,
    rises: float | None = None,
) -> None:
    """The codec alone: a codec folder of its own, and the part of a model folder. `decoder`: a codec folder whose
    decoder replaces that of the codec in `work`, or is mixed with it: its weights count for `share`, those of its
    last layers for `rises`. Encoder and codebooks stay, so all codes keep their meaning."""
    folder.mkdir(parents=True, exist_ok=True)
    _describe(folder / "config.json", files.codec_config(recipe.codec))
    _describe(folder / "preprocessor_config.json", files.CODEC_PREPROCESSOR)
    codec = trained_codec(recipe, work)
    if decoder:
        other = exported_codec(recipe, decoder).decoder.state_dict()
        own = codec.decoder.state_dict()
        shares = dict.fromkeys(LAST_LAYERS, share if rises is None else rises) | {"quantiser": 0.0}
        mixed = {name: torch.lerp(own[name], other[name], shares.get(name.partition(".")[0], share)) for name in own}
        codec.decoder.load_state_dict(mixed)
    spoken = stored(codec.decoder, decoder_names(codec.decoder.shape))
    encoder = stored(codec.encoder, encoder_names(codec.encoder.shape))
    # float16: codec weights need precision more than range
    _write(spoken | encoder, torch.float16, folder / "model.safetensors")


def _describe(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, separators=(",", ":")) + "\n")  # compact, as it is part of the package


def _write(tensors: dict[str, Tensor], dtype: torch.dtype, path: Path) -> None:
    save_file({name: t.detach().to(dtype).contiguous() for name, t in tensors.items()}, path, {"format": "pt"})
