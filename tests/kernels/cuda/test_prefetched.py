"""Products whose weights are fetched early against plain operations, on a GPU. On a CPU: test_cuda_emulated.py."""

import pytest
import tables
import torch
import torch.nn.functional as F
from hopper import NEEDS_HOPPER, relative_error
from torch import Tensor

from omnitts_cli.kernels import plain
from omnitts_cli.kernels.cuda import attend, prefetched
from omnitts_cli.kernels.cuda.prefetched import ADDED, GATED, LINEAR, TILES
from omnitts_cli.kernels.ops import Normed, Ops

pytestmark = NEEDS_HOPPER
COUNTS = {64: (17, 32, 33, 64), 128: (65, 100, 128), 256: (129, 200, 256)}
USED = [(level, *key) for level, tiles in TILES.items() for key in tiles]


def random(*shape: int, std: float = 1.0) -> Tensor:
    return (std * torch.randn(shape, device="cuda")).bfloat16()


def made(kind: int, x: Tensor, weight: Tensor) -> Tensor:
    assert prefetched.compiled(kind, len(x), *weight.shape)
    return {LINEAR: prefetched.linear, GATED: prefetched.gated, ADDED: prefetched.parted}[kind](x, weight)


def operands(kind: int, outputs: int, inputs: int) -> tuple[Tensor, Tensor]:
    torch.manual_seed(outputs + inputs)
    return random(256, inputs), random(outputs * (2 if kind == GATED else 1), inputs, std=inputs**-0.5)


@pytest.mark.parametrize(("level", "kind", "outputs", "inputs"), USED)
def test_products(level: int, kind: int, outputs: int, inputs: int) -> None:
    rows, weight = operands(kind, outputs, inputs)
    whole = made(kind, rows[:level], weight)
    for count in COUNTS[level]:
        x = rows[:count].clone()
        want = x.float() @ weight.float().T
        if kind == GATED:
            gate, up = want.chunk(2, -1)
            want = F.silu(gate) * up
        got = made(kind, x, weight)
        assert relative_error(got.sum(0) if kind == ADDED else got, want) < (1e-5 if kind == ADDED else 5e-3)
        some = whole[:, :count] if kind == ADDED else whole[:count]
        assert torch.equal(got, some), "a row depends on the rows beside it"


@pytest.fixture
def ops() -> Ops:
    return tables.card("triton nvrtc")


def chain(ops: Ops, x: Tensor, weights: dict[str, Tensor], layers: int) -> Tensor:
    """Products and norms of `layers` layers, one after the other, as in a frame."""
    rows = Normed(x, weights["norm"], 1e-6)
    for _ in range(layers):
        seen = ops.norm_linear(rows, weights["qkv"])[..., :2048].contiguous()
        rows = ops.linear_add(seen, weights["out"], rows.rows, weights["norm"], 1e-6)
        units = ops.norm_swiglu(rows, weights["gate_up"])
        rows = ops.linear_add(units, weights["down"], rows.rows, weights["norm"], 1e-6)
    return rows.rows


def chained(width: int) -> dict[str, Tensor]:
    torch.manual_seed(width)
    shapes = {"qkv": (4096, width), "out": (width, 2048), "gate_up": (6 * width, width), "down": (width, 3 * width)}
    return {name: random(*shape, std=0.02) for name, shape in shapes.items()} | {"norm": 1 + random(width, std=0.1)}


@pytest.mark.parametrize("count", [17, 64, 128, 256])
@pytest.mark.parametrize("width", [1024, 2048])
def test_a_chain_of_layers(ops: Ops, width: int, count: int) -> None:
    weights, x = chained(width), random(count, width)
    exact = {name: weight.float() for name, weight in weights.items()}
    want = chain(plain.OPS, x.float(), exact, 3)
    assert relative_error(chain(ops, x, weights, 3), want) < 1.2 * relative_error(chain(plain.OPS, x, weights, 3), want)


def test_a_captured_chain_repeats_its_bits(ops: Ops) -> None:
    weights, x = chained(1024), random(64, 1024)
    want = chain(ops, x, weights, 4)
    stream, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph, stream=stream):
        got = chain(ops, x, weights, 4)
    wrong = torch.zeros((), dtype=torch.int64, device="cuda")
    for _ in range(200):
        got.zero_()
        graph.replay()
        wrong += (got != want).any()
    assert int(wrong) == 0


def test_two_streams(ops: Ops) -> None:
    weights, x = chained(1024), random(64, 1024)
    want, streams = chain(ops, x, weights, 4), [torch.cuda.Stream() for _ in range(2)]
    torch.cuda.synchronize()
    found = []
    for _ in range(20):
        for stream in streams:
            with torch.cuda.stream(stream):
                found.append(chain(ops, x, weights, 4))
    torch.cuda.synchronize()
    assert all(torch.equal(got, want) for got in found)


# ---- attention of a frame


SLOTS, CAPACITY = 140, 300


def attended(count: int, capacity: int = CAPACITY) -> tuple[tuple[Tensor, ...], tuple[Tensor, Tensor], Tensor, Tensor]:
    """Operands, cache, slots and positions, from nothing to the whole cache."""
    torch.manual_seed(3)
    norms = 1 + random(128, std=0.1), 1 + random(128, std=0.1)
    angle = torch.arange(capacity, device="cuda")[:, None] * 1e6 ** -(torch.arange(64, device="cuda") / 64)
    places = torch.randint(0, capacity, (SLOTS, 1), device="cuda")
    places[:9, 0] = torch.tensor([0, 1, 7, 8, 63, 64, 65, 129, capacity - 1]).clamp(max=capacity - 1)
    given = random(SLOTS, 1, 4096)[:count], *norms, 1e-6, angle.cos(), angle.sin()
    cache = random(SLOTS, 8, capacity, 128), random(SLOTS, 8, capacity, 128)
    return given, cache, torch.randperm(SLOTS, device="cuda")[:count], places[:count]


@pytest.mark.parametrize(("count", "capacity"), [(17, 16), (70, 16), (17, 300), (70, 300), (140, 300)])
def test_attention(count: int, capacity: int) -> None:
    given, cache, slots, places = attended(count, capacity)
    theirs, mine = tuple(x.clone() for x in cache), tuple(x.clone() for x in cache)
    want = plain.attend_cached(*given, *theirs, slots, places, capacity)
    assert relative_error(attend.attend(*given, *mine, slots, places, CAPACITY), want) < 5e-3
    assert all(relative_error(x, y) < 1e-3 for x, y in zip(mine, theirs, strict=True))


def test_attention_while_the_places_change(ops: Ops) -> None:
    """In a graph, kernels in front change positions and slots and still run when attention begins."""
    given, cache, slots, places = attended(64)
    mine, fixed = tuple(x.clone() for x in cache), (slots.clone(), places.clone())
    weights, x = chained(1024), random(64, 1024)
    for _ in range(2):
        attend.attend(*given, *mine, slots, places, CAPACITY)
        chain(ops, x, weights, 1)
    stream, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph, stream=stream):
        chain(ops, x, weights, 1)
        slots.copy_(slots.roll(1))
        places.copy_((places + 7) % CAPACITY)
        chain(ops, x, weights, 1)
        got = attend.attend(*given, *mine, slots, places, CAPACITY)
    for turn in range(1, 30):
        graph.replay()
        here = fixed[0].roll(turn), (fixed[1] + 7 * turn) % CAPACITY
        assert torch.equal(slots, here[0]) and torch.equal(places, here[1])
        held = tuple(x.clone() for x in mine)
        assert torch.equal(got, attend.attend(*given, *held, *here, CAPACITY))
