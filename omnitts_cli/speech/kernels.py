"""The calls that a model makes of a device, which need not be here, and which kernel runs each of them.

kernels/choose.py decides; `omnitts doctor --kernels` prints it.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from omnitts_cli.devices import choose as devices
from omnitts_cli.errors import UsageError
from omnitts_cli.families.known import families, family_of
from omnitts_cli.kernels import calls, plain, plain_codec
from omnitts_cli.kernels.calls import BF16, FP16, FP32, AttentionCall, FrameCall, MixtureCall, ProductCall, StackCall
from omnitts_cli.kernels.choose import CARD, CPU, NAMES, NPU, Decision, decide
from omnitts_cli.kernels.cpu import library
from omnitts_cli.kernels.cpu.library import SMALL
from omnitts_cli.kernels.hardware import Hardware
from omnitts_cli.kernels.ops import EIGHT, CodecOps
from omnitts_cli.models.roles import SlotDecoder
from omnitts_cli.models.shapes import StackShape
from omnitts_cli.models.slot_decoder import slot_decoder
from omnitts_cli.speech.load import DTYPES, RANDOM
from omnitts_cli.weights.find import find

SETS = {
    "avx512": "AVX-512", "avx2": "AVX2", "avx512vnni": "AVX-512 VNNI", "avxvnni": "AVX-VNNI", "dotprod": "NEON dotprod",
    "plain": "plain C",
}  # fmt: skip
"""Instruction sets of the compiled library."""
FOR_EIGHT = {"avx512": "avx512vnni"}
"""The set for 8 bits of a processor that is not here, where it has another name."""
BYTES = {BF16: 2, FP16: 2, FP32: 4, EIGHT: 1}
"""Of a number."""
PROMPT, PIECE = 64, 8
"""Rows of a prompt, and of each piece in which prompts are read."""
POSITIONS = 300
"""Of the talker's cache; only that it is longer than the predictor's matters."""
CHUNK = 16
"""Frames of a large chunk of sound."""


@dataclass(frozen=True)
class Choice:
    """What runs one part of the work. `room`: talker, predictor, prompt, codec or frame."""

    room: str
    part: str
    decision: Decision


@dataclass(frozen=True)
class KernelQuery:
    """What is asked about: a model in a precision on a device, and the requests at the same time."""

    model: str
    rows: int
    hardware: Hardware
    dtype: str
    parts: Any

    @staticmethod
    def of(model: str, rows: int, card: str | None, device: str, dtype: str) -> "KernelQuery":
        """`card`: one that is not here; else `device`. `dtype`: as --dtype has it."""
        hardware, parts = hardware_of(card, device), parts_of(model)
        return KernelQuery(model, rows, hardware, dtype_of(dtype, hardware, parts), parts)

    @property
    def precision(self) -> str:
        """Of talker and predictor, in words."""
        return NAMES[self.dtype]

    @property
    def where(self) -> str:
        """The card, or the CPU with the instruction sets of its library."""
        return self.hardware.card or self.hardware.device

    def choices(self) -> list[Choice]:
        """What runs each part of a frame, a prompt and a chunk of sound."""
        return [*decisions(self.parts, self.hardware, self.dtype, self.rows)]


def hardware_of(card: str | None, device: str) -> Hardware:
    """That of a device of this machine, or of a card that is not here, with all its libraries."""
    if card is None:
        found = devices.choose(device).hardware
        return replace(found, card=sets_here()) if found.device == CPU else found
    name = card.lower()
    if sm := re.fullmatch(r"sm_(\d+)(\d)", name):
        return Hardware(CARD, name, (int(sm[1]), int(sm[2])), frozenset({"triton", "nvrtc"}))
    if name in SETS or name == CPU:
        return Hardware(CPU, sets(name, FOR_EIGHT.get(name, name)), libraries=frozenset({"c", "c8"}))
    if name == NPU:
        return Hardware(NPU)
    known = f"sm_80, sm_90 (H100 and H200) and so on, {CPU}, {', '.join(SETS)}, {NPU}"
    raise UsageError(f"--for {card}: not a card or a processor", hint=f"--for with one of {known}")


def sets_here() -> str:
    """This CPU with the instruction sets of its library."""
    found = library.usable()
    return sets(found[0], library.quantised_usable()[0]) if found else f"{CPU}, library not compiled"


def sets(variant: str, eight: str) -> str:
    """A CPU with its instruction sets, for float32 and for 8 bits."""
    if variant not in SETS:
        return CPU
    one = {"avx512vnni": "avx512", "avxvnni": "avx2", "dotprod": "plain"}.get(variant, variant)
    return f"{CPU} with {SETS[one]}; 8 bits: {SETS[eight]}"


def dtype_of(wanted: str, hardware: Hardware, parts: Any) -> str:
    """The precision of talker and predictor, as speech/load.py chooses it."""
    if wanted in DTYPES:
        return DTYPES[wanted]
    if hardware.device != CPU:
        return BF16 if hardware.capability >= (8, 0) or hardware.device == NPU else FP32
    module = parts.language.module
    size = 4 * sum(weight.numel() for weight in module.parameters())
    eight = "c8" in hardware.libraries and not hardware.off and module.talker.stack.shape.experts is None
    return EIGHT if eight and size >= SMALL else FP32


def parts_of(name: str) -> Any:
    """The parts of a model without numbers: a released one need not be here."""
    bare = name.removeprefix(RANDOM)
    for family in families():
        if (whole := family.complete(bare, None)) in family.made_up:
            return family.parts(family.made_up_config(Path(whole), whole), plain.OPS)
    folder = find(name, offline=True).folder
    assert folder is not None
    family = family_of(folder)
    return family.parts(family.read_config(folder), plain.OPS)


def decisions(parts: Any, hardware: Hardware, dtype: str, rows: int) -> Iterator[Choice]:
    """What runs each part of a frame of `rows` requests, of a prompt, and of the codec."""
    talker, predictor = parts.language.module.talker, parts.language.module.predictor
    of_talker = stack_call(talker.shape.stack, dtype, rows)
    of_predictor = stack_call(predictor.shape.stack, dtype, rows)
    of_predictor = of_predictor._replace(groups=predictor.shape.groups, codes=predictor.shape.codes)
    if hardware.device == CPU:
        stacks = [decide("fuse_stack", hardware, one._replace(rows=1)) for one in (of_talker, of_predictor)]
        yield Choice("talker", "stack", stacks[0])
        yield Choice("predictor", "stack", stacks[1])
        frame = FrameCall(0, "", stacks[0].variant.name, stacks[1].variant.name)
        yield Choice("frame", "all of it", decide("fuse_frame", hardware, frame))
    else:
        ask = partial(layer_calls, hardware, dtype)
        step, rest = decide("fuse_step", hardware, of_talker), decide("fuse_predictor", hardware, of_predictor)
        yield Choice("talker", "all layers", step)
        if not step.variant.runs:
            yield from ask("talker", talker.shape.stack, rows, 1, POSITIONS)
        yield Choice("predictor", "the whole frame", rest)
        if not rest.variant.runs:
            yield from ask("predictor", predictor.shape.stack, rows, 1, predictor.shape.groups)
        head = ProductCall(rows, dtype, talker.shape.vocabulary, talker.shape.stack.hidden)
        yield Choice("talker", "head", decide("linear", hardware, head))
        yield from ask(f"prompt of {PROMPT} rows", talker.shape.stack, PROMPT // PIECE, PIECE, POSITIONS)
    yield Choice("frame", "draws", decide("choose", hardware, None))
    yield Choice("frame", "bookkeeping", decide("begin", hardware, None))
    yield from codec_calls(hardware, parts.decoder.module, rows)


def stack_call(shape: StackShape, dtype: str, rows: int) -> StackCall:
    """A step of a stack, without the groups of a predictor."""
    at, wide = shape, shape.heads * shape.head_dim
    numbers = at.hidden * (wide + 2 * at.kv_heads * at.head_dim) + at.hidden * wide + 3 * at.hidden * at.inner
    size = at.layers * numbers * BYTES[dtype]
    return StackCall(rows, dtype, at.hidden, at.inner, at.heads, at.kv_heads, at.head_dim, at.eps, size, at.layers)


def layer_calls(
    hardware: Hardware, dtype: str, room: str, at: StackShape, rows: int, positions: int, capacity: int
) -> Iterator[Choice]:
    """The operations of a layer that is not part of a larger one."""
    wide, count = at.heads * at.head_dim, rows * positions

    def product(operation: str, part: str, outputs: int, inputs: int) -> Choice:
        return Choice(room, part, decide(operation, hardware, ProductCall(count, dtype, outputs, inputs)))

    yield product("norm_linear", "qkv", wide + 2 * at.kv_heads * at.head_dim, at.hidden)
    call = AttentionCall(rows, dtype, positions, capacity, at.heads, at.kv_heads, at.head_dim)
    yield Choice(room, "attention", decide("attend_cached", hardware, call))
    yield product("linear_add", "out", at.hidden, wide)
    if at.experts is not None:
        mixture = MixtureCall(count, dtype, at.hidden, at.experts.inner, at.experts.shared > 0)
        yield Choice(room, "experts", decide("experts", hardware, mixture))
        return
    yield product("norm_swiglu", "gate and up", 2 * at.inner, at.hidden)
    yield product("linear_add", "down", at.hidden, at.inner)


def codec_calls(hardware: Hardware, codec: Any, rows: int) -> Iterator[Choice]:
    """What runs a chunk of CHUNK frames, found by decoding one without numbers."""
    own = decide("codec", hardware, None)
    if not own.variant.runs:
        yield Choice("codec", "all of it", own)
        return
    found: list[Choice] = []
    operand = torch.float32 if hardware.device == CPU else torch.float16

    def note(operation: str, facts: Any, words: Any, *given: Any, **options: Any) -> bool:
        decision = decide(operation, hardware, facts(*given, **options))
        if decision.variant.runs or decision.refused:
            found.append(Choice("codec", words(*given), decision))
        return bool(decision.variant.runs)

    def fuse(parts: Any, halves: bool) -> None:
        note("codec.fuse_decoder", calls.of_decoder, lambda *_: "all of it", parts, halves)

    noting: dict[str, Any] = {
        "product": partial(note, "codec.product", calls.of_codec, lambda *_: "products"),
        "residual_unit": partial(note, "codec.residual_unit", calls.of_unit, unit_words),
        "close": partial(note, "codec.close", calls.of_close, lambda *_: "last units and sound"),
        "fuse_decoder": fuse,
        **dict.fromkeys(("attend", "depthwise_norm", "output_conv", "embed_codes", "zero_start"), nothing),
        **dict.fromkeys(("load_history", "store_history"), nothing),
    }
    ops = replace(plain_codec.OPS, operand=operand, **noting)
    decoder = meta_decoder(codec, ops)
    if not (found and found[0].decision.variant.runs):
        groups = codec.shape.groups
        codes = torch.zeros(rows, CHUNK, groups, dtype=torch.int64, device="meta")
        decoder.decode(codes, codes[:, 0, 0])
    yield from found


def nothing(*given: Any) -> None:
    """Stands in for an operation that has one variant."""


def unit_words(x: Tensor, *given: Any) -> str:
    """The name of a residual unit of the codec, from its input."""
    return f"units of {x.shape[2]} channels"


@torch.no_grad()
def meta_decoder(codec: Any, ops: CodecOps) -> SlotDecoder:
    """A slot decoder without numbers over these operations."""
    return slot_decoder(codec.to("meta").requires_grad_(False), 1, CHUNK, ops)
