"""The order of the weights: each in its place once, and the products of a program's tiles are those of the matrices."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from omnitts_cli.kernels.cuda.layout import Layout, Lines
from omnitts_cli.kernels.ops import LayerWeights

CPU = torch.device("cpu")


def shapes(blocks: int) -> dict[str, tuple[int, int]]:
    hidden, inner = 1024 * blocks, 3072 * blocks
    return {"qkv": (4096, hidden), "out": (hidden, 2048), "gate_up": (2 * inner, hidden), "down": (hidden, inner)}


def numbered(blocks: int) -> LayerWeights:
    """Every weight is its own number, over all four matrices."""
    made, first = {}, 0
    for name, shape in shapes(blocks).items():
        count = shape[0] * shape[1]
        made[name] = torch.arange(first, first + count, dtype=torch.int32).view(shape)
        first += count
    none = torch.zeros(0)
    return LayerWeights(input_norm=none, q_norm=none, k_norm=none, mlp_norm=none, **made)


def each_once(lines: Tensor) -> bool:
    """Whether the numbers are 0, 1, 2 ... in some order: as many as there are, none negative, none missing."""
    numbers = lines.numpy().ravel()
    found = np.zeros(numbers.size, np.bool_)
    found[numbers] = True  # a number too large raises
    return bool(numbers.min() == 0 and found.all())


@pytest.mark.parametrize(("blocks", "chunks"), [(1, 15), (2, 48)])
@pytest.mark.parametrize("in_parts", [False, True])
def test_every_weight_is_in_the_lines_once(in_parts: bool, blocks: int, chunks: int) -> None:
    lines = Lines.of([numbered(blocks)], in_parts)
    assert lines.layers.shape == (1, 128, chunks * 8 * 4 * 32 * 8)
    assert each_once(lines.layers)
    of_down = lines.layers.numel() - lines.down.numel()  # one row reads the others from the same lines
    assert lines.down.numel() == 1024 * blocks * 3072 * blocks and each_once(lines.down - of_down)
    assert bool((lines.layers[0, :, : of_down // 128] < of_down).all())


def test_every_weight_of_a_head_is_in_its_lines_once() -> None:
    lines = Layout(CPU).head(torch.arange(2048 * 1024, dtype=torch.int32).view(2048, 1024))
    assert lines.numel() == 2048 * 1024 and each_once(lines)


def tile(fragment: Tensor) -> Tensor:
    """A fragment [32, 8] of `mma.m16n8k16` as the matrix [16, 16]."""
    made, lane, i = torch.zeros(16, 16), torch.arange(32)[:, None], torch.arange(8)
    made[lane // 4 + 8 * (i // 2 % 2), 2 * (lane % 4) + i % 2 + 8 * (i // 4)] = fragment
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


def held(x: Tensor, warp: int) -> Tensor:
    """The columns that a warp holds: 128 of every block."""
    return x.view(-1, 1024)[:, 128 * warp :][:, :128].flatten()


@pytest.mark.parametrize("program", [0, 37, 127])
class TestProductsOfAProgram:
    @pytest.mark.parametrize("blocks", [1, 2])
    def test_queries_keys_and_values(self, program: int, blocks: int) -> None:
        torch.manual_seed(program)
        weight, x = torch.randn(4096, 1024 * blocks), torch.randn(1024 * blocks)
        fours = Layout(CPU, blocks).qkv(weight)[program]
        made = sum(products(fours[:, warp], held(x, warp), 2) for warp in range(8))
        kv_head, member = divmod(program, 16)
        head = (2 * kv_head, 2 * kv_head + 1, 16 + kv_head, 24 + kv_head)[member // 4]
        lane = torch.arange(32)
        pair = lane // 4 * 2 + lane % 2 + 16 * (member % 4)  # a lane's: 2 l, 2 l + 1, 64 + 2 l, 65 + 2 l
        assert_near(made, (weight @ x)[head * 128 + torch.where(lane % 4 < 2, pair, pair + 64)])

    @pytest.mark.parametrize("blocks", [1, 2])
    def test_gate_and_up(self, program: int, blocks: int) -> None:
        torch.manual_seed(program)
        weight, x, units = torch.randn(6144 * blocks, 1024 * blocks), torch.randn(1024 * blocks), 24 * blocks
        fours = Layout(CPU, blocks).gate_up(weight)[program]
        made = sum(products(fours[:, warp], held(x, warp), 3 * blocks) for warp in range(8))
        assert_near(made, (weight @ x).view(2, -1)[:, units * program :][:, :units].flatten())

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

    @pytest.mark.parametrize(("name", "width"), [("out", 256), ("down_grouped", 768)])
    def test_sums_of_a_group_of_two_blocks(self, program: int, name: str, width: int) -> None:
        torch.manual_seed(program)
        kv_head, member = divmod(program, 16)
        weight, x, made = torch.randn(2048, 8 * width), torch.randn(width), torch.zeros(2, 64)
        fours = getattr(Layout(CPU, 2), name)(weight)[program]
        for warp in range(8):
            found = products(fours[:, warp], x[width // 2 * (warp % 2) :], 2)
            made[:, 16 * (warp // 2) :][:, :16] += found.view(2, 2, 8).transpose(1, 2).flatten(1)
        assert_near(made.flatten(), weight[128 * member :][:128, width * kv_head :][:, :width] @ x)

    def test_down_of_one_row_and_two_blocks(self, program: int) -> None:
        torch.manual_seed(program)
        weight, x, made = torch.randn(2048, 6144), torch.randn(48), []
        fours = Layout(CPU, 2).down_wide(weight)[program].transpose(0, 1).flatten(1, 2)
        spread = [torch.cat([part.view(4, 4), torch.zeros(4, 4)], 1).flatten() for part in x.view(3, 16)]
        for warp in range(8):
            for i in range(0, 48, 3):
                rows = sum(tile(fours[warp, i + k]) @ operand(spread[k], 0) for k in range(3))
                made.append(rows.view(2, 8).T.flatten())
        assert_near(torch.cat(made), weight[:, 48 * program :][:, :48] @ x)

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
        twos = Layout(CPU).head(weight)[program].view(4, 8, 2, 32, 8)
        made = sum(products(twos[:, warp], x[128 * warp :]) for warp in range(8))
        assert_near(made, (weight @ x)[16 * program :][:16])
