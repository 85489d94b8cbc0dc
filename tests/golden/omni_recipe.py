"""The tiny folders of Qwen3-Omni as recipes: shapes, a seed and one or two rows; and the clips of their questions.

Of `omni/` only what speaking needs is there: of the thinker the table of tokens, as in a download that left the other
parts out. `thinker/` has it whole, with its audio tower. Every tensor is drawn from a generator seeded by its name.
"""

import json
import math
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import torch
from recipe import name_seed
from safetensors.torch import save_file
from torch import Tensor

RECIPE = "recipe.json"
HEAD = "talker.codec_head.weight"
THINKER_HEAD = "thinker.lm_head.weight"
TABLE = "thinker.model.embed_tokens.weight"
FRAME = 1920
PARTS = 3  # files of the weights
RATE = 16_000
CLIPS = {"short": 4900, "mid": 21_600, "even": 32_000, "long": 149_000, "beyond30": RATE * 31 + 80}
"""Samples: under a second, no whole hop, exactly 2 s, one window of 8 s and a bit, over 30 s."""


def read(source: Path) -> dict[str, Any]:
    return dict(json.loads((source / RECIPE).read_text(encoding="utf-8")))


def write(source: Path, recipe: dict[str, Any]) -> None:
    (source / RECIPE).write_text(json.dumps(recipe, separators=(",", ":")) + "\n", encoding="utf-8")


def draw(shapes: dict[str, list[int]], seed: int) -> dict[str, Tensor]:
    """Seeded values, scaled so that nothing saturates or dies, and the sound stays between its bounds."""
    out = {}
    for name, shape in shapes.items():
        generator = torch.Generator().manual_seed((seed * 1_000_003 + name_seed(name)) % (2**63))
        noise = torch.randn(shape, generator=generator)
        thinks = name.startswith("thinker.") and name != TABLE
        out[name] = (_thinker_values if thinks else _values)(name, noise).contiguous()
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


def _thinker_values(name: str, noise: Tensor) -> Tensor:
    if noise.ndim == 1:
        return ("norm" in name or "ln_post" in name) * name.endswith("weight") + 0.1 * noise
    return noise * (2.0 if name == THINKER_HEAD else 1.4) / math.sqrt(math.prod(noise.shape[1:]))


def build(source: Path, target: Path) -> Path:
    """Write the whole folder, its weights in numbered parts with an index."""
    recipe = read(source)
    config = json.loads((source / "config.json").read_text(encoding="utf-8"))
    shutil.copytree(source, target, ignore=shutil.ignore_patterns(RECIPE))
    tensors = draw(recipe["shapes"], recipe["seed"])
    if THINKER_HEAD in tensors:
        tensors[THINKER_HEAD][recipe["words"] :] = 0  # answers are made of words
    ends = {THINKER_HEAD: config["im_end_token_id"], HEAD: config["talker_config"]["codec_eos_token_id"]}
    for name, row in recipe["rows"].items():
        tensors[name][ends[name]] = torch.tensor(row) if row else 0
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


def clip(name: str, seed: int = 3) -> np.ndarray:
    """A wobbling tone in noise, as 16-bit samples [N] that a WAV file holds exactly."""
    samples = CLIPS[name]
    t, noise = np.arange(samples) / RATE, np.random.default_rng(seed + samples)
    x = 0.3 * np.sin(2 * np.pi * (180 * t + 40 * np.sin(2 * np.pi * 1.5 * t)))
    x += 0.1 * np.sin(2 * np.pi * 1900 * t) * np.sin(3 * t)
    x = x * (0.6 + 0.4 * np.sin(2 * np.pi * 0.7 * t)) + 0.02 * noise.standard_normal(samples)
    return np.clip(np.round(x * 32768), -32768, 32767).astype(np.int16)
