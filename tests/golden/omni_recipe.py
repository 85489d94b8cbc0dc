"""The tiny Qwen3-Omni folder as a recipe: a seed and one row; and its cases, of which the long tensors keep a window.

Only what speaking needs is in the folder: of the thinker there is the table of tokens, as in a download
that left the other parts out. Every tensor is drawn from a generator seeded by its name.
"""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path
from typing import Any

import torch
from recipe import name_seed
from safetensors.torch import save_file
from torch import Tensor

RECIPE = "recipe.json"
HEAD = "talker.codec_head.weight"
FRAMES = 40  # of the codec's own case
FRAME = 1920
PARTS = 3  # files of the weights


def shapes(config: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    """Every tensor that speaking needs, under its released name."""
    talker, thinker = config["talker_config"], config["thinker_config"]["text_config"]
    core, text = talker["text_config"], (thinker["vocab_size"], thinker["hidden_size"])
    hidden, groups = core["hidden_size"], talker["num_code_groups"]
    out: dict[str, tuple[int, ...]] = {"thinker.model.embed_tokens.weight": text}
    for which in ("text", "hidden"):
        out |= _linear(f"talker.{which}_projection.linear_fc1", core["intermediate_size"], text[1])
        out |= _linear(f"talker.{which}_projection.linear_fc2", hidden, core["intermediate_size"])
    out |= _stack("talker.model", core)
    out |= {"talker.model.codec_embedding.weight": (core["vocab_size"], hidden), HEAD: (core["vocab_size"], hidden)}
    for index in range(core["num_hidden_layers"]):
        out |= _block(f"talker.model.layers.{index}.mlp", core)
    predictor = talker["code_predictor_config"]
    out |= _stack("talker.code_predictor.model", predictor)
    for index in range(predictor["num_hidden_layers"]):
        out |= _mlp(f"talker.code_predictor.model.layers.{index}.mlp", hidden, predictor["intermediate_size"])
    for group in range(groups - 1):
        table = (predictor["vocab_size"], hidden)
        out[f"talker.code_predictor.model.codec_embedding.{group}.weight"] = table
        out[f"talker.code_predictor.lm_head.{group}.weight"] = table
    return out | _codec(config["code2wav_config"])


def _linear(name: str, outputs: int, inputs: int) -> dict[str, tuple[int, ...]]:
    return {f"{name}.weight": (outputs, inputs), f"{name}.bias": (outputs,)}


def _mlp(name: str, hidden: int, inner: int) -> dict[str, tuple[int, ...]]:
    wide = {f"{name}.{part}_proj.weight": (inner, hidden) for part in ("gate", "up")}
    return wide | {f"{name}.down_proj.weight": (hidden, inner)}


def _block(name: str, at: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    hidden = at["hidden_size"]
    out = {f"{name}.gate.weight": (at["num_experts"], hidden), f"{name}.shared_expert_gate.weight": (1, hidden)}
    out |= _mlp(f"{name}.shared_expert", hidden, at["shared_expert_intermediate_size"])
    for index in range(at["num_experts"]):
        out |= _mlp(f"{name}.experts.{index}", hidden, at["moe_intermediate_size"])
    return out


def _stack(name: str, at: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    hidden, depth = at["hidden_size"], at["head_dim"]
    wide, narrow = at["num_attention_heads"] * depth, at["num_key_value_heads"] * depth
    out: dict[str, tuple[int, ...]] = {f"{name}.norm.weight": (hidden,)}
    for index in range(at["num_hidden_layers"]):
        layer = f"{name}.layers.{index}"
        out |= {f"{layer}.{norm}_layernorm.weight": (hidden,) for norm in ("input", "post_attention")}
        out |= {f"{layer}.self_attn.{part}_norm.weight": (depth,) for part in "qk"}
        out |= {f"{layer}.self_attn.{part}_proj.weight": (narrow, hidden) for part in "kv"}
        out |= {f"{layer}.self_attn.q_proj.weight": (wide, hidden), f"{layer}.self_attn.o_proj.weight": (hidden, wide)}
    return out


def _codec(at: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    hidden, width = at["hidden_size"], at["decoder_dim"]
    out: dict[str, tuple[int, ...]] = {
        "code2wav.code_embedding.weight": (at["num_quantizers"] * at["codebook_size"], hidden),
        "code2wav.pre_transformer.norm.weight": (hidden,),
    }
    for index in range(at["num_hidden_layers"]):
        layer = f"code2wav.pre_transformer.layers.{index}"
        out |= {f"{layer}.{norm}_layernorm.weight": (hidden,) for norm in ("input", "post_attention")}
        out |= {f"{layer}.{branch}_layer_scale.scale": (hidden,) for branch in ("self_attn", "mlp")}
        out |= {f"{layer}.self_attn.{part}_proj.weight": (hidden, hidden) for part in "qkvo"}
        out |= _mlp(f"{layer}.mlp", hidden, at["intermediate_size"])
    for index, rate in enumerate(at["upsampling_ratios"]):
        stage = f"code2wav.upsample.{index}"
        out |= _conv(f"{stage}.0.conv", (hidden, hidden, rate), hidden)
        out |= _conv(f"{stage}.1.dwconv.conv", (hidden, 1, 7), hidden)
        out |= {f"{stage}.1.norm.weight": (hidden,), f"{stage}.1.norm.bias": (hidden,), f"{stage}.1.gamma": (hidden,)}
        out |= _linear(f"{stage}.1.pwconv1", 4 * hidden, hidden) | _linear(f"{stage}.1.pwconv2", hidden, 4 * hidden)
    out |= _conv("code2wav.decoder.0.conv", (width, hidden, 7), width)
    for index, rate in enumerate(at["upsample_rates"], 1):
        stage, half = f"code2wav.decoder.{index}.block", width // 2
        out |= {f"{stage}.0.{part}": (width,) for part in ("alpha", "beta")}
        out |= _conv(f"{stage}.1.conv", (width, half, 2 * rate), half)
        for unit in (f"{stage}.{place}" for place in (2, 3, 4)):
            out |= {f"{unit}.{act}.{part}": (half,) for act in ("act1", "act2") for part in ("alpha", "beta")}
            out |= _conv(f"{unit}.conv1.conv", (half, half, 7), half) | _conv(
                f"{unit}.conv2.conv", (half, half, 1), half
            )
        width = half
    last = len(at["upsample_rates"]) + 1
    out |= {f"code2wav.decoder.{last}.{part}": (width,) for part in ("alpha", "beta")}
    return out | _conv(f"code2wav.decoder.{last + 1}.conv", (1, width, 7), 1)


def _conv(name: str, kernel: tuple[int, ...], outputs: int) -> dict[str, tuple[int, ...]]:
    return {f"{name}.weight": kernel, f"{name}.bias": (outputs,)}


def draw(config: dict[str, Any], seed: int) -> dict[str, Tensor]:
    """Seeded values, scaled so that nothing saturates or dies, and the sound stays between its bounds."""
    out = {}
    for name, shape in shapes(config).items():
        generator = torch.Generator().manual_seed((seed * 1_000_003 + name_seed(name)) % (2**63))
        out[name] = _values(name, torch.randn(shape, generator=generator)).contiguous()
    return out


def _values(name: str, noise: Tensor) -> Tensor:
    leaf, inputs = name.rsplit(".", 1)[-1], math.prod(noise.shape[1:])
    if noise.ndim == 1:
        mean, spread = {"alpha": (0, 0.2), "beta": (0, 0.2), "scale": (0.4, 0.1), "gamma": (0.4, 0.1)}.get(
            leaf, (0, 0.05)
        )
        return 1 + 0.1 * noise if "norm" in name and leaf == "weight" else mean + spread * noise
    if "embed" in name:
        return 0.7 * noise
    if name == HEAD or "lm_head" in name:
        return noise * 2.0 / math.sqrt(inputs)
    if (".upsample." in name and ".0.conv" in name) or ".block.1.conv" in name:  # transposed: inputs come first
        return noise * 0.8 / math.sqrt(noise.shape[0] * (2 if "block" in name else 1))
    gain = 0.5 if ".conv1." in name or ".conv2." in name else 0.08 if name.startswith("code2wav.decoder.6") else 1.2
    return noise * gain / math.sqrt(inputs)


def own_codes(seed: int, groups: int, codes: int) -> Tensor:
    """The codes of the codec's own case: [FRAMES, G]."""
    return torch.randint(0, codes, (FRAMES, groups), generator=torch.Generator().manual_seed(seed + 1))


def build(source: Path, target: Path) -> Path:
    """Write the whole folder, its weights in numbered parts with an index."""
    recipe = json.loads((source / RECIPE).read_text(encoding="utf-8"))
    config = json.loads((source / "config.json").read_text(encoding="utf-8"))
    shutil.copytree(source, target, ignore=shutil.ignore_patterns(RECIPE))
    tensors = draw(config, recipe["seed"])
    if recipe["end_row"]:
        tensors[HEAD][config["talker_config"]["codec_eos_token_id"]] = torch.tensor(recipe["end_row"])
    write_parts(tensors, target)
    return target


def write_parts(tensors: dict[str, Tensor], folder: Path) -> None:
    """As released: parts that follow one another through the names, and an index that says what is where."""
    names = sorted(tensors)
    places = {
        name: f"model-{i * PARTS // len(names) + 1:05d}-of-{PARTS:05d}.safetensors" for i, name in enumerate(names)
    }
    for part in sorted(set(places.values())):
        chosen = {name: tensors[name] for name in names if places[name] == part}
        save_file(chosen, folder / part, metadata={"format": "pt"})
    index = {"metadata": {}, "weight_map": places}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index) + "\n", encoding="utf-8")
