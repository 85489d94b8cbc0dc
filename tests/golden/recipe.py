"""The tiny golden checkpoints as a recipe: shapes, a seed and one row, instead of megabytes of random numbers.

Every tensor is drawn from a generator seeded by its name, so a folder can be rebuilt bit for bit without
the official package. Only the row of the end code was measured (see `make_golden.py`) and is stored.
"""

import json
import math
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

CHECKPOINTS = ("custom_voice", "custom_voice_small", "voice_design", "base", "base_large")
RECIPE = "recipe.json"
HEAD = "talker.codec_head.weight"


def dump_json(path: Path, value: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")


def checkpoint_seed(name: str, seed: int) -> int:
    return seed + 101 * CHECKPOINTS.index(name)


def name_seed(name: str) -> int:
    """A stable 63-bit number from a tensor's name."""
    value = 1469598103934665603
    for byte in name.encode():
        value = ((value ^ byte) * 1099511628211) & 0x7FFFFFFFFFFFFFFF
    return value


@torch.no_grad()
def randomize(shapes: dict[str, tuple[int, ...]], seed: int) -> dict[str, Tensor]:
    """Seeded values per tensor name, scaled so that nothing saturates or collapses."""
    out = {}
    for name in sorted(shapes):
        generator = torch.Generator().manual_seed((seed * 1_000_003 + name_seed(name)) % (2**63))
        out[name] = _values(name, shapes[name], generator).contiguous()
    return out


def _values(name: str, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    noise = torch.randn(shape, generator=generator)
    leaf = name.rsplit(".", 1)[-1]
    if leaf == "initialized":
        return torch.ones(shape)
    if leaf == "cluster_usage":
        return 0.5 + 2 * torch.rand(shape, generator=generator)
    if "norm" in name and leaf == "weight" and len(shape) == 1:
        return 1 + 0.1 * noise
    plain = {"embed_sum": noise, "embedding_sum": noise, "alpha": 0.3 * noise, "beta": 0.3 * noise, "bias": 0.1 * noise}
    plain |= {"scale": 0.3 + 0.1 * noise, "gamma": 0.3 + 0.1 * noise}
    if leaf in plain:
        return plain[leaf]
    if "embedding" in name and len(shape) == 2:
        return 0.7 * noise
    return _matrix(name, shape, noise) if len(shape) >= 2 else 0.2 * noise


def _matrix(name: str, shape: tuple[int, ...], noise: Tensor) -> Tensor:
    # a transposed convolution of the codec adds two taps of every input channel to each output
    upsampling = "block.1.conv" in name and "decoder.decoder" in name
    value = noise / math.sqrt(shape[0] * 2 if upsampling else math.prod(shape[1:]))
    if "codec_head" in name or "lm_head" in name:
        value = 2.5 * value
    # keep the wave decoder in a calm range: no clipping, no error growth
    if name.startswith("decoder.decoder.") and ".conv2." in name:
        value = 0.25 * value
    if name.startswith("decoder.decoder.") and ".block.1." in name:
        value = 0.6 * value
    return 0.3 * value if name == "decoder.decoder.6.conv.weight" else value


def tie_codebooks(tensors: dict[str, Tensor], groups: int) -> None:
    """Give encoder and decoder of the codec the same codebooks for the kept groups, as released files have."""
    encoder, decoder = "encoder.quantizer.", "decoder.quantizer."
    pairs = [("semantic_residual_vector_quantizer.layers.0", "rvq_first.vq.layers.0")]
    pairs += [(f"acoustic_residual_vector_quantizer.layers.{i}", f"rvq_rest.vq.layers.{i}") for i in range(groups - 1)]
    for mine, theirs in pairs:
        for sums, its_sums in (("embed_sum", "embedding_sum"), ("cluster_usage", "cluster_usage")):
            tensors[f"{decoder}{theirs}._codebook.{its_sums}"] = tensors[f"{encoder}{mine}.codebook.{sums}"].clone()


def make_audio(seconds: float, seed: int, rate: int) -> np.ndarray:
    """Five wobbling tones and a little noise: float32, the same for the same seed."""
    rng = np.random.default_rng(seed)
    t = np.arange(round(seconds * rate)) / rate
    tones = zip(rng.uniform(0.05, 0.2, 5), rng.uniform(90, 2500, 5), rng.uniform(0, 6, 5), strict=True)
    x = sum(a * np.sin(2 * np.pi * f * t + p) for a, f, p in tones)
    x = x * (0.6 + 0.4 * np.sin(2 * np.pi * 3 * t)) + 0.02 * rng.standard_normal(t.size)
    return np.asarray(x, np.float32)


def write_recipe(source: Path, target: Path, seed: int) -> None:
    """Keep of the folder `source` what `build_checkpoint` needs to make it again."""
    model = load_file(source / "model.safetensors")
    codec = load_file(source / "speech_tokenizer" / "model.safetensors")
    target.mkdir(parents=True, exist_ok=True)
    for path in source.rglob("*"):
        if path.is_file() and path.suffix != ".safetensors":
            copy = target / path.relative_to(source)
            copy.parent.mkdir(exist_ok=True)
            shutil.copyfile(path, copy)
    end = json.loads((source / "config.json").read_text(encoding="utf-8"))["talker_config"]["codec_eos_token_id"]
    recipe = {
        "seed": checkpoint_seed(source.name, seed),
        "end_row": model[HEAD][end].tolist(),
        "model": {name: list(t.shape) for name, t in model.items()},
        "codec": {name: list(t.shape) for name, t in codec.items()},
    }
    (target / RECIPE).write_text(json.dumps(recipe, separators=(",", ":")) + "\n", encoding="utf-8")


def build_checkpoint(source: Path, target: Path, seed: int | None = None) -> Path:
    """Write the whole folder that `write_recipe` boiled down. The same bits wherever torch draws the same numbers.

    With another seed there is no end code: its row is zero until it has been measured.
    """
    recipe = json.loads((source / RECIPE).read_text(encoding="utf-8"))
    shutil.copytree(source, target, ignore=shutil.ignore_patterns(RECIPE))
    config = json.loads((source / "config.json").read_text(encoding="utf-8"))["talker_config"]
    row = torch.tensor(recipe["end_row"]) if seed is None else 0.0
    seed = recipe["seed"] if seed is None else seed
    model = randomize(recipe["model"], seed)
    model[HEAD][config["codec_eos_token_id"]] = row
    save_file(model, target / "model.safetensors", metadata={"format": "pt"})
    codec = randomize(recipe["codec"], seed + 17)
    tie_codebooks(codec, config["num_code_groups"])
    save_file(codec, target / "speech_tokenizer" / "model.safetensors")  # as released: without metadata
    return target
