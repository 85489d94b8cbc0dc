"""Compiles Triton's kernels for a card that is not here: `triton_cards.py SM SHARED ROWS PROMPTS CHUNKS [MODEL [HOW]]`.

The model lies on the device "meta", so it needs no memory; a launch compiles its kernel for the card and runs nothing.
Prints as JSON, for each kernel, how often it is launched, the shared memory that it needs, and what went wrong. ROWS
and PROMPTS are lists such as 1,8; CHUNKS are streams x frames, such as 1x1,4x4. HOW is q8, or learn: then steps of an
adapter and of all weights. Needs the package triton.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.runtime.jit import JITFunction

from omnitts_cli.families.qwen3_tts.family import FAMILY
from omnitts_cli.families.qwen3_tts.modules import parts
from omnitts_cli.kernels.ops import LowRank, grouped_shape
from omnitts_cli.tuning.learned import with_gradients
from omnitts_cli.weights import eight
from omnitts_cli.weights.load import put

SM, SHARED = int(sys.argv[1]), int(sys.argv[2])
ROWS, PROMPTS = ([int(size) for size in words.split(",") if size] for words in sys.argv[3:5])
CHUNKS = [tuple(map(int, chunk.split("x"))) for chunk in sys.argv[5].split(",") if chunk]
NAME = sys.argv[6] if len(sys.argv) > 6 else "0.6b-customvoice"
PACKED, LEARNS = (word in sys.argv[7:] for word in ("q8", "learn"))
POSITIONS = 800
found: dict[str, dict[str, Any]] = {}


class Driver:
    """What a launch asks of the driver, as the card would answer."""

    utils = SimpleNamespace(get_device_properties=lambda device: {"max_shared_mem": SHARED, "multiprocessor_count": 82})
    get_current_device = staticmethod(lambda: 0)
    get_current_stream = staticmethod(lambda device=None: 0)
    get_current_target = staticmethod(lambda: GPUTarget("cuda", SM, 32))
    get_active_torch_device = staticmethod(lambda: torch.device("meta"))
    get_device_interface = staticmethod(lambda: torch.cuda)


def compiled(self: Any, grid: Any) -> Callable[..., Any]:
    """In place of `kernel[grid]`."""

    def compile(*given: Any, **more: Any) -> Any:
        about = found.setdefault(self.__name__, {"launches": 0, "shared": 0, "wrong": []})
        about["launches"] += 1
        try:
            kernel = self.warmup(*given, grid=grid, **more)
        except Exception as error:
            about["wrong"].append(f"{type(error).__name__}: {error}"[-300:])
            return None
        kernel = kernel.result() if hasattr(kernel, "result") else kernel
        about["shared"] = max(about["shared"], kernel.metadata.shared)
        return kernel

    return compile


def numbers(*shape: int, dtype: torch.dtype = torch.int64) -> torch.Tensor:
    return torch.empty(shape, dtype=dtype)


def language(module: Any, ops: Any) -> None:
    """Frames and prompts."""
    talker, predictor, embedder = module.talker, module.predictor, module.embedder
    talker.prepare()
    predictor.prepare(embedder)
    first = predictor.inputs(embedder)[0]
    for rows in ROWS:
        row, slots, positions = (
            numbers(rows, talker.shape.stack.hidden, dtype=torch.bfloat16),
            numbers(rows),
            numbers(rows),
        )
        cache = talker.cache(rows + 1, POSITIONS)
        talker.logits(talker.step(row, positions, slots, cache, POSITIONS))

        def choose(group: int, scores: Any, to: Any, rows: int = rows, slots: Any = slots, at: Any = positions) -> Any:
            settings = numbers(rows, dtype=torch.float32), numbers(rows), numbers(rows, dtype=torch.float32)
            return ops.choose_row(scores, slots, at, group, *settings, to)

        table = first._replace(rows=numbers(rows, first.rows.shape[1], dtype=torch.bfloat16), value=None)
        predictor.frame(row, slots, table, embedder, choose)
    for rows in PROMPTS:
        prompt = numbers(1, rows, talker.shape.stack.hidden, dtype=torch.bfloat16)
        talker.prefill(prompt, numbers(1), numbers(1), talker.cache(2, POSITIONS), POSITIONS)


def learning(module: Any, ops: Any) -> None:
    """Gradients of an adapter on all layers, and of all weights."""
    layers = ("qkv", "out", "gate_up", "down")
    for full in (False, True):
        module = (module.float() if full else module).requires_grad_(full)
        for stack in (module.talker.stack, module.predictor.stack):
            pairs = {
                id(weight): [LowRank(torch.empty(16, weight.shape[1], requires_grad=True),
                                     torch.empty(len(weight), 16, requires_grad=True), 2.0, 0, len(weight))]
                for layer in stack.layers for weight in (getattr(layer, name) for name in layers)
            }  # fmt: skip

            def linear(x: Any, weight: Any, bias: Any = None, pairs: Any = pairs, full: bool = full) -> Any:
                if full:
                    return torch.nn.functional.linear(x.bfloat16(), weight.bfloat16())
                return ops.learn.low_rank(x, weight, bias, pairs[id(weight)], 0.05)

            stack.ops = with_gradients(ops, linear)
            kind = torch.float32 if full else torch.bfloat16
            rows = torch.empty(2, 32, stack.shape.hidden, dtype=kind, requires_grad=True)
            stack(rows).sum().backward()


def packed(module: torch.nn.Module) -> None:
    """Matrices in 8 bits in the place of others."""
    for name, weight in list(module.named_parameters()):
        if eight.is_matrix(name):
            put(module, name, numbers(*grouped_shape(tuple(weight.shape), eight.group_of(name)), dtype=torch.uint8))


def main() -> None:
    triton.runtime.driver.set_active(Driver())
    JITFunction.__getitem__ = compiled
    from omnitts_cli.kernels import choose
    from omnitts_cli.models.slot_decoder import slot_decoder

    # Triton's kernels, also where a card before sm_80 would get the plain operations
    ops = choose.ops(choose.Hardware("cuda", "", choose.TRITON_FROM, frozenset({"triton"})))
    assert ops.codec is not None

    with torch.device("meta"), torch.inference_mode():
        config = FAMILY.made_up_config(Path(NAME), NAME)
        pieces = parts(config, ops)
        module = pieces.language.module.bfloat16()
        if PACKED:
            packed(module)
        language(module, ops)
        if CHUNKS:
            codec = next(part.module for part in pieces.all() if part.float32 and hasattr(part.module, "closing"))
            decoder = slot_decoder(codec, 32, 16, ops.codec)
        for streams, frames in CHUNKS:
            codes = numbers(streams, frames, config.decoder.groups)
            decoder.decode(codes, codes[:, 0, 0])
    if LEARNS:
        with torch.device("meta"):
            learning(parts(config, ops).language.module.bfloat16(), ops)
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
