"""How much memory a model takes, which is known before its weights are read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from omnitts_cli.devices.device import Device
from omnitts_cli.devices.host import HostDevice
from omnitts_cli.errors import DeviceError, Notice
from omnitts_cli.kernels.ops import EIGHT, EightBits
from omnitts_cli.models.roles import precision_name
from omnitts_cli.settings.environment import EMBEDDED
from omnitts_cli.settings.setting import readable_size
from omnitts_cli.weights import eight

PROGRAM_BYTES, LEAN_BYTES = 450 << 20, 150 << 20
"""Of the process without a model, with PyTorch and without it."""
ITEM_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}


@dataclass(frozen=True)
class Needs:
    """What a model's memory depends on."""

    language: Mapping[str, tuple[int, ...]]  # shapes of the language side, by name
    decoder_numbers: int
    bits: EightBits | None
    lean: bool  # without PyTorch

    def size_bytes(self, language: str) -> int:
        """The program, the language side in a precision, and the decoder. In 8 bits, the table of the text stays in its
        file."""
        total = (LEAN_BYTES if self.lean else PROGRAM_BYTES) + self.codec_bytes(halves=language == EIGHT)
        for name, shape in self.language.items():
            if language != EIGHT:
                total += ITEM_BYTES[language] * prod(shape)
            elif eight.is_matrix(name):
                assert self.bits is not None
                total += prod(eight.size_of(self.bits, name, shape))
            elif name != eight.TABLE:
                total += 4 * prod(shape)
        return total

    def codec_bytes(self, halves: bool) -> int:
        """Weights of the compiled library, in float16 beside a model in 8 bits; PyTorch has others in float32."""
        return ((2 if halves else 4) + 4 * (not self.lean)) * self.decoder_numbers


def refuse_what_cannot_fit(name: str, needs: Needs, language: str, device: Device) -> None:
    """Raises DeviceError if the weights alone are larger than the free memory of a card, before gigabytes are read."""
    needed = ITEM_BYTES[language] * sum(map(prod, needs.language.values())) + 4 * needs.decoder_numbers
    if needed > (free := device.free_bytes()):
        takes = f"its weights take {readable_size(needed)} in {precision_name(language)}"
        raise DeviceError(
            f"{name} does not fit into the memory of {device.name}",
            cause=f"{takes}; {readable_size(free)} are free",
            hint="end other programs on the device   or   -m 0.6b   or   -d cpu",
        )


def shortage(name: str, needs: Needs, language: str, device: HostDevice, possible: bool) -> Notice | None:
    """What to say before a model is loaded that does not fit into the free memory. `possible`: its weights could be
    in 8 bits."""
    free, needed = device.known_free_bytes(), needs.size_bytes(language)
    if free is None or needed <= free:
        return None
    hints = [f"-m {EMBEDDED}", "close other programs"]
    if possible and language != EIGHT and needs.size_bytes(EIGHT) <= free:
        hints.insert(0, f"--dtype {precision_name(EIGHT)}")
    takes = f"{name} takes about {readable_size(needed)} of memory in {precision_name(language)}"
    return Notice(f"{takes}, and only {readable_size(free)} are free", hint="   or   ".join(hints))
