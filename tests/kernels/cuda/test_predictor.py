"""The persistent predictor against the plain operations, on a GPU."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import tables
import torch
from hopper import NEEDS_HOPPER, relative_error
from torch import Tensor

from omnitts_cli.errors import DeviceError
from omnitts_cli.kernels import plain
from omnitts_cli.kernels.cuda import predictor as cuda
from omnitts_cli.kernels.cuda.predictor import fuse_predictor
from omnitts_cli.kernels.ops import LayerWeights, PredictorParts

SHAPES = {"qkv": (4096, 1024), "out": (1024, 2048), "gate_up": (6144, 1024), "down": (1024, 3072)}
pytestmark = NEEDS_HOPPER
ROWS = (1, 2, 5, 8, 9, 16)
SETTINGS = (
    {},
    {"temperature": 0.0},
    {"top_k": 0},
    {"top_k": 1},
    {"top_k": 0, "top_p": 0.8},
    {"top_k": 300, "top_p": 0.3, "temperature": 1.7},
)


@functools.cache
def parts(scale: float = 1.0) -> PredictorParts:
    """Random weights of the released shape."""
    torch.manual_seed(5)
    device = torch.device("cuda")

    def normal(*shape: int, std: float = 0.02) -> Tensor:
        return (std * torch.randn(shape, device=device)).bfloat16()

    def norm(width: int) -> Tensor:
        return 1 + normal(width, std=0.1)

    layers = [
        LayerWeights(
            input_norm=norm(1024), mlp_norm=norm(1024), q_norm=norm(128), k_norm=norm(128),
            **{name: normal(*shape) * (scale if name == "down" else 1) for name, shape in SHAPES.items()},
        )
        for _ in range(5)
    ]  # fmt: skip
    turns = torch.arange(16, device=device)[:, None] * 1e6 ** -(torch.arange(64, device=device) / 64)
    heads, tables = normal(15, 2048, 1024, std=0.05), normal(14, 2048, 1024, std=0.5)
    return PredictorParts(layers, norm(1024), 1e-6, 8, turns.cos(), turns.sin(), heads, tables)


def inputs(rows: int, seed: int = 1, **settings: Any) -> tuple[Tensor, ...]:
    """hidden, first row, first codes, seeds, frames, temperature, top-k, top-p."""
    torch.manual_seed(seed)
    device = torch.device("cuda")
    values = {"temperature": 0.9, "top_k": 50, "top_p": 1.0} | settings
    return (
        torch.randn(rows, 1024, device=device).bfloat16(),
        torch.randn(rows, 1024, device=device).bfloat16(),
        torch.randint(0, 2048, (rows,), device=device),
        torch.randint(0, 2**62, (rows,), device=device),
        torch.randint(0, 1000, (rows,), device=device),
        torch.full((rows,), values["temperature"], device=device),
        torch.full((rows,), values["top_k"], device=device, dtype=torch.int64),
        torch.full((rows,), values["top_p"], device=device),
    )


@functools.cache
def kernel(hold: int = 0) -> Any:
    made = fuse_predictor(parts(), {"HOLD": hold} if hold else {})
    assert made is not None
    return made


def teacher_forced(given: tuple[Tensor, ...], codes: Tensor, dtype: torch.dtype) -> Tensor:
    """Logits [B, 15, 2048] of the plain operations for these codes, from weights in `dtype`."""
    whole = parts()
    shape = given[0].shape[0]
    later = [whole.tables[g, codes[:, g + 1]] for g in range(14)]
    rows = torch.stack([given[0], given[1], *later], 1).to(dtype)
    causal = torch.ones(16, 16, dtype=torch.bool, device=rows.device).tril()
    for layer in whole.layers:
        weights = {name: getattr(layer, name).to(dtype) for name in LayerWeights.__annotations__}
        qkv = plain.rms_norm(rows, weights["input_norm"], 1e-6) @ weights["qkv"].T
        q, k, v = plain.split_heads(
            qkv, weights["q_norm"], weights["k_norm"], 1e-6, whole.cos[None], whole.sin[None], 8
        )
        q, k, v = (x.transpose(1, 2) for x in (q, k.repeat_interleave(2, 2), v.repeat_interleave(2, 2)))
        seen = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=causal)
        rows = rows + seen.transpose(1, 2).reshape(shape, 16, 2048) @ weights["out"].T
        gate, up = (plain.rms_norm(rows, weights["mlp_norm"], 1e-6) @ weights["gate_up"].T).chunk(2, -1)
        rows = rows + (torch.nn.functional.silu(gate) * up) @ weights["down"].T
    states = plain.rms_norm(rows, whole.norm.to(dtype), 1e-6)[:, 1:]
    return torch.einsum("ngp,gcp->ngc", states, whole.heads.to(dtype))


@pytest.mark.parametrize("rows", ROWS)
def test_logits_are_as_near_to_float32_as_those_of_the_plain_operations(rows: int) -> None:
    given = inputs(rows)
    logits = torch.zeros(15, rows, 2048, device="cuda", dtype=torch.bfloat16)
    codes = kernel()(*given, logits)
    want = teacher_forced(given, codes, torch.float32)
    rounded = relative_error(teacher_forced(given, codes, torch.bfloat16), want)
    assert relative_error(logits.transpose(0, 1), want) < min(1.2e-2, rounded * 1.1)


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_codes_are_those_of_the_plain_draw_from_these_logits(rows: int, settings: dict[str, float]) -> None:
    differ = 0
    for seed in range(8):
        given = inputs(rows, seed, **settings)
        logits = torch.zeros(15, rows, 2048, device="cuda", dtype=torch.bfloat16)
        codes = kernel()(*given, logits)
        assert torch.equal(codes[:, 0], given[2])
        want = [plain.choose(logits[g - 1], given[3], given[4], g, *given[5:]) for g in range(1, 16)]
        differ += int((codes[:, 1:] != torch.stack(want, 1)).sum())
    assert differ <= 1  # of 8 x 15 x rows: sums in another order may put a draw on the other side of a step


def test_rows_do_not_depend_on_their_neighbours() -> None:
    given = inputs(16)
    logits = torch.zeros(15, 16, 2048, device="cuda", dtype=torch.bfloat16)
    whole = kernel()(*given, logits)
    for rows in (2, 3, 5, 7, 8, 9, 12, 15):
        some = torch.zeros(15, rows, 2048, device="cuda", dtype=torch.bfloat16)
        assert torch.equal(kernel()(*(x[:rows] for x in given), some), whole[:rows])
        assert torch.equal(some, logits[:, :rows])


@pytest.mark.parametrize("rows", [1, 8, 16])
def test_bits_repeat_while_warps_are_delayed_at_random(rows: int) -> None:
    given = inputs(rows)
    logits = torch.zeros(15, rows, 2048, device="cuda", dtype=torch.bfloat16)
    codes, first = kernel()(*given, logits), logits.clone()
    delayed, bad = kernel(hold=0x3FFF), torch.zeros((), device="cuda", dtype=torch.int64)
    for _ in range(150):
        logits.zero_()
        again = delayed(*given, logits)
        bad += (again != codes).any() | (logits != first).any()
    assert int(bad) == 0


@pytest.mark.parametrize("rows", [1, 8, 16])
def test_a_captured_frame_is_an_eager_one(rows: int) -> None:
    given = inputs(rows)
    want = kernel()(*given)
    graph = torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        made = kernel()(*given)
    for _ in range(3):
        made.zero_()
        graph.replay()
        assert torch.equal(made, want)


def test_a_sum_out_of_range_is_an_error() -> None:
    made = fuse_predictor(parts(scale=20_000.0))
    assert made is not None
    made.check()
    made(*inputs(1))
    torch.cuda.synchronize()
    with pytest.raises(DeviceError, match="exceed the range"):
        made.check()


def test_other_shapes_are_left_to_the_other_kernels() -> None:
    whole, choose = parts(), tables.card("triton nvrtc").fuse_predictor
    assert choose(replace(whole, layers=whole.layers[:4])) is None
    assert choose(replace(whole, eps=1e-5)) is None
    assert choose(replace(whole, norm=whole.norm.float())) is None


def test_a_grid_that_does_not_fit_falls_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda, "PROGRAMS", 1024)
    assert fuse_predictor(parts()) is None


def test_two_streams_and_other_work_beside() -> None:
    """Two of these kernels never run at once, and neither waits for ever."""
    given = inputs(1), inputs(8)
    want = [kernel()(*x) for x in given]
    other = fuse_predictor(parts())
    assert other is not None
    streams = [torch.cuda.Stream() for _ in range(3)]
    busy = torch.randn(4096, 4096, device="cuda").bfloat16()
    torch.cuda.synchronize()
    made: list[Tensor] = []
    for _ in range(50):
        with torch.cuda.stream(streams[0]):
            made.append(kernel()(*given[0]))
        with torch.cuda.stream(streams[1]):
            made.append(other(*given[1]))
        with torch.cuda.stream(streams[2]):
            busy = (busy @ busy).clamp(-1, 1)
    torch.cuda.synchronize()
    assert all(torch.equal(found, want[i % 2]) for i, found in enumerate(made))


def test_two_processes_share_the_card() -> None:
    command = [sys.executable, "-c", BESIDE, str(Path(__file__))]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    both = [subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    answers = [process.communicate(timeout=120)[0].strip() for process in both]
    assert answers[0] == answers[1] == str(kernel()(*inputs(8)).sum().item())


BESIDE = """
import runpy, sys
here = runpy.run_path(sys.argv[1])
made = [here["kernel"]()(*here["inputs"](8)).sum().item() for _ in range(300)]
assert len(set(made)) == 1
print(made[0])
"""
