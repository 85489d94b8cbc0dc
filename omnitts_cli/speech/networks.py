"""Models as networks of PyTorch: read from a folder, or with random weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from omnitts_cli.devices.device import Device
from omnitts_cli.errors import Notice
from omnitts_cli.families.common.parts import Part
from omnitts_cli.families.common.tokenizer import PieceTokenizer, read_tokenizer
from omnitts_cli.families.known import family_of, made_up
from omnitts_cli.families.toy import toy
from omnitts_cli.kernels.ops import EIGHT, Ops
from omnitts_cli.models.roles import SpeechModel
from omnitts_cli.settings.engine import EngineSettings
from omnitts_cli.weights import eight
from omnitts_cli.weights.arrays import sources_of
from omnitts_cli.weights.checkpoint import Checkpoint, dtype_of
from omnitts_cli.weights.load import fill
from omnitts_cli.weights.random_fill import random_fill


def stored(
    source: Any,
    device: Device,
    settings: EngineSettings,
    language: str,
    check: Callable[[Mapping[str, tuple[int, ...]], int], None],
    tell: Callable[[Notice], None],
    ops: Ops,
) -> tuple[SpeechModel, Any]:
    """The model of a `load.ModelSource`, with its language side in the precision `language`; and its parts."""
    family = family_of(source.folder)
    config = family.read_config(source.folder)
    tokenizer = read_tokenizer(source.folder, config.text_vocabulary, settings.mistral_pattern)
    pieces = family.parts(config, ops)
    files = {part.folder: source.opened(part.folder) for part in pieces.all()}
    numbers = sum(weight.numel() for weight in pieces.decoder.module.parameters())
    check({called: tuple(weight.shape) for called, weight in pieces.language.module.named_parameters()}, numbers)

    def filled(part: Part) -> nn.Module:
        if not part.float32 and language == EIGHT:
            return _filled_with_eight(part, files[part.folder], source, device, tell)
        dtype = torch.float32 if part.float32 else dtype_of(language)
        fill(part.module, part.names, files[part.folder], device.torch_device, dtype, unused=part.leftover)
        return part.module

    for part in pieces.all():
        filled(part)
    model = family.assemble(source.name, config, pieces, tokenizer, device.to_device, ops)
    return replace(model, cloner=family.cloner(config, filled, device.to_device)), pieces


def encoder(folder: Path, part: Part) -> nn.Module:
    """An encoder for cloning, on a CPU."""
    fill(part.module, part.names, Checkpoint.open(folder / part.folder), "cpu", torch.float32, unused=part.leftover)
    return part.module


def _filled_with_eight(
    part: Part, files: Checkpoint, source: Any, device: Device, tell: Callable[[Notice], None]
) -> nn.Module:
    """The language side with matrices in 8 bits, and the rest in float32."""
    bits = device.ops().eight
    assert bits is not None
    sizes = {called: tuple(weight.shape) for called, weight in part.module.named_parameters()}
    origin = eight.Origin(sizes, part.names, files, source.name, source.total(True))
    ready = {called: torch.from_numpy(made) for called, made in eight.matrices(origin, bits, tell).items()}
    table = sources_of(part.names[eight.TABLE])[0]
    ready[eight.TABLE] = torch.from_numpy(files.mapped(table)).view(dtype_of(files.names()[table][0]))
    fill(part.module, part.names, files, device.torch_device, torch.float32, unused=part.leftover, ready=ready)
    return part.module


def random(name: str, variant: str | None, device: Device, language: str) -> SpeechModel:
    """Random weights of a released size, for measurements without a download; reads no file. `name`: its whole name."""
    short = name.partition(":")[2].lower()
    if short == "toy":
        return toy(device=device.torch_device, dtype=dtype_of(language), place=device.to_device, ops=device.ops())
    family, config = made_up(short, variant)
    pieces = family.parts(config, device.ops())

    def filled(part: Part) -> nn.Module:
        bits = device.ops().eight
        if not part.float32 and language == EIGHT and bits is not None:
            random_fill(part.module, 0, "cpu", torch.float32, changed=partial(_packed, bits))
        else:
            random_fill(part.module, 0, device.torch_device, torch.float32 if part.float32 else dtype_of(language))
        return part.module

    for part in pieces.all():
        filled(part)
    tokenizer = PieceTokenizer(config.text_vocabulary)
    model = family.assemble(f"random:{short}", config, pieces, tokenizer, device.to_device, device.ops())
    return replace(model, cloner=family.cloner(config, filled, device.to_device))


def _packed(bits: Any, name: str, weight: torch.Tensor) -> torch.Tensor:
    """What takes the place of a tensor of the language side. The text's table is in bfloat16, as it is stored."""
    if eight.is_matrix(name):
        return torch.from_numpy(eight.packed(bits, name, weight.numpy()))
    return weight.bfloat16() if name == eight.TABLE else weight
