"""Models as networks of PyTorch: read from a folder, or with random weights."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from omnitts_cli.devices.device import Device
from omnitts_cli.errors import Notice
from omnitts_cli.families.common.family import Family
from omnitts_cli.families.common.parts import Part
from omnitts_cli.families.common.tokenizer import PieceTokenizer, read_tokenizer
from omnitts_cli.families.known import made_up
from omnitts_cli.families.toy import toy
from omnitts_cli.kernels import plain
from omnitts_cli.kernels.ops import EIGHT, Ops
from omnitts_cli.models.codec_decoder import CodecDecoder
from omnitts_cli.models.compiled import ROWS
from omnitts_cli.models.roles import SpeechModel
from omnitts_cli.models.slot_decoder import place_weights
from omnitts_cli.settings.engine import EngineSettings
from omnitts_cli.speech.load import ModelSource, origin_of
from omnitts_cli.weights import eight
from omnitts_cli.weights.arrays import sources_of, unusable
from omnitts_cli.weights.checkpoint import Checkpoint, dtype_of
from omnitts_cli.weights.load import fill
from omnitts_cli.weights.random_fill import random_fill

HOST = (eight.TABLE,)
"""Tensors of the language side that stay in the memory of the host: rows are sent from there."""
Pack = Callable[[torch.Tensor, int], torch.Tensor]


def stored(
    source: ModelSource,
    device: Device,
    settings: EngineSettings,
    language: str,
    check: Callable[[Mapping[str, tuple[int, ...]], int], None],
    tell: Callable[[Notice], None],
    ops: Ops,
) -> tuple[SpeechModel, Any]:
    """The model of a folder, with its language side in the precision `language`; and its parts."""
    family, config = source.family, source.config
    tokenizer = read_tokenizer(source.folder, config.text_vocabulary, settings.mistral_pattern)
    pieces = family.parts(config, ops)
    files = {part.folder: source.opened(part.folder) for part in pieces.all()}
    numbers = sum(weight.numel() for weight in pieces.decoder.module.parameters())
    check({called: tuple(weight.shape) for called, weight in pieces.language.module.named_parameters()}, numbers)

    def filled(part: Part) -> nn.Module:
        if not part.float32 and language == EIGHT:
            if ops.pack is not None:
                return _packed_on_card(part, files[part.folder], device, ops.pack)
            return _filled_with_eight(part, files, source, device, tell)
        dtype, place = torch.float32 if part.float32 else dtype_of(language), place_of(part, device, ops)
        fill(part.module, part.names, files[part.folder], place, dtype, unused=part.leftover, host=HOST)
        return part.module

    for part in pieces.all():
        filled(part)
    model = family.assemble(source.name, config, pieces, tokenizer, device.to_device, ops)
    place_weights(pieces.decoder.module, ops.codec, device.torch_device)
    return replace(model, cloner=family.cloner(config, filled, device.to_device)), pieces


def encoder(folder: Path, part: Part) -> nn.Module:
    """An encoder for cloning, on a CPU."""
    fill(part.module, part.names, Checkpoint.open(folder / part.folder), "cpu", torch.float32, unused=part.leftover)
    return part.module


def _filled_with_eight(
    part: Part,
    files: Mapping[str, Checkpoint],
    source: ModelSource,
    device: Device,
    tell: Callable[[Notice], None],
) -> nn.Module:
    """The language side with matrices in 8 bits, and the rest in float32."""
    bits = device.ops().eight
    assert bits is not None
    kept = eight.matrices(origin_of(source, files), bits, tell)
    ready = {called: torch.from_numpy(made) for called, made in kept.items() if called in part.names}
    mine, table = files[part.folder], sources_of(part.names[eight.TABLE])[0]
    ready[eight.TABLE] = torch.from_numpy(mine.mapped(table)).view(dtype_of(mine.names()[table][0]))
    fill(part.module, part.names, mine, device.torch_device, torch.float32, unused=part.leftover, ready=ready)
    if ROWS in kept:
        part.module.get_submodule("predictor").register_buffer(
            "narrowed", torch.from_numpy(kept[ROWS]), persistent=False
        )
    return part.module


def place_of(part: Part, device: Device, ops: Ops) -> torch.device:
    """Where a part is loaded. Slot decoders with operations of their own make their operands from the codec's weights,
    which nothing reads on a card."""
    kept = ops.codec is not None and isinstance(part.module, CodecDecoder)
    return torch.device("cpu") if kept else device.torch_device


def _packed_on_card(part: Part, files: Checkpoint, device: Device, pack: Pack) -> nn.Module:
    """The language side with matrices in 8 bits, and the rest in the precision of the device."""

    def changed(name: str, weight: torch.Tensor) -> torch.Tensor:
        if not eight.is_matrix(name):
            return weight
        try:
            return pack(weight, eight.group_of(name))
        except ValueError as error:
            raise unusable(files, sources_of(part.names[name])[0], str(error), "--dtype bf16") from None

    matrices = [name for name in part.names if eight.is_matrix(name)]
    fill(
        part.module,
        part.names,
        files,
        device.torch_device,
        device.dtype,
        keep_float32=matrices,
        unused=part.leftover,
        host=HOST,
        changed=changed,
    )
    return part.module


def random(name: str, variant: str | None, device: Device, language: str) -> SpeechModel:
    """Random weights of a released size, for measurements without a download; reads no file. `name`: its whole name."""
    short = name.partition(":")[2].lower()
    if short == "toy":
        return toy(device=device.torch_device, dtype=dtype_of(language), place=device.to_device, ops=device.ops())
    family, config = made_up(short, variant)
    ops = device.ops()
    pieces, bits = family.parts(config, ops), ops.eight

    def filled(part: Part) -> nn.Module:
        module, place = part.module, place_of(part, device, ops)
        if part.float32:
            random_fill(module, 0, place, torch.float32)
        elif language != EIGHT:
            random_fill(module, 0, place, dtype_of(language), host=HOST)
        elif bits is not None:
            random_fill(module, 0, "cpu", torch.float32, changed=partial(_packed, bits))
        else:
            assert ops.pack is not None
            matrices = [name for name, _ in module.named_parameters() if eight.is_matrix(name)]
            changed = partial(_packed_if_matrix, ops.pack)
            random_fill(module, 0, place, device.dtype, keep_float32=matrices, host=HOST, changed=changed)
        return module

    for part in pieces.all():
        filled(part)
    tokenizer = PieceTokenizer(config.text_vocabulary)
    model = family.assemble(f"random:{short}", config, pieces, tokenizer, device.to_device, ops)
    place_weights(pieces.decoder.module, ops.codec, device.torch_device)
    return replace(model, cloner=family.cloner(config, filled, device.to_device))


def without_values(name: str, family: Family, config: Any, device: Device) -> SpeechModel:
    """A model that has shapes only, in the precision of a device."""
    with torch.device("meta"):
        pieces = family.parts(config, plain.OPS)
        pieces.language.module.to(device.dtype)
        tokenizer = PieceTokenizer(config.text_vocabulary)
        model: SpeechModel = family.assemble(name, config, pieces, tokenizer, torch.from_numpy, plain.OPS)
    return model


def _packed_if_matrix(pack: Pack, name: str, weight: torch.Tensor) -> torch.Tensor:
    return pack(weight, eight.group_of(name)) if eight.is_matrix(name) else weight


def _packed(bits: Any, name: str, weight: torch.Tensor) -> torch.Tensor:
    """What takes the place of a tensor of the language side. The text's table is in bfloat16, as it is stored."""
    if eight.is_matrix(name):
        return torch.from_numpy(eight.packed(bits, name, weight.numpy()))
    return weight.bfloat16() if name == eight.TABLE else weight
