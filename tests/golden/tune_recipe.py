"""What the golden data of tuning is made of: two tiny checkpoints, two adapters, and how long tensors are abridged."""

import json
import math
from pathlib import Path
from typing import Any

import torch
from recipe import build_checkpoint, dump_json, name_seed, randomize
from safetensors.torch import load_file, save_file
from torch import Tensor

HERE = Path(__file__).parent
SIZES = {"large": "base_large", "small": "base"}  # the layout of 1.7B: text as wide as the talker; that of 0.6B
SEED_STEP = 211
TEXT_TABLE, TEXT_MLP = "talker.model.text_embedding.weight", "talker.text_projection."
TEXTS = ["hello world", "the quick brown fox jumps over the lazy dog.", "yes, I do think that it is true."]
SECONDS = [0.61, 1.37, 0.93]
REFERENCE_SECONDS = 1.1
ADAM = {"lr": 1e-3, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.01}
CLIP, STEPS = 1.0, 5
ALL_LINEAR = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
PLANS: dict[str, dict[str, Any]] = {
    "one": {"r": 4, "alpha": 8, "modules": ALL_LINEAR, "predictor": True, "rslora": False},
    "two": {"r": 2, "alpha": 3, "modules": ["q_proj", "v_proj", "o_proj"], "predictor": False, "rslora": True},
}
SIGNS = 8


def build(size: str, seed: int, target: Path) -> Path:
    """The checkpoint of a size."""
    source, place = HERE / "checkpoints" / SIZES[size], list(SIZES).index(size) + 1
    build_checkpoint(source, target, seed + SEED_STEP * place)
    if size == "large":
        config, table = json.loads((target / "config.json").read_text()), load_file(target / "model.safetensors")
        width = config["talker_config"]["text_hidden_size"] = config["talker_config"]["hidden_size"]
        shapes = {
            name: (width,) * one.ndim for name, one in table.items() if name.startswith("talker.text_projection.")
        }
        shapes[TEXT_TABLE] = (len(table[TEXT_TABLE]), width)
        made = table | randomize(shapes, seed + SEED_STEP * place)
        save_file(made, target / "model.safetensors", metadata={"format": "pt"})
        dump_json(target / "config.json", config)
    return target


def scale_of(plan: dict[str, Any]) -> float:
    return plan["alpha"] / (math.sqrt(plan["r"]) if plan["rslora"] else plan["r"])


def adapter(shapes: dict[str, tuple[int, ...]], plan: dict[str, Any], seed: int) -> dict[str, Tensor]:
    """A and B of every module that the plan names, both random. `shapes`: of the checkpoint's weights."""
    made = {}
    for weight, shape in shapes.items():
        name = weight.removesuffix(".weight")
        inside = name.startswith("talker.model.layers.") or (
            plan["predictor"] and name.startswith("talker.code_predictor.model.layers.")
        )
        if not inside or name.rsplit(".", 1)[-1] not in plan["modules"]:
            continue
        for part, size in (("A", (plan["r"], shape[1])), ("B", (shape[0], plan["r"]))):
            generator = torch.Generator().manual_seed((seed * 7919 + name_seed(f"{name}.{part}")) % 2**63)
            noise = torch.randn(size, generator=generator) / math.sqrt(size[1])
            made[f"{name}.lora_{part}"] = noise * (1.0 if part == "A" else 0.4)
    return made


def abridged(name: str, tensor: Tensor) -> Tensor:
    """[SIGNS + 1] float64: the norm of a tensor and its sums with random signs. Equal tensors have equal ones."""
    flat = tensor.detach().double().flatten()
    generator = torch.Generator().manual_seed(name_seed(name))
    sums = [(torch.randint(0, 2, flat.shape, generator=generator) * 2 - 1).double() @ flat for _ in range(SIGNS)]
    return torch.stack([flat.norm(), *sums])
