"""The persistent kernels' own source on a CPU (tests/support/cuda_emulator.py) against the plain operations."""

import ctypes
import functools
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cuda_emulator
import hopper
import pytest
import torch
from cuda_emulator import EmulatedKernel
from hopper import relative_error, rotations
from torch import Tensor

from omnitts_cli.kernels import plain
from omnitts_cli.kernels.cuda import attend, predictor, prefetched, rows, talker
from omnitts_cli.kernels.cuda.layout import Layout, norms
from omnitts_cli.kernels.ops import LayerWeights, PredictorParts

pytestmark = cuda_emulator.in_the_emulator
GROUPS, LAYERS, CAPACITY = 3, 2, 90
CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def emulated(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for module in (attend, predictor, prefetched, rows, talker):
        monkeypatch.setattr(module, "Kernel", EmulatedKernel)
    monkeypatch.setattr(prefetched, "tensor_map", cuda_emulator.tensor_map)
    for module in (predictor, talker):
        monkeypatch.setattr(module, "Overflow", cuda_emulator.Overflow)
    monkeypatch.setattr(predictor, "GROUPS", GROUPS)
    for made_once in (rows._rest, prefetched._kernel, attend._kernel):
        made_once.cache_clear()
    yield
    for made_once in (rows._rest, prefetched._kernel, attend._kernel):
        made_once.cache_clear()
    EmulatedKernel.order = 0


def normal(*shape: int, std: float = 0.02) -> Tensor:
    return hopper.normal(*shape, std=std, device="cpu")


def stack_of(blocks: int, count: int) -> tuple[list[LayerWeights], Tensor]:
    return hopper.layers_of(blocks, count, "cpu"), hopper.norm_of(1024 * blocks, "cpu")


# ---- the predictor: one layer, two groups


@functools.cache
def parts() -> PredictorParts:
    return hopper.predictor_parts(GROUPS, 1, "cpu")


def made(monkeypatch: pytest.MonkeyPatch, *, exact: bool = False) -> predictor.PersistentPredictor:
    replaced = {"#define LAYERS 5": "#define LAYERS 1", "#define POSITIONS 16": f"#define POSITIONS {GROUPS}"}
    with monkeypatch.context() as patch:
        patch.setattr(EmulatedKernel, "replaced", replaced)
        return predictor.PersistentPredictor(parts(), {}, exact)


def asked(rows: int, **settings: float) -> tuple[Tensor, ...]:
    return hopper.predictor_inputs(rows, device="cpu", **settings)


def frame(kernel: predictor.PersistentPredictor, given: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
    """Codes and logits."""
    logits = torch.full((GROUPS - 1, len(given[0]), 2048), torch.nan, dtype=torch.bfloat16)
    codes = kernel(*given, logits)
    kernel.check()
    return codes, logits


@pytest.mark.parametrize(("rows", "order", "settings"), [
    (5, 3, {"top_p": 0.8}), pytest.param(1, 0, {}, marks=pytest.mark.slow),
    pytest.param(1, 7, {"top_p": 0.8}, marks=pytest.mark.slow), pytest.param(11, 2, {}, marks=pytest.mark.slow),
    pytest.param(8, 0, {"temperature": 0.0}, marks=pytest.mark.slow),
])  # fmt: skip
def test_a_frame(rows: int, order: int, settings: dict[str, float], monkeypatch: pytest.MonkeyPatch) -> None:
    """Logits are as near to float32 as the plain ones, codes are those that the plain draw takes from them."""
    EmulatedKernel.order = order
    given = asked(rows, **settings)
    codes, logits = frame(made(monkeypatch), given)
    want = hopper.teacher_forced(parts(), given, codes, torch.float32)
    assert relative_error(logits, want) < 1.1 * relative_error(
        hopper.teacher_forced(parts(), given, codes, torch.bfloat16), want
    )
    drawn = [plain.choose(logits[group - 1], given[3], given[4], group, *given[5:]) for group in range(1, GROUPS)]
    assert torch.equal(codes, torch.stack([given[2], *drawn], 1))


@pytest.mark.slow
def test_a_row_has_the_same_bits_in_any_batch_and_order(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = made(monkeypatch)
    codes, logits = frame(kernel, asked(16))
    for count, order in ((16, 1), (9, 2), (8, 1), (3, 2), (2, 0)):
        EmulatedKernel.order = order
        some_codes, some_logits = frame(kernel, asked(count))
        assert torch.equal(some_codes, codes[:count])
        assert torch.equal(some_logits, logits[:, :count])


@pytest.mark.slow
@pytest.mark.parametrize(("rows", "order"), [(17, 0), (33, 3), (64, 0)])
def test_a_row_among_many_has_the_bits_that_it_has_among_few(
    rows: int, order: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Codes and logits; the first three rows stand elsewhere among the many."""
    EmulatedKernel.order = order
    kernel, given = made(monkeypatch, exact=True), asked(rows)
    codes, logits = frame(kernel, given)
    moved = torch.tensor([rows - 1, 5, rows // 2])
    for some in (moved, moved[:1]):
        some_codes, some_logits = frame(kernel, tuple(x[some] for x in given))
        assert torch.equal(codes[some], some_codes)
        assert torch.equal(logits[:, some], some_logits)


# ---- the talker: two layers


def step(kernel: Any, x: Tensor, at: Tensor, slots: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    hidden = kernel(x, at, slots, *rotations(CAPACITY, "cpu"), keys, values)
    kernel.check()
    return hidden


@pytest.mark.parametrize(("blocks", "places", "order"), [
    (1, [70, 0, 7, 63, 89], 5),
    pytest.param(1, [70], 0, marks=pytest.mark.slow),  # one row is also in the test below
    (2, [33], 4),
    (2, [89, 8, 64], 0),
])  # fmt: skip
def test_a_step(blocks: int, places: list[int], order: int) -> None:
    """Near to float32; keys and values are written for these rows alone."""
    EmulatedKernel.order = order
    torch.manual_seed(blocks)
    stack = stack_of(blocks, LAYERS)
    keys, values = (torch.randn(LAYERS, 6, 8, CAPACITY, 128).bfloat16() for _ in range(2))
    x, at = torch.randn(len(places), 1024 * blocks).bfloat16(), torch.tensor(places)
    slots = torch.tensor([4, 1, 5, 0, 2])[: len(places)]
    before, wide = keys.clone(), (keys.float(), values.float())
    exact = hopper.plain_step(stack, x, at, slots, *wide)
    rounded = keys.clone(), values.clone()
    bound = 1.1 * relative_error(hopper.plain_step(stack, x, at, slots, *rounded), exact)
    assert relative_error(step(talker.PersistentTalker(*stack, {}), x, at, slots, keys, values), exact) < bound
    for row, (place, slot) in enumerate(zip(places, slots, strict=True)):
        for found, want in ((keys, wide[0]), (values, wide[1])):
            assert relative_error(found[:, slot, :, place], want[:, slot, :, place]) < 1e-2, row
        keys[:, slot, :, place] = before[:, slot, :, place]
    assert torch.equal(keys, before)


@pytest.mark.parametrize(("blocks", "many", "order", "layers"), [
    (1, 9, 0, 1), pytest.param(1, 17, 4, 2, marks=pytest.mark.slow),
    pytest.param(1, 64, 0, 2, marks=pytest.mark.slow), pytest.param(1, 67, 0, 1, marks=pytest.mark.slow),
    pytest.param(2, 9, 3, 1, marks=pytest.mark.slow), pytest.param(2, 33, 0, 2, marks=pytest.mark.slow),
])  # fmt: skip
def test_a_step_has_the_same_bits_among_many(blocks: int, many: int, order: int, layers: int) -> None:
    """Hidden states, keys and values of a row among many are those of the row alone and of three; near to float32."""
    EmulatedKernel.order = order
    torch.manual_seed(many)
    stack = stack_of(blocks, layers)
    kernel = talker.PersistentTalker(*stack, {}, exact=True)
    keys, values = (torch.randn(layers, many + 1, 8, CAPACITY, 128).bfloat16() for _ in range(2))
    x, at, slots = (
        torch.randn(many, 1024 * blocks).bfloat16(),
        torch.randint(0, CAPACITY, (many,)),
        torch.randperm(many),
    )
    moved, before = torch.tensor([many - 1, 0, many // 2]), (keys.clone(), values.clone())
    rounded, wide = (keys.clone(), values.clone()), (keys.float(), values.float())
    hidden = step(kernel, x, at, slots, keys, values)
    for some in (moved, moved[:1]):
        alone = before[0].clone(), before[1].clone()
        assert torch.equal(hidden[some], step(kernel, x[some], at[some], slots[some], *alone))
        for found, want in zip((keys, values), alone, strict=True):
            assert torch.equal(found[:, slots[some]], want[:, slots[some]])
            assert not torch.equal(found, want)
    exact = hopper.plain_step(stack, x, at, slots, *wide)
    assert relative_error(hidden, exact) < 1.1 * relative_error(hopper.plain_step(stack, x, at, slots, *rounded), exact)


@functools.cache
def row_layers(blocks: int) -> tuple[rows.RowLayers, cuda_emulator.Overflow]:
    """One layer with the weights of several rows."""
    torch.manual_seed(blocks)
    (layer,), norm = stack_of(blocks, 1)
    lines = Layout(CPU, blocks).layer(layer, in_parts=True)[None]
    overflow = cuda_emulator.Overflow()
    return rows.RowLayers(lines, norms([layer], norm), overflow.address, predictor=False, fine=True), overflow


@pytest.mark.parametrize(("kind", "blocks", "many", "order", "enough"), [
    (rows.OUT, 1, 19, 0, 256),
    pytest.param(rows.QKV, 1, 19, 2, 1, marks=pytest.mark.slow),
    pytest.param(rows.GATE_UP, 1, 133, 3, 1, marks=pytest.mark.slow),
    pytest.param(rows.DOWN, 1, 133, 0, 1, marks=pytest.mark.slow),
    pytest.param(rows.QKV, 2, 130, 0, 1, marks=pytest.mark.slow),
    pytest.param(rows.OUT, 2, 70, 5, 40, marks=pytest.mark.slow),
    pytest.param(rows.GATE_UP, 2, 130, 0, 1, marks=pytest.mark.slow),
    pytest.param(rows.DOWN, 2, 130, 4, 40, marks=pytest.mark.slow),
])  # fmt: skip
def test_large_tiles_have_the_bits_of_small_ones(
    kind: int, blocks: int, many: int, order: int, enough: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A product of a layer, of each kind; nothing is written beside its rows."""
    layers, overflow = row_layers(blocks)
    monkeypatch.setattr(EmulatedKernel, "order", order)
    monkeypatch.setattr(rows, "ENOUGH", enough)
    torch.manual_seed(kind)
    made, chunks = rows.Pass(layers, many), (0, 8, 12, 12 + 12 * blocks)
    x = {rows.OUT: made.attended, rows.DOWN: made.units}.get(kind, made.normed)
    x.copy_(torch.randn(x.shape))
    scales = None if kind in (rows.OUT, rows.DOWN) else made.scales.copy_(torch.rand(many, 1) + 0.5)
    out = {rows.QKV: made.qkv, rows.GATE_UP: made.units}.get(kind, made.sums)
    at, line = layers.lines.data_ptr() + chunks[kind] * blocks * rows.CHUNK, layers.lines.stride(1) * 2
    found = []
    for least in (rows.MANY, 1):
        monkeypatch.setattr(rows, "TILED_ROWS", least)
        beside = torch.full((many + 2, out.shape[1]), 7, dtype=out.dtype)
        beside[1:-1] = 0
        layers.product(kind, at, line, x, scales, beside[1:-1])
        assert torch.equal(beside[[0, -1]], torch.full_like(beside[:2], 7))
        found.append(beside[1:-1])
    overflow.check()
    assert found[0].count_nonzero() > 0.9 * found[0].numel()
    assert torch.equal(*found)


@pytest.mark.parametrize("rows_there", [1, 18])
def test_a_product_of_another_shape(rows_there: int) -> None:
    """Near to float64, with the bits of each row alone."""
    torch.manual_seed(rows_there)
    x, weight, bias = normal(rows_there, 2048, std=1), normal(48, 2048), normal(48, std=1)
    found = rows.linear(x, weight, bias)
    assert relative_error(found, x.double() @ weight.double().T + bias.double()) < 3e-3
    assert torch.equal(found[-1:], rows.linear(x[-1:], weight, bias))


def test_down_in_parts_of_two_blocks_has_every_weight_once() -> None:
    """Its order is seen by the slow test of rows among many, that of the other matrices by the tests of a step."""
    numbers = torch.arange(2048 * 6144, dtype=torch.int32)
    assert torch.equal(Layout(CPU, 2).down_in_parts(numbers.view(2048, 6144)).flatten().sort().values, numbers)


def test_shared_memory_fits() -> None:
    """227 KiB a multiprocessor; two kernels of the predictor on one, so that the next loads its weights early."""
    for kind, size in itertools.product(range(5), rows.SIZES):
        assert rows.product_bytes(kind, size, blocks=1) <= 126 << 10
        assert rows.product_bytes(kind, size, blocks=2) <= 227 << 10
    for kind, blocks in itertools.product(range(4), (1, 2)):
        assert rows.tile_of(kind, blocks)[1] <= 227 << 10


# ---- products whose weights are fetched early: all in flight, or through rings that go round


@pytest.mark.parametrize(("count", "kept"), [(20, 100 << 10), (70, 16 << 10)], ids=["whole", "rings"])
def test_prefetched_products(count: int, kept: int) -> None:
    torch.manual_seed(count)
    x, weight = torch.randn(count, 512).bfloat16(), normal(256, 512, std=0.05)
    want = x.float() @ weight.float().T
    EmulatedKernel.order = 5
    Tile = functools.partial(prefetched.Tile, ahead=kept, rows_ahead=kept)
    for split in (1, 4):
        assert relative_error(prefetched.linear(x, weight, Tile(32 * split, split, cluster=split, pace=3)), want) < 4e-3
    for cluster in (1, 2):
        parts = prefetched.parted(x, weight, Tile(64, 4, cluster=cluster, pace=1))
        assert parts.shape == (4 // cluster, count, 256)
        assert relative_error(parts.sum(0), want) < 1e-5
    assert relative_error(parts[1], x[:, 256:].float() @ weight[:, 256:].float().T) < 1e-5
    gate, up = want.chunk(2, -1)
    for tile in (Tile(32, 1), Tile(64, 2, cluster=2)):
        assert relative_error(prefetched.gated(x, weight, tile), torch.nn.functional.silu(gate) * up) < 6e-3


# ---- attention of a frame


@pytest.mark.parametrize(("capacity", "order"), [(16, 7), (141, 0), (141, 7)])
def test_attention_of_a_frame(capacity: int, order: int) -> None:
    """Positions from nothing to more than two turns; what the cache holds behind them is not read."""
    torch.manual_seed(3)
    places = torch.tensor([0, 1, 7, 8, 63, 64, 65, 140, 33, 16])[:, None].clamp(max=capacity - 1)
    rows = len(places)
    slots = torch.randperm(rows + 2)[:rows]
    keys, values = torch.randn(2, rows + 2, 8, capacity, 128).bfloat16()
    for row, place in enumerate(places):
        keys[slots[row], :, int(place) :] = values[slots[row], :, int(place) :] = float("nan")
    qkv, norms = torch.randn(rows, 1, 4096).bfloat16(), (1 + normal(128, std=0.1), 1 + normal(128, std=0.1))
    given = qkv, *norms, 1e-6, *rotations(capacity, "cpu")
    held, wanted = (keys.clone(), values.clone()), (keys.nan_to_num(), values.nan_to_num())
    EmulatedKernel.order = order
    got = attend.attend(*given, *held, slots, places, capacity)
    want = plain.attend_cached(*given, *wanted, slots, places, capacity)
    assert relative_error(got, want) < 5e-3
    for mine, theirs in zip(held, wanted, strict=True):
        here = mine[slots, :, places[:, 0]], theirs[slots, :, places[:, 0]]
        assert relative_error(*here) < 2e-3


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
