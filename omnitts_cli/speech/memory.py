"""How much memory a model takes, which is known before its weights are read; and how many requests of which length fit
beside them.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from math import prod

from omnitts_cli.devices.device import Device
from omnitts_cli.devices.host import HostDevice
from omnitts_cli.engine.codec_jobs import rows_together
from omnitts_cli.engine.slots import Plan
from omnitts_cli.errors import DeviceError, Notice
from omnitts_cli.kernels.ops import EIGHT, EightBits, grouped_shape
from omnitts_cli.models.compiled import InputRows
from omnitts_cli.models.roles import SpeechModel, precision_name
from omnitts_cli.settings.environment import EMBEDDED
from omnitts_cli.settings.setting import readable_size
from omnitts_cli.weights import eight

PROGRAM_BYTES, LEAN_BYTES = 450 << 20, 95 << 20
"""Of the process without a model, with PyTorch and without it."""
LEAST_POSITIONS = 512 + 375
"""Of a request of 30 s: prompt and frames."""
CALL_BYTES = 200 << 20
"""What captured steps and a call of the codec take for one request, roughly."""
ITEM_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}


@dataclass(frozen=True)
class Needs:
    """What a model's memory depends on."""

    language: Mapping[str, tuple[int, ...]]  # shapes of the language side, by name
    decoder_numbers: int
    bits: Callable[[], EightBits | None]  # what makes matrices in 8 bits
    lean: bool = False  # without PyTorch
    decoder_item: int = 4  # bytes of a weight of the decoder on a card
    words: bool = False  # in float32, matrices of the stacks are exact in bfloat16 and take two bytes a weight

    def size_bytes(self, language: str) -> int:
        """The program, the language side in a precision, the predictor's input rows, and the decoder. In 8 bits, the
        table of the text stays in its file."""
        total = (LEAN_BYTES if self.lean else PROGRAM_BYTES) + self.codec_bytes(halves=language == EIGHT)
        item = 4 if language == EIGHT else ITEM_BYTES[language]
        for name, shape in self.language.items():
            if language == EIGHT and eight.is_matrix(name):
                bits = self.bits()
                assert bits is not None
                total += prod(eight.size_of(bits, name, shape))
            elif self.words and language == "float32" and eight.in_stack(name):
                total += 2 * prod(shape)
            elif language != EIGHT or name != eight.TABLE:
                total += item * prod(shape)
        return total + item * sum(prod(shape) for _, shape in InputRows(self.language).shapes().values())

    def card_bytes(self, language: str) -> int:
        """The weights on a card. The table of the text stays in the memory of the host."""
        total = self.decoder_item * self.decoder_numbers
        for name, shape in self.language.items():
            if language == EIGHT and eight.is_matrix(name):
                total += prod(grouped_shape(shape, eight.group_of(name)))
            elif name != eight.TABLE:
                total += ITEM_BYTES["bfloat16" if language == EIGHT else language] * prod(shape)
        return total

    def least_bytes(self, language: str) -> int:
        """The same, and what one short request takes: its keys and values, and those of the padding."""
        numbers = sum(
            shape[0] - self.language[name.replace("qkv", "out")][1]
            for name, shape in self.language.items()
            if name.startswith("talker.") and name.endswith(".qkv")
        )
        item = ITEM_BYTES["bfloat16" if language == EIGHT else language]
        return self.card_bytes(language) + 2 * LEAST_POSITIONS * numbers * item + CALL_BYTES

    def codec_bytes(self, halves: bool) -> int:
        """Weights of the compiled library, in float16 and in quads beside a model in 8 bits: 2.5 bytes each. PyTorch
        has others in float32.
        """
        compiled = 5 * self.decoder_numbers // 2 if halves else 4 * self.decoder_numbers
        return compiled + 4 * (not self.lean) * self.decoder_numbers


def refuse_what_cannot_fit(
    name: str, needs: Needs, language: str, device: Device, others: Callable[[], Iterable[tuple[str, int]]] = tuple
) -> None:
    """Raises DeviceError if the weights and one request are larger than the free memory of a card, before gigabytes are
    read. `others`: what to type instead, and what that takes.
    """
    needed = needs.least_bytes(language)
    if needed <= (free := device.free_bytes()):
        return
    takes = f"it takes {readable_size(needed)} in {precision_name(language)} with one request; {of_free(device, free)}"
    fitting = [typed for typed, size in others() if size <= free][:2]
    raise DeviceError(
        f"{name} does not fit into the memory of {device.name}",
        cause=takes,
        hint="   or   ".join([*(fitting or ["end other programs on the device", "-m tiny"]), "-d cpu"]),
    )


def of_free(device: Device, free: int) -> str:
    """How much may be used, and whose limit that is."""
    limited = device.most_bytes is not None
    return f"--max-memory leaves {readable_size(free)}" if limited else f"{readable_size(free)} are free"


def check_memory(
    name: str,
    needs: Needs,
    language: str,
    device: HostDevice,
    possible: Callable[[], bool],
    tell: Callable[[Notice], None],
) -> None:
    """Raises DeviceError if a model takes more than the memory that a CPU's program may use; tells of one that does not
    fit into what is free. `possible`: its weights could be in 8 bits."""
    most, free, needed = device.most_bytes, device.known_free_bytes(), needs.size_bytes(language)
    if most is not None and needed > most:
        smaller = possible() and language != EIGHT and needs.size_bytes(EIGHT) <= most
        raise DeviceError(
            f"{name} takes {readable_size(needed)} of memory in {precision_name(language)}",
            cause=f"--max-memory is {readable_size(most)}",
            hint=f"--dtype {precision_name(EIGHT)}   or   -m {EMBEDDED}" if smaller else f"-m {EMBEDDED}",
        )
    if free is not None and needed > free:
        hints = [f"-m {EMBEDDED}", "close other programs"]
        if possible() and language != EIGHT and needs.size_bytes(EIGHT) <= free:
            hints.insert(0, f"--dtype {precision_name(EIGHT)}")
        takes = f"{name} takes about {readable_size(needed)} of memory in {precision_name(language)}"
        tell(Notice(f"{takes}, and only {readable_size(free)} are free", hint="   or   ".join(hints)))


# ---- how many slots fit: the engine allocates everything when it starts

USUAL_SECONDS = 120.0
SHORTER_SECONDS = (90.0, 60.0, 45.0, 30.0)
"""The longest speech of one request, and the lengths that are tried where fewer than LEAST_SLOTS of these fit."""
LEAST_SLOTS = 4
KEPT_FREE = 0.15
"""Share of the free memory that slots leave to captured steps and the codec's chunks."""
KEPT_BESIDE_CALLS = 0.05  # the same, beside the largest captured calls: for kept prefixes of prompts
SOUND_SHARE = 0.125
"""Share of the free memory that one call of the codec may take, if one request fits into it."""
LIBRARY_BYTES = 96 << 20
"""Workspaces of the libraries, one for each stream; on an H100, 32 MiB each."""
PREFIX_ROWS = 256
"""Of a long prefix: a clone's clip of 15 s, and its text."""


def slot_bytes(model: SpeechModel, plan: Plan) -> int:
    """Device memory of one slot: keys and values, text ring, codes, the codec's state."""
    keys = model.cache(1, 1).keys
    return (
        2 * keys.nbytes * plan.positions
        + plan.text_rows * model.facts.hidden * keys.itemsize
        + plan.frames * model.facts.groups * 8
        + model.stream_bytes
    )


def fitting_slots(model: SpeechModel, device: Device, plan: Plan, taken: int = 0) -> int:
    """How many of the plan's slots fit beside the largest captured calls, which grow with them; one is spare. `taken`:
    by weights that are not loaded yet."""
    free, each = device.free_bytes() - taken, slot_bytes(model, plan)
    for slots in range(plan.slots, 0, -1):
        smaller = plan.with_slots(slots)
        call = 0
        if device.captures:
            call = sound_bytes(model, smaller) + model.prompt_bytes(smaller.prefill_rows[-1]) + LIBRARY_BYTES
        kept = max(KEPT_FREE * free, call + KEPT_BESIDE_CALLS * free)
        if (slots + 1) * each + kept <= free:
            return slots
    return 0


def sound_bytes(model: SpeechModel, plan: Plan) -> int:
    """Of the largest call of the codec."""
    most = min(plan.slots, max(plan.sound_rows))
    return max(model.call_bytes(n, rows_together(n, most, plan.sound_frames)) for n in plan.chunks)


def with_sound_frames(model: SpeechModel, device: Device, plan: Plan, taken: int = 0) -> Plan:
    """The plan, with as many frames in one call of the codec as fit into its share of the memory: those of one request,
    or twice as many, and so on."""
    room = SOUND_SHARE * (device.free_bytes() - taken)
    while sound_bytes(model, plan) > room and (plan.sound_frames or math.inf) > plan.chunks[-1]:
        frames = plan.sound_frames or plan.chunks[-1] << max(plan.sound_rows).bit_length()
        plan = replace(plan, sound_frames=max(frames // 2, plan.chunks[-1]))
    return plan


def with_prefixes(model: SpeechModel, device: Device, plan: Plan) -> Plan:
    """The plan with as many kept prefixes as fit into the share of memory for them."""
    each = 2 * model.cache(1, 1).keys.nbytes * PREFIX_ROWS
    fitting = int(KEPT_BESIDE_CALLS * device.free_bytes() / each)
    return replace(plan, prefixes=max(2, min(plan.prefixes, fitting)))


def shortened(model: SpeechModel, device: Device, plan: Plan, taken: int = 0) -> Plan:
    """The plan, with shorter requests if fewer than LEAST_SLOTS of them fit: as long as possible for so many, otherwise
    for as many as possible."""
    wanted = min(plan.slots, LEAST_SLOTS)
    best, most = plan, fitting_slots(model, device, plan, taken)
    rest = plan.positions - plan.frames
    for seconds in SHORTER_SECONDS:
        frames = int(seconds * model.facts.frame_rate) + 1
        if most >= wanted or frames >= plan.frames:
            continue
        shorter = replace(plan, frames=frames, positions=frames + rest)
        if (fitting := fitting_slots(model, device, shorter, taken)) > most or not most:
            best, most = shorter, fitting
    return best
