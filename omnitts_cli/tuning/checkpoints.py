"""Checkpoints of a stage: safetensors files of bounded size."""

from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from omnitts_cli.weights.header import read_header

LARGEST = 14 << 20  # bytes of one part


def save(folder: Path, stem: str, tensors: Mapping[str, Tensor], about: Mapping[str, str] | None = None) -> None:
    """Writes new parts beside the old ones and renames them at the end, so that an interruption leaves a complete
    checkpoint. With `about`, which the function of that name reads back, there is one part of any size: then even a
    kill leaves a complete one."""
    folder.mkdir(parents=True, exist_ok=True)
    parts: list[dict[str, Tensor]] = [{}]
    held = 0
    for name, tensor in tensors.items():
        tensor = tensor.detach().cpu().contiguous()
        if held + tensor.nbytes > LARGEST and parts[-1] and about is None:
            parts.append({})
            held = 0
        parts[-1][name] = tensor
        held += tensor.nbytes
    for number, part in enumerate(parts):
        metadata = {"parts": str(len(parts)), **(about or {})}
        save_file(part, folder / f"{stem}.{number}.new", metadata=metadata)
    for number in range(len(parts)):
        (folder / f"{stem}.{number}.new").rename(folder / f"{stem}.{number}.safetensors")
    number = len(parts)
    while (stale := folder / f"{stem}.{number}.safetensors").exists():  # of an earlier, larger checkpoint
        stale.unlink()
        number += 1


def load(folder: Path, stem: str) -> dict[str, Tensor]:
    """Every tensor of a checkpoint; empty if there is none."""
    tensors: dict[str, Tensor] = {}
    for path in sorted(folder.glob(f"{stem}.*.safetensors")):
        tensors |= load_file(path)
    return tensors


def about(folder: Path, stem: str) -> dict[str, str]:
    """What was saved with a checkpoint of one part; empty if there is none."""
    path = folder / f"{stem}.0.safetensors"
    return read_header(path).metadata if path.exists() else {}


def under(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """What belongs to one module, without its prefix."""
    return {name.removeprefix(f"{prefix}."): t for name, t in tensors.items() if name.startswith(f"{prefix}.")}


def gather(**modules: torch.nn.Module) -> dict[str, Tensor]:
    return {f"{prefix}.{name}": t for prefix, module in modules.items() for name, t in module.state_dict().items()}
