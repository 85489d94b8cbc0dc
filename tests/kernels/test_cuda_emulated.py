"""The persistent kernels' own source on a CPU (tests/support/cuda_emulator.py) against the plain operations."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cuda_emulator
import pytest
import torch
from cuda_emulator import EmulatedKernel
from torch import Tensor

from omnitts_cli.kernels import plain
from omnitts_cli.kernels.cuda import predictor, talker
from omnitts_cli.kernels.ops import LayerWeights, PredictorParts

pytestmark = pytest.mark.skipif(cuda_emulator.compiler() is None, reason="needs a C++ compiler on x86-64")
GROUPS, LAYERS, CAPACITY = 3, 2, 90
CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def emulated(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for module in (predictor, talker):
        monkeypatch.setattr(module, "Kernel", EmulatedKernel)
        monkeypatch.setattr(module, "Overflow", cuda_emulator.Overflow)
    monkeypatch.setattr(predictor, "GROUPS", GROUPS)
    yield
    EmulatedKernel.order = 0


def normal(*shape: int, std: float = 0.02) -> Tensor:
    return (std * torch.randn(shape)).bfloat16()


def layers_of(blocks: int, count: int) -> list[LayerWeights]:
    """Random layers of a released shape."""
    hidden, inner = 1024 * blocks, 3072 * blocks
    shapes = {"qkv": (4096, hidden), "out": (hidden, 2048), "gate_up": (2 * inner, hidden), "down": (hidden, inner)}
    norms = {"input_norm": hidden, "mlp_norm": hidden, "q_norm": 128, "k_norm": 128}
    return [
        LayerWeights(
            **{name: normal(*shape) for name, shape in shapes.items()},
            **{name: 1 + normal(width, std=0.1) for name, width in norms.items()},
        )
        for _ in range(count)
    ]


def turns(positions: int) -> tuple[Tensor, Tensor]:
    angle = torch.arange(positions)[:, None] * 1e6 ** -(torch.arange(64) / 64)
    return angle.cos(), angle.sin()


def in_type(layer: LayerWeights, dtype: torch.dtype) -> dict[str, Tensor]:
    return {name: getattr(layer, name).to(dtype) for name in LayerWeights.__annotations__}


def after_attention(x: Tensor, seen: Tensor, of: dict[str, Tensor]) -> Tensor:
    """The rest of a layer, from what its heads have attended to."""
    x = x + seen @ of["out"].T
    gate, up = (plain.rms_norm(x, of["mlp_norm"], 1e-6) @ of["gate_up"].T).chunk(2, -1)
    return x + (torch.nn.functional.silu(gate) * up) @ of["down"].T


def apart(found: Tensor, want: Tensor) -> float:
    return float((found.float() - want.float()).norm() / want.float().norm())


# ---- the predictor: one layer, two groups


@functools.cache
def parts() -> PredictorParts:
    torch.manual_seed(5)
    heads, tables = normal(GROUPS - 1, 2048, 1024, std=0.05), normal(GROUPS - 2, 2048, 1024, std=0.5)
    return PredictorParts(layers_of(1, 1), 1 + normal(1024, std=0.1), 1e-6, 8, *turns(GROUPS), heads, tables)


def made(monkeypatch: pytest.MonkeyPatch) -> predictor.PersistentPredictor:
    replaced = {"#define LAYERS 5": "#define LAYERS 1", "#define POSITIONS 16": f"#define POSITIONS {GROUPS}"}
    monkeypatch.setattr(EmulatedKernel, "replaced", replaced)
    return predictor.PersistentPredictor(parts(), {})


def asked(rows: int, *, temperature: float = 0.9, top_p: float = 1.0) -> tuple[Tensor, ...]:
    torch.manual_seed(1)
    return (
        *(torch.randn(16, 1024).bfloat16()[:rows] for _ in range(2)),
        torch.randint(0, 2048, (16,))[:rows],
        torch.randint(0, 2**62, (16,))[:rows],
        torch.randint(0, 1000, (16,))[:rows],
        torch.full((rows,), temperature),
        torch.full((rows,), 50),
        torch.full((rows,), top_p),
    )


def teacher_forced(given: tuple[Tensor, ...], codes: Tensor, dtype: torch.dtype) -> Tensor:
    """Logits [groups - 1, rows, 2048] of the plain operations for these codes."""
    later = [parts().tables[group, codes[:, group + 1]] for group in range(GROUPS - 2)]
    x = torch.stack([given[0], given[1], *later], 1).to(dtype)
    causal = torch.ones(GROUPS, GROUPS, dtype=torch.bool).tril()
    for layer in parts().layers:
        of = in_type(layer, dtype)
        qkv = plain.rms_norm(x, of["input_norm"], 1e-6) @ of["qkv"].T
        rotation = parts().cos[None], parts().sin[None]
        q, k, v = plain.split_heads(qkv, of["q_norm"], of["k_norm"], 1e-6, *rotation, 8)
        q, k, v = (x.transpose(1, 2) for x in (q, k.repeat_interleave(2, 2), v.repeat_interleave(2, 2)))
        seen = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=causal)
        x = after_attention(x, seen.transpose(1, 2).flatten(2), of)
    states = plain.rms_norm(x, parts().norm.to(dtype), 1e-6)[:, 1:]
    return torch.einsum("ngp,gcp->gnc", states, parts().heads.to(dtype))


def frame(kernel: predictor.PersistentPredictor, given: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
    """Codes and logits."""
    logits = torch.full((GROUPS - 1, len(given[0]), 2048), torch.nan, dtype=torch.bfloat16)
    codes = kernel(*given, logits)
    kernel.check()
    return codes, logits


@pytest.mark.parametrize(
    ("rows", "order", "settings"),
    [
        (1, 0, {}),
        (5, 3, {"top_p": 0.8}),
        pytest.param(1, 7, {"top_p": 0.8}, marks=pytest.mark.slow),
        pytest.param(11, 2, {}, marks=pytest.mark.slow),
        pytest.param(8, 0, {"temperature": 0.0}, marks=pytest.mark.slow),
    ],
)
def test_a_frame(rows: int, order: int, settings: dict[str, float], monkeypatch: pytest.MonkeyPatch) -> None:
    """Logits are as near to float32 as the plain ones, codes are those that the plain draw takes from them."""
    EmulatedKernel.order = order
    given = asked(rows, **settings)
    codes, logits = frame(made(monkeypatch), given)
    want = teacher_forced(given, codes, torch.float32)
    assert apart(logits, want) < 1.1 * apart(teacher_forced(given, codes, torch.bfloat16), want)
    drawn = [plain.choose(logits[group - 1], given[3], given[4], group, *given[5:]) for group in range(1, GROUPS)]
    assert torch.equal(codes, torch.stack([given[2], *drawn], 1))


@pytest.mark.slow
def test_a_row_has_the_same_bits_in_any_company_and_order(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = made(monkeypatch)
    codes, logits = frame(kernel, asked(16))
    for rows, order in ((16, 1), (9, 2), (8, 1), (3, 2), (2, 0)):
        EmulatedKernel.order = order
        some_codes, some_logits = frame(kernel, asked(rows))
        assert torch.equal(some_codes, codes[:rows])
        assert torch.equal(some_logits, logits[:, :rows])


# ---- the talker: two layers


def step(kernel: Any, x: Tensor, at: Tensor, slots: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    hidden = kernel(x, at, slots, *turns(CAPACITY), keys, values)
    kernel.check()
    return hidden


def plain_step(stack: Any, x: Tensor, at: Tensor, slots: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """The same with the plain operations, in the type of the keys."""
    layers, norm = stack
    x = x.to(keys.dtype)[:, None]
    for index, layer in enumerate(layers):
        of = in_type(layer, keys.dtype)
        qkv = plain.rms_norm(x, of["input_norm"], 1e-6) @ of["qkv"].T
        cache = keys[index], values[index], slots, at[:, None], CAPACITY
        seen = plain.attend_cached(qkv, of["q_norm"], of["k_norm"], 1e-6, *turns(CAPACITY), *cache)
        x = after_attention(x, seen, of)
    return plain.rms_norm(x, norm.to(keys.dtype), 1e-6)[:, 0]


@pytest.mark.parametrize(
    ("blocks", "places", "order"),
    [
        (1, [70], 0),
        (1, [70, 0, 7, 63, 89], 5),
        pytest.param(2, [33], 4, marks=pytest.mark.slow),
        pytest.param(2, [89, 8, 64], 0, marks=pytest.mark.slow),
    ],
)
def test_a_step(blocks: int, places: list[int], order: int) -> None:
    """Near to float32; keys and values are written for these rows alone."""
    EmulatedKernel.order = order
    torch.manual_seed(blocks)
    stack = layers_of(blocks, LAYERS), 1 + normal(1024 * blocks, std=0.1)
    keys, values = (torch.randn(LAYERS, 6, 8, CAPACITY, 128).bfloat16() for _ in range(2))
    x, at = torch.randn(len(places), 1024 * blocks).bfloat16(), torch.tensor(places)
    slots = torch.tensor([4, 1, 5, 0, 2])[: len(places)]
    before, wide = keys.clone(), (keys.float(), values.float())
    exact = plain_step(stack, x, at, slots, *wide)
    rounded = keys.clone(), values.clone()
    bound = 1.1 * apart(plain_step(stack, x, at, slots, *rounded), exact)
    assert apart(step(talker.PersistentTalker(*stack, {}), x, at, slots, keys, values), exact) < bound
    for row, (place, slot) in enumerate(zip(places, slots, strict=True)):
        for found, want in ((keys, wide[0]), (values, wide[1])):
            assert apart(found[:, slot, :, place], want[:, slot, :, place]) < 1e-2, row
        keys[:, slot, :, place] = before[:, slot, :, place]
    assert torch.equal(keys, before)


# ---- the emulator: it must see what it is there to see


class _Given(ctypes.Structure):
    _fields_ = (("number", ctypes.c_void_p),)


FAULTS = {
    "all threads wait for each other": "if (threadIdx.x < 31) __syncthreads();",
    "a write behind the end of shared memory": "shared[64 + threadIdx.x] = 1;",
    "meet at different instructions": "if (threadIdx.x) __syncwarp(); else __shfl_sync(~0u, 1u, 0);",
    "a wait never ends": """unsigned v = 0, turns = 0;
        while (!v) {
          asm volatile("ld.relaxed.gpu.global.u32 %0,[%1];" : "=r"(v) : "l"(given.number) : "memory");
          if (++turns > 100) asm volatile("trap;");
        }""",
}


@pytest.mark.parametrize("why", FAULTS)
def test_the_emulator_sees(why: str, tmp_path: Path) -> None:
    source, number = tmp_path / "fault.cu", ctypes.c_uint(0)
    head = """struct Given { const void *number; };
extern "C" __global__ void fault(const Given given)"""
    source.write_text(f"{head} {{ {FAULTS[why]} }}")
    kernel = EmulatedKernel(source, "fault", {}, "", 1, 32, 64)
    with pytest.raises(pytest.fail.Exception, match=why):
        kernel.launch(_Given(ctypes.addressof(number)))
