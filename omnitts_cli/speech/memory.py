"""How much memory a model takes, which is known before its weights are read."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

from omnitts_cli.devices.cpu import CPUDevice
from omnitts_cli.errors import DeviceError, Notice
from omnitts_cli.kernels.ops import EIGHT, Ops
from omnitts_cli.models.codec_decoder import CodecDecoder
from omnitts_cli.models.roles import precision_name
from omnitts_cli.settings.environment import EMBEDDED
from omnitts_cli.settings.setting import readable_size
from omnitts_cli.weights import eight

if TYPE_CHECKING:
    import torch

    from omnitts_cli.devices.device import Device

PROGRAM_BYTES = 450 << 20  # of the process without a model


def needed_bytes(pieces: Any, language: torch.dtype, ops: Ops) -> int:
    """The program, the language side in a precision, and the decoder. In 8 bits, the table of the text stays in its
    file."""
    total = PROGRAM_BYTES + codec_bytes(pieces.decoder.module, halves=language == EIGHT)
    for name, weight in pieces.language.module.named_parameters():
        if language != EIGHT:
            total += language.itemsize * weight.numel()
        elif eight.is_matrix(name):
            assert ops.eight is not None
            total += prod(eight.size_of(ops.eight, name, tuple(weight.shape)))
        elif name != eight.TABLE:
            total += 4 * weight.numel()
    return total


def codec_bytes(decoder: CodecDecoder, halves: bool) -> int:
    """The weights in float32, and once more for the compiled library: in float16 beside a model in 8 bits."""
    return sum((6 if halves else 8) * weight.numel() for weight in decoder.parameters())


def refuse_what_cannot_fit(name: str, pieces: Any, language: torch.dtype, device: Device) -> None:
    """Raises DeviceError if the weights alone are larger than the free memory of a card, before gigabytes are read."""
    needed = sum(language.itemsize * weight.numel() for weight in pieces.language.module.parameters())
    needed += sum(4 * weight.numel() for weight in pieces.decoder.module.parameters())
    if needed > (free := device.free_bytes()):
        takes = f"its weights take {readable_size(needed)} in {precision_name(language)}"
        raise DeviceError(
            f"{name} does not fit into the memory of {device.name}",
            cause=f"{takes}; {readable_size(free)} are free",
            hint="end other programs on the device   or   -m 0.6b   or   -d cpu",
        )


def shortage(name: str, pieces: Any, language: torch.dtype, device: CPUDevice, possible: bool) -> Notice | None:
    """What to say before a model is loaded that does not fit into the free memory. `possible`: its weights could be
    in 8 bits."""
    free, needed = device.known_free_bytes(), needed_bytes(pieces, language, device.ops())
    if free is None or needed <= free:
        return None
    hints = [f"-m {EMBEDDED}", "close other programs"]
    if possible and language != EIGHT and needed_bytes(pieces, EIGHT, device.ops()) <= free:
        hints.insert(0, f"--dtype {precision_name(EIGHT)}")
    takes = f"{name} takes about {readable_size(needed)} of memory in {precision_name(language)}"
    return Notice(f"{takes}, and only {readable_size(free)} are free", hint="   or   ".join(hints))
