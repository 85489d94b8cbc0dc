"""The persistent predictor: where its weights lie, and on a GPU the kernel against the plain operations."""

from __future__ import annotations

import functools
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from omnitts_cli.errors import DeviceError
from omnitts_cli.kernels import plain
from omnitts_cli.kernels.cuda import predictor as cuda
from omnitts_cli.kernels.cuda.predictor import Layout, fuse_predictor
from omnitts_cli.kernels.ops import LayerWeights, PredictorParts

SHAPES = {"qkv": (4096, 1024), "out": (1024, 2048), "gate_up": (6144, 1024), "down": (1024, 3072)}
CPU = torch.device("cpu")


def numbered() -> LayerWeights:
    """Every weight is its own number, over all four matrices."""
    made, first = {}, 0
    for name, shape in SHAPES.items():
        count = shape[0] * shape[1]
        made[name] = torch.arange(first, first + count, dtype=torch.int32).view(shape)
        first += count
    none = torch.zeros(0)
    return LayerWeights(input_norm=none, q_norm=none, k_norm=none, mlp_norm=none, **made)


@pytest.mark.parametrize("alone", [True, False])
def test_every_weight_is_in_the_lines_once(alone: bool) -> None:
    lines = Layout(CPU).layer(numbered(), alone)
    assert lines.shape == (128, 15 * 8 * 4 * 32 * 8)
    assert torch.equal(lines.flatten().sort().values, torch.arange(lines.numel(), dtype=torch.int32))


@pytest.mark.parametrize("alone", [True, False])
def test_every_weight_of_a_head_is_in_its_lines_once(alone: bool) -> None:
    lines = Layout(CPU).head(torch.arange(2048 * 1024, dtype=torch.int32).view(2048, 1024), alone)
    assert torch.equal(lines.flatten().sort().values, torch.arange(2048 * 1024, dtype=torch.int32))


def tile(fragment: Tensor) -> Tensor:
    """A fragment [32, 8] of `mma.m16n8k16` as the matrix [16, 16]."""
    made = torch.zeros(16, 16)
    for lane in range(32):
        for i, value in enumerate(fragment[lane]):
            row, column = lane // 4 + 8 * (i // 2 % 2), 2 * (lane % 4) + i % 2 + 8 * (i // 4)
            made[row, column] = value
    return made


def operand(inputs: Tensor, index: int) -> Tensor:
    """The 16 inputs that meet tile `index`, in the order in which the kernel's lanes hold them."""
    made = torch.zeros(16)
    for place in range(4):
        four = inputs[index // 2 * 32 + place * 8 + index % 2 * 4 :][:4]
        made[2 * place], made[2 * place + 1], made[2 * place + 8], made[2 * place + 9] = four
    return made


def products(fours: Tensor, x: Tensor, below: int = 1) -> Tensor:
    """One warp's tiles [chunks, 4, 32, 8] times its inputs; `below` tiles lie below each other: [16 * below]."""
    made = torch.zeros(below, 16)
    for i, fragment in enumerate(fours.flatten(0, 1)):
        made[i % below] += tile(fragment) @ operand(x, i // below)
    return made.flatten()


def assert_near(found: Tensor, want: Tensor) -> None:
    torch.testing.assert_close(found, want, atol=1e-3, rtol=1e-3)


@pytest.mark.parametrize("program", [0, 37, 127])
class TestProductsOfAProgram:
    def test_queries_keys_and_values(self, program: int) -> None:
        torch.manual_seed(program)
        weight, x = torch.randn(4096, 1024), torch.randn(1024)
        fours = Layout(CPU).qkv(weight)[program]
        made = sum(products(fours[:, warp], x[128 * warp :], 2) for warp in range(8))
        kv_head, member = divmod(program, 16)
        head = (2 * kv_head, 2 * kv_head + 1, 16 + kv_head, 24 + kv_head)[member // 4]
        lane = torch.arange(32)
        pair = lane // 4 * 2 + lane % 2 + 16 * (member % 4)  # a lane's: 2 l, 2 l + 1, 64 + 2 l, 65 + 2 l
        assert_near(made, (weight @ x)[head * 128 + torch.where(lane % 4 < 2, pair, pair + 64)])

    def test_gate_and_up(self, program: int) -> None:
        torch.manual_seed(program)
        weight, x = torch.randn(6144, 1024), torch.randn(1024)
        fours = Layout(CPU).gate_up(weight)[program]
        made = sum(products(fours[:, warp], x[128 * warp :], 3) for warp in range(8))
        assert_near(made, (weight @ x).view(2, 3072)[:, 24 * program :][:, :24].flatten())

    @pytest.mark.parametrize(("name", "width"), [("out", 256), ("down_grouped", 384)])
    def test_sums_of_a_group(self, program: int, name: str, width: int) -> None:
        torch.manual_seed(program)
        kv_head, member = divmod(program, 16)
        weight, x, made = torch.randn(1024, 8 * width), torch.randn(width), torch.zeros(64)
        fours = getattr(Layout(CPU), name)(weight)[program]
        for warp in range(8):
            found = products(fours[:, warp], x[width // 2 * (warp % 2) :])
            made[16 * (warp // 2) :][:16] += found.view(2, 8).T.flatten()
        assert_near(made, weight[64 * member :][:64, width * kv_head :][:, :width] @ x)

    def test_down_of_one_row(self, program: int) -> None:
        torch.manual_seed(program)
        weight, x, made = torch.randn(1024, 3072), torch.randn(24), torch.zeros(1024)
        fours = Layout(CPU).down_alone(weight)[program]
        # four neighbouring units a lane, where tiles along the inputs have four of every eight
        spread = torch.cat([x[:16].view(4, 4), torch.zeros(4, 4)], 1).flatten()
        lane = torch.arange(32)
        for warp in range(8):
            for i in range(8):
                rows = tile(fours[i // 4, warp, i % 4]) @ operand(spread, 0)
                narrow = fours[2, warp, i // 2].view(32, 2, 4)[:, i % 2]
                for j in range(4):
                    rows.index_add_(0, lane // 4 + 8 * (j // 2), narrow[:, j] * x[16 + 2 * (lane % 4) + j % 2])
                made[16 * (4 * warp + i % 4 + 32 * (i // 4)) :][:16] += rows.view(2, 8).T.flatten()
        assert_near(made, weight[:, 24 * program :][:, :24] @ x)

    def test_head(self, program: int) -> None:
        torch.manual_seed(program)
        weight, x = torch.randn(2048, 1024), torch.randn(1024)
        fours = Layout(CPU).head(weight, True)[program].view(2, 8, 4, 32, 8)
        made = sum(products(fours[:, warp], x[128 * warp :]) for warp in range(8))
        assert_near(made, (weight @ x)[16 * program :][:16])


# ---- on a GPU

gpu = [
    pytest.mark.gpu,
    pytest.mark.skipif(
        not torch.cuda.is_available() or torch.cuda.get_device_capability() != (9, 0), reason="needs a Hopper GPU"
    ),
]
ROWS = (1, 2, 3, 5, 8)
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


def apart(found: Tensor, want: Tensor) -> float:
    return float((found.float() - want).norm() / want.norm())


class TestOnGPU:
    pytestmark = gpu

    @pytest.mark.parametrize("rows", ROWS)
    def test_logits_are_as_near_to_float32_as_those_of_the_plain_operations(self, rows: int) -> None:
        given = inputs(rows)
        logits = torch.zeros(15, rows, 2048, device="cuda", dtype=torch.bfloat16)
        codes = kernel()(*given, logits)
        want = teacher_forced(given, codes, torch.float32)
        rounded = apart(teacher_forced(given, codes, torch.bfloat16), want)
        assert apart(logits.transpose(0, 1), want) < min(1.2e-2, rounded * 1.1)

    @pytest.mark.parametrize("rows", ROWS)
    @pytest.mark.parametrize("settings", SETTINGS, ids=str)
    def test_codes_are_those_of_the_plain_draw_from_these_logits(self, rows: int, settings: dict[str, float]) -> None:
        differ = 0
        for seed in range(8):
            given = inputs(rows, seed, **settings)
            logits = torch.zeros(15, rows, 2048, device="cuda", dtype=torch.bfloat16)
            codes = kernel()(*given, logits)
            assert torch.equal(codes[:, 0], given[2])
            want = [plain.choose(logits[g - 1], given[3], given[4], g, *given[5:]) for g in range(1, 16)]
            differ += int((codes[:, 1:] != torch.stack(want, 1)).sum())
        assert differ <= 1  # of 8 x 15 x rows: sums in another order may put a draw on the other side of a step

    def test_rows_do_not_depend_on_their_neighbours(self) -> None:
        given = inputs(8)
        whole = kernel()(*given)
        for rows in (2, 3, 5, 7):
            assert torch.equal(kernel()(*(x[:rows] for x in given)), whole[:rows])

    @pytest.mark.parametrize("rows", [1, 8])
    def test_bits_repeat_while_warps_are_delayed_at_random(self, rows: int) -> None:
        given = inputs(rows)
        logits = torch.zeros(15, rows, 2048, device="cuda", dtype=torch.bfloat16)
        codes, first = kernel()(*given, logits), logits.clone()
        delayed, bad = kernel(hold=0x3FFF), torch.zeros((), device="cuda", dtype=torch.int64)
        for _ in range(150):
            logits.zero_()
            again = delayed(*given, logits)
            bad += (again != codes).any() | (logits != first).any()
        assert int(bad) == 0

    @pytest.mark.parametrize("rows", [1, 8])
    def test_a_captured_frame_is_an_eager_one(self, rows: int) -> None:
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

    def test_a_sum_out_of_range_is_an_error(self) -> None:
        made = fuse_predictor(parts(scale=20_000.0))
        assert made is not None
        made.check()
        made(*inputs(1))
        torch.cuda.synchronize()
        with pytest.raises(DeviceError, match="exceed the range"):
            made.check()

    def test_other_shapes_are_left_to_the_other_kernels(self) -> None:
        whole = parts()
        assert fuse_predictor(replace(whole, layers=whole.layers[:4])) is None
        assert fuse_predictor(replace(whole, eps=1e-5)) is None
        assert fuse_predictor(replace(whole, norm=whole.norm.float())) is None

    def test_a_grid_that_does_not_fit_falls_back(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(cuda, "PROGRAMS", 1024)
        assert fuse_predictor(parts()) is None

    def test_two_streams_and_other_work_beside(self) -> None:
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

    def test_two_processes_share_the_card(self) -> None:
        command = [sys.executable, "-c", BESIDE, str(Path(__file__))]
        both = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
        answers = [process.communicate(timeout=120)[0].strip() for process in both]
        assert answers[0] == answers[1] == str(kernel()(*inputs(8)).sum().item())


BESIDE = """
import runpy, sys
here = runpy.run_path(sys.argv[1])
made = [here["kernel"]()(*here["inputs"](8)).sum().item() for _ in range(300)]
assert len(set(made)) == 1
print(made[0])
"""
