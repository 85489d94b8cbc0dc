"""The tiny folder of Qwen3-Omni with its thinker and audio tower, as a recipe: a seed, two rows of heads, and formulas.

Config and tokenizer are those of `omni_recipe.py`, with more layers in the thinker and an audio tower of real windows.
"""

from __future__ import annotations

import copy
import json
import math
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import omni_recipe
import torch
from torch import Tensor

THINKER_HEAD = "thinker.lm_head.weight"
TABLE = "thinker.model.embed_tokens.weight"
RATE = 16_000
CLIPS = {"short": 4900, "mid": 21_600, "even": 32_000, "long": 149_000, "beyond30": RATE * 31 + 80}
"""Samples: under a second, no whole hop, exactly 2 s, one window of 8 s and a bit, over 30 s."""


def config_of(omni: dict[str, Any]) -> dict[str, Any]:
    """The config of the speaking folder, with a thinker and an audio tower of other sizes."""
    config = copy.deepcopy(omni)
    thinker = config["thinker_config"]
    thinker["text_config"] |= {"num_hidden_layers": 5, "num_attention_heads": 6}
    thinker["audio_config"] |= {
        "d_model": 32, "encoder_layers": 3, "encoder_attention_heads": 4, "encoder_ffn_dim": 48,
        "downsample_hidden_size": 12, "output_dim": 64, "num_mel_bins": 128, "n_window": 50, "n_window_infer": 800,
        "conv_chunksize": 500, "activation_function": "gelu", "scale_embedding": False,
    }  # fmt: skip
    config["talker_config"]["accept_hidden_layer"] = 3
    return config


def shapes(config: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    """Every tensor of thinker and audio tower, under its released name."""
    at, audio = config["thinker_config"]["text_config"], config["thinker_config"]["audio_config"]
    out = {THINKER_HEAD: (at["vocab_size"], at["hidden_size"])}
    out |= omni_recipe._stack("thinker.model", at)
    for index in range(at["num_hidden_layers"]):
        name = f"thinker.model.layers.{index}.mlp"
        out[f"{name}.gate.weight"] = (at["num_experts"], at["hidden_size"])
        for expert in range(at["num_experts"]):
            out |= omni_recipe._mlp(f"{name}.experts.{expert}", at["hidden_size"], at["moe_intermediate_size"])
    return out | _tower(audio)


def _tower(at: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    name, width, inner, channels = "thinker.audio_tower", at["d_model"], at["encoder_ffn_dim"], 12
    out: dict[str, tuple[int, ...]] = {}
    for index in (1, 2, 3):
        out |= omni_recipe._conv(f"{name}.conv2d{index}", (channels, 1 if index == 1 else channels, 3, 3), channels)
    out[f"{name}.conv_out.weight"] = (width, channels * at["num_mel_bins"] // 8)
    for index in range(at["encoder_layers"]):
        layer = f"{name}.layers.{index}"
        for part in ("q", "k", "v", "out"):
            out |= omni_recipe._linear(f"{layer}.self_attn.{part}_proj", width, width)
        out |= omni_recipe._linear(f"{layer}.fc1", inner, width) | omni_recipe._linear(f"{layer}.fc2", width, inner)
        for norm in ("self_attn_layer_norm", "final_layer_norm"):
            out |= {f"{layer}.{norm}.weight": (width,), f"{layer}.{norm}.bias": (width,)}
    out |= {f"{name}.ln_post.weight": (width,), f"{name}.ln_post.bias": (width,)}
    return (
        out
        | omni_recipe._linear(f"{name}.proj1", width, width)
        | omni_recipe._linear(f"{name}.proj2", at["output_dim"], width)
    )


def draw(config: dict[str, Any], seed: int) -> dict[str, Tensor]:
    """Seeded values of all tensors: those of the speaking folder, and the thinker's."""
    out = omni_recipe.draw(config, seed)
    for name, shape in shapes(config).items():
        generator = torch.Generator().manual_seed((seed * 1_000_003 + omni_recipe.name_seed(name)) % (2**63))
        noise = torch.randn(shape, generator=generator)
        if noise.ndim == 1:
            mean = 1.0 if ("norm" in name or "ln_post" in name) and name.endswith("weight") else 0.0
            out[name] = mean + 0.1 * noise
        else:
            gain = 2.0 if name == THINKER_HEAD else 1.4
            out[name] = noise * gain / math.sqrt(math.prod(shape[1:]))
    return out


def build(source: Path, target: Path) -> Path:
    """Write the whole folder, its weights in numbered parts with an index."""
    recipe = json.loads((source / omni_recipe.RECIPE).read_text(encoding="utf-8"))
    config = json.loads((source / "config.json").read_text(encoding="utf-8"))
    shutil.copytree(source, target, ignore=shutil.ignore_patterns(omni_recipe.RECIPE))
    tensors = draw(config, recipe["seed"])
    tensors[THINKER_HEAD][recipe["words"] :] = 0  # answers are made of words
    for name, row in recipe["rows"].items():
        at = config["im_end_token_id"] if name == THINKER_HEAD else config["talker_config"]["codec_eos_token_id"]
        tensors[name][at] = torch.tensor(row) if row else 0
    omni_recipe.write_parts(tensors, target)
    return target


def clip(name: str, seed: int = 3) -> np.ndarray:
    """A wobbling tone in noise, as 16-bit samples [N] that a WAV file holds exactly."""
    samples = CLIPS[name]
    t, noise = np.arange(samples) / RATE, np.random.default_rng(seed + samples)
    x = 0.3 * np.sin(2 * np.pi * (180 * t + 40 * np.sin(2 * np.pi * 1.5 * t)))
    x += 0.1 * np.sin(2 * np.pi * 1900 * t) * np.sin(3 * t)
    x = x * (0.6 + 0.4 * np.sin(2 * np.pi * 0.7 * t)) + 0.02 * noise.standard_normal(samples)
    return np.clip(np.round(x * 32768), -32768, 32767).astype(np.int16)
