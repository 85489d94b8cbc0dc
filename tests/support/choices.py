"""Which kernels run: calls every operation of a card that is not there, and notes what would be launched.

Tensors are on torch's `meta` device and say that they are on a card; kernels of Triton and of `kernels/cuda` are noted
instead of launched. `tests/kernels/choices.json` has what was noted before there was a kernels/choose.py. To renew it:
`python tests/support/choices.py tests/kernels/choices.json` (needs triton, takes minutes).
"""
# ruff: noqa: B023, T201 - every function is called before its loop goes on; the names of the cards are for people

import contextlib
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from omnitts_cli.kernels.ops import ExpertBlock, LayerWeights, Normed, PredictorParts

META = torch.device("meta")
BF16, FP32 = torch.bfloat16, torch.float32
NAMES = {BF16: "bf16", FP32: "fp32"}
PRODUCTS = {"aten.mm", "aten.addmm", "aten.bmm", "aten._grouped_mm", "aten._softmax"}
EVERY = range(1, 257)
MANY = (257, 300, 383, 384, 385, 511, 512, 513, 1024, 1025)


@dataclass(frozen=True)
class Card:
    """A card that is not there."""

    name: str
    capability: tuple[int, int]
    arch: int | str
    nvrtc: bool = True
    native: bool = True
    exact: bool = False


CARDS = (
    Card("sm_75", (7, 5), 75), Card("sm_80", (8, 0), 80), Card("sm_86", (8, 6), 86), Card("sm_89", (8, 9), 89),
    Card("sm_90", (9, 0), 90), Card("sm_90, no NVRTC", (9, 0), 90, nvrtc=False),
    Card("sm_90, OMNITTS_NATIVE=0", (9, 0), 90, native=False), Card("sm_90, --exact", (9, 0), 90, exact=True),
    Card("sm_120", (12, 0), 120), Card("gfx942", (9, 4), "gfx942", nvrtc=False),
    Card("gfx90a", (9, 0), "gfx90a", nvrtc=False),
)  # fmt: skip


class Notes(TorchDispatchMode):
    """Names of kernels in the order of their launches."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        name = ".".join(str(func).split(".")[:2])
        if name in PRODUCTS or "scaled_dot_product" in name:
            self.names.append(name.removeprefix("aten."))
        return func(*args, **(kwargs or {}))

    def of(self, call: Callable[[], object]) -> str:
        """What a call launches, in one word."""
        self.names.clear()
        call()
        return "+".join(f"{name}*{n}" if n > 1 else name for name, n in Counter(self.names).items()) or "-"


def stretches(of: Callable[[int], str], counts: Sequence[int]) -> str:
    """ "1:a 17:b": from how many rows on something else runs."""
    found, last = list[str](), ""
    for count in counts:
        if (now := of(count)) != last:
            found.append(f"{count}:{now}")
            last = now
    return " ".join(found)


def at(stretched: str, count: int) -> str:
    """What runs for so many rows."""
    last = stretched
    for part in stretched.split(" "):
        first, _, word = part.partition(":")
        if first.isdecimal() and int(first) <= count:
            last = word
    return last


def sizes(key: str, counts: Sequence[int]) -> Sequence[int]:
    """The numbers of rows that are called: fewer of what takes long."""
    operation, *about = key.split(" ")
    if operation == "codec":
        return [n for n in counts if n <= 64 and (int(about[1]) <= 8 or n in (1, 2, 4, 8, 16, 32, 48, 64))]
    if "attend" in operation and int(about[2]) >= 24:
        return [n for n in counts if n < 4 or n in (8, 64, 128)]
    return counts


@contextlib.contextmanager
def on(card: Card) -> Iterator[tuple[Any, Notes]]:
    """The operations of a card that is not there, and what they launch."""
    from omnitts_cli.devices.cuda import CUDADevice

    notes, device = Notes(), object.__new__(CUDADevice)
    device.torch_device, device.exact, device.card, device.name = torch.device("cuda", 0), card.exact, "", "cuda:0"
    with contextlib.ExitStack() as patches:
        for target, name, value in stand_ins(card, notes):
            patches.enter_context(mock.patch.object(target, name, value, create=True))
        patches.enter_context(mock.patch.dict("os.environ", {} if card.native else {"OMNITTS_NATIVE": "0"}))
        forget()
        patches.callback(forget)
        ops = device.ops()
        patches.enter_context(notes)
        yield ops, notes


def forget() -> None:
    """What was kept of another card."""
    from omnitts_cli.kernels.cuda import attend, codec_last, codec_tiles, prefetched, rows
    from omnitts_cli.kernels.triton import overlap, shared_memory

    kept = [overlap.overlaps, shared_memory.shared_bytes, prefetched._kernel, attend._kernel, rows._rest]
    for function in (*kept, codec_tiles.compiled, codec_tiles.processors, codec_last.compiled):
        function.cache_clear()


def stand_ins(card: Card, notes: Notes) -> Iterator[tuple[Any, str, Any]]:
    """What stands in for the driver, for compilers, and for tensors on a card."""
    import triton
    from triton.runtime.interpreter import InterpretedFunction
    from triton.runtime.jit import JITFunction

    from omnitts_cli.kernels.cuda import attend, codec_last, codec_tiles, nvrtc, predictor, prefetched, rows, talker

    class Noted:
        def __init__(self, source: Path, name: str, *sizes: Any, **options: Any) -> None:
            self._name = f"{source.stem}:{name}"

        def launch(self, arguments: Any, grid: int = 0) -> None:
            notes.names.append(self._name)

    def run(self: Any, *args: Any, **kwargs: Any) -> None:
        notes.names.append(f"{self.fn.__module__.rpartition('.')[2]}:{self.fn.__name__}")

    target = SimpleNamespace(arch=card.arch)
    properties = {"max_shared_mem": 227 << 10 if card.capability == (9, 0) else 99 << 10}
    utils = SimpleNamespace(get_device_properties=lambda device: properties)
    driver = SimpleNamespace(get_current_target=lambda: target, get_current_device=lambda: 0, utils=utils)
    for kind in (JITFunction, InterpretedFunction):
        yield kind, "run", run
    for module in (prefetched, attend, codec_tiles, codec_last, predictor, talker, rows):
        yield module, "Kernel", Noted
    for module in (predictor, talker):
        yield module, "Overflow", lambda: SimpleNamespace(address=0, check=lambda: None)
    yield prefetched, "tensor_map", lambda *_: prefetched._Product().x
    yield nvrtc, "why_not", lambda: "" if card.nvrtc else "no NVRTC"
    yield triton.runtime.driver, "_active", driver
    yield torch.cuda, "get_device_capability", lambda *_: card.capability
    yield torch.cuda, "mem_get_info", lambda *_: (80 << 30, 80 << 30)
    yield torch.cuda, "get_device_properties", lambda *_: SimpleNamespace(multi_processor_count=132)
    yield torch.cuda, "device", lambda *_: contextlib.nullcontext()
    yield torch.cuda, "current_stream", lambda *_: SimpleNamespace(synchronize=lambda: None)
    yield torch.version, "hip", "7.0" if isinstance(card.arch, str) else None
    yield Tensor, "get_device", lambda self: 0


def empty(*shape: int, dtype: torch.dtype = FP32) -> Tensor:
    return torch.empty(shape, dtype=dtype, device=META)


def zeros(*shape: int) -> Tensor:
    return torch.zeros(shape, dtype=torch.int64, device=META)


WIDTHS = {
    "0.6b": {"qkv": (4096, 1024), "out": (1024, 2048), "gate_up": (6144, 1024), "down": (1024, 3072)},
    "1.7b": {"qkv": (4096, 2048), "out": (2048, 2048), "gate_up": (12288, 2048), "down": (2048, 6144)},
    "omni": {"qkv": (3072, 1024), "out": (1024, 2048)},
    "thinker": {"qkv": (5120, 2048), "out": (2048, 4096)},
    "tiny": {"qkv": (512, 256), "out": (256, 256), "gate_up": (1536, 256), "down": (256, 768)},
    "odd": {"qkv": (100, 60), "out": (60, 40), "gate_up": (180, 60), "down": (60, 90)},
}
"""Products (outputs, inputs) of talkers and thinkers; 0.6b has the predictor's."""
HEADS = {"3072x2048": (3072, 2048), "3072x1024": (3072, 1024), "2048x1024": (2048, 1024)}


def products(ops: Any, notes: Notes, counts: Sequence[int]) -> Iterator[tuple[str, str]]:
    for name, shapes in WIDTHS.items():
        for dtype in NAMES:
            if ops.exact and (dtype != BF16 or name not in ("0.6b", "1.7b")):
                continue  # `--exact` has no other models
            for part, shape in shapes.items():
                for operation, call in product_calls(ops, part, *shape, dtype).items():
                    yield (
                        f"{operation} {name} {part} {NAMES[dtype]}",
                        stretches(lambda n: notes.of(lambda: call(n)), counts),
                    )
    for name, (outputs, inputs) in HEADS.items():
        head, norm = empty(outputs, inputs, dtype=BF16), empty(inputs, dtype=BF16)
        for operation, call in {
            "linear": lambda n: ops.linear(empty(n, inputs, dtype=BF16), head),
            "norm_linear": lambda n: ops.norm_linear(Normed(empty(n, inputs, dtype=BF16), norm, 1e-6), head),
        }.items():
            yield f"{operation} {name} head bf16", stretches(lambda n: notes.of(lambda: call(n)), counts)


def product_calls(
    ops: Any, part: str, outputs: int, inputs: int, dtype: torch.dtype
) -> dict[str, Callable[[int], object]]:
    weight, norm, after = empty(outputs, inputs, dtype=dtype), empty(inputs, dtype=dtype), empty(outputs, dtype=dtype)

    def rows(count: int) -> Tensor:
        return empty(count, inputs, dtype=dtype)

    if part == "gate_up":
        return {"norm_swiglu": lambda n: ops.norm_swiglu(Normed(rows(n), norm, 1e-6), weight)}
    if part in ("out", "down"):
        return {"linear_add": lambda n: ops.linear_add(rows(n), weight, empty(n, outputs, dtype=dtype), after, 1e-6)}
    return {
        "linear": lambda n: ops.linear(rows(n), weight),
        "norm_linear": lambda n: ops.norm_linear(Normed(rows(n), norm, 1e-6), weight),
    }


ATTENTION = {
    "released": (16, 8, 128), "omni": (16, 2, 128), "thinker": (32, 4, 128), "tiny": (4, 2, 64), "deep96": (4, 2, 96),
    "deep8": (4, 2, 8),
}  # fmt: skip
"""Heads, kv heads, depth."""


def attention(ops: Any, notes: Notes, counts: Sequence[int]) -> Iterator[tuple[str, str]]:
    for name, (heads, kv, depth) in ATTENTION.items():
        for dtype in NAMES:
            for capacity, positions in ((16, 1), (16, 2), (300, 1), (300, 2), (300, 24), (300, 64), (300, 128)):

                def attend(table: Any, count: int) -> object:
                    qkv = empty(count, positions, (heads + 2 * kv) * depth, dtype=dtype)
                    norm, turns = empty(depth, dtype=dtype), empty(capacity, depth // 2)
                    keys, slots, where = (
                        empty(count + 1, kv, capacity, depth, dtype=dtype),
                        zeros(count),
                        zeros(count, positions),
                    )
                    given = qkv, norm, norm, 1e-6, turns, turns, keys, keys, slots, where
                    return table.attend_cached(*given, max(positions, 16))

                key = f"attend_cached {name} {capacity} {positions} {NAMES[dtype]}"
                few = sizes(key, counts)
                yield key, stretches(lambda n: notes.of(lambda: attend(ops, n)), few)
                if ops.long is not None and capacity > 16:
                    yield f"long.{key}", stretches(lambda n: notes.of(lambda: attend(ops.long, n)), few)


EXPERTS = {"omni": (1024, 384, 128, 6, 2), "thinker": (2048, 768, 128, 8, 0)}
"""Hidden, inner, experts, chosen, shared."""


def experts(ops: Any, notes: Notes, counts: Sequence[int]) -> Iterator[tuple[str, str]]:
    for name, (hidden, inner, count, chosen, shared) in EXPERTS.items():
        for dtype in NAMES:
            router = empty(count + bool(shared), hidden, dtype=dtype)
            gate_up, down = (
                empty(count + shared, *shape, dtype=dtype) for shape in ((2 * inner, hidden), (hidden, inner))
            )
            block, norm = ExpertBlock(router, gate_up, down, count, chosen, True), empty(hidden, dtype=dtype)
            for room, table, many in (("", ops, ()), ("long.", ops.long, MANY)):
                if table is not None:
                    mix = lambda n: notes.of(lambda: table.experts(empty(n, hidden, dtype=dtype), norm, 1e-6, block))  # noqa: E731
                    yield f"{room}experts {name} x {NAMES[dtype]}", stretches(mix, [*counts, *many])


STACKS = {
    "0.6b": (1024, 3072, 16, 8, 128, 28), "1.7b": (2048, 6144, 16, 8, 128, 28),
    "predictor": (1024, 3072, 16, 8, 128, 5), "tiny": (256, 768, 4, 2, 64, 5), "three": (3072, 9216, 16, 8, 128, 2),
}  # fmt: skip
"""Hidden, inner, heads, kv heads, depth, layers."""


def layers_of(
    hidden: int, inner: int, heads: int, kv: int, depth: int, count: int, dtype: torch.dtype
) -> list[LayerWeights]:
    wide = heads * depth
    shapes = ((hidden,), ((heads + 2 * kv) * depth, hidden), (depth,), (depth,), (hidden, wide), (hidden,))
    return [
        LayerWeights(*(empty(*shape, dtype=dtype) for shape in (*shapes, (2 * inner, hidden), (hidden, inner))))
    ] * count


def fused(ops: Any) -> Iterator[tuple[str, str]]:
    """Which stacks become one operation."""
    from omnitts_cli.kernels.cuda import predictor, talker

    with mock.patch.object(talker, "PersistentTalker", lambda *given, **more: "PersistentTalker"):
        for name, (hidden, *shape) in STACKS.items():
            for dtype in NAMES:
                for eps in (1e-6, 1e-5):
                    given = layers_of(hidden, *shape, dtype), empty(hidden, dtype=dtype), shape[2], eps
                    for operation in ("fuse_step", "fuse_stack"):
                        fuse = getattr(ops, operation)
                        yield f"{operation} {name} {eps} {NAMES[dtype]}", made(lambda: fuse and fuse(*given))
    with mock.patch.object(predictor, "PersistentPredictor", lambda *given, **more: "PersistentPredictor"):
        for name, shape in STACKS.items():
            for dtype in NAMES:
                for groups, codes in ((16, 2048), (8, 512)):
                    heads, tables = (empty(groups - n, codes, shape[0], dtype=dtype) for n in (1, 2))
                    norm, turns = empty(shape[0], dtype=dtype), empty(groups, 64)
                    layers = layers_of(*shape, dtype)
                    parts = PredictorParts(layers, norm, 1e-6, shape[3], turns, turns, heads, tables)
                    said = made(lambda: ops.fuse_predictor and ops.fuse_predictor(parts))
                    yield f"fuse_predictor {name} {groups} {NAMES[dtype]}", said


def made(call: Callable[[], object]) -> str:
    try:
        return str(call())
    except Exception as error:
        return type(error).__name__


def frames(ops: Any, notes: Notes, counts: Sequence[int]) -> Iterator[tuple[str, str]]:
    """What the persistent stacks launch, by the number of rows."""

    def one(*shape: int) -> Tensor:
        return empty(*shape, dtype=BF16)

    for name in ("0.6b", "1.7b"):
        hidden, *shape, _ = STACKS[name]
        step = ops.fuse_step(layers_of(hidden, *shape, 1, BF16), one(hidden), 8, 1e-6)
        keys, turns = one(1, 300, 8, 300, 128), empty(300, 64)

        def go(rows: int) -> str:
            numbers = zeros(rows)
            few = rows <= step.most_rows
            call = lambda: step(one(rows, hidden), numbers, numbers, turns, turns, keys, keys)  # noqa: E731
            return notes.of(call) if few else "layer by layer"

        yield f"talker {name}", stretches(go, counts)
    turns = empty(16, 64)
    layers = layers_of(*STACKS["predictor"], BF16)
    parts = PredictorParts(layers, one(1024), 1e-6, 8, turns, turns, one(15, 2048, 1024), one(14, 2048, 1024))
    rest = ops.fuse_predictor(parts)

    def draw(rows: int) -> str:
        whole, real, row = zeros(rows), empty(rows), one(rows, 1024)
        call = lambda: rest(row, row, whole, whole, whole, real, whole, real)  # noqa: E731
        return notes.of(call) if rows <= rest.most_rows else "layer by layer"

    yield "predictor", stretches(draw, counts)


def codec(ops: Any, notes: Notes, counts: Sequence[int]) -> Iterator[tuple[str, str]]:
    """Calls of the released codecs, by frames and streams."""
    from omnitts_cli.families.qwen3_omni.family import FAMILY as OMNI
    from omnitts_cli.families.qwen3_tts.family import FAMILY as TTS
    from omnitts_cli.models.slot_decoder import FusedSlotDecoder

    for name, family, made_up in (("tts", TTS, "1.7b-customvoice"), ("omni", OMNI, "omni")):
        if ops.codec is None:
            continue
        pieces = family.parts(family.made_up_config(Path(made_up), made_up), ops)
        decoder = pieces.decoder.module.to(META).requires_grad_(False)
        table = FusedSlotDecoder(decoder, 4, 32, ops.codec, False, META)
        for length in (1, 2, 4, 8, 16, 32):

            def call(rows: int) -> str:
                codes = zeros(rows, length, decoder.shape.groups)
                return notes.of(lambda: table.decode(codes, codes[:, 0, 0]))

            key = f"codec {name} {length}"
            yield key, stretches(call, sizes(key, counts))


@torch.no_grad()
def recorded(card: Card, counts: Sequence[int] = EVERY) -> dict[str, str]:
    with on(card) as (ops, notes):
        found = dict(products(ops, notes, counts)) | dict(attention(ops, notes, counts))
        found |= dict(experts(ops, notes, counts)) | dict(fused(ops)) | dict(codec(ops, notes, counts))
        if ops.fuse_step is not None:
            found |= dict(frames(ops, notes, counts))
        return found


if __name__ == "__main__":
    every: dict[str, dict[str, list[int]]] = {}
    for index, one_card in enumerate(CARDS):
        for key, said in recorded(one_card).items():
            every.setdefault(key, {}).setdefault(said, []).append(index)
        print(one_card.name)
    Path(sys.argv[1]).write_text(json.dumps(every, indent=0) + "\n")
