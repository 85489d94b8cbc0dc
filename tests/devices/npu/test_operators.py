"""The vendor's operators: the committed table is the wheel, and our calls mean what the plain operations mean."""

import ast
import importlib
import importlib.util
import inspect
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from engine_kit import engine_of, join, model_over, requests_of, solo, speak
from engine_kit import same as same_clip
from recording_device import RecordingDevice
from torch import Tensor

from omnitts_cli.devices import accelerator
from omnitts_cli.families.toy import toy
from omnitts_cli.kernels import choose, plain
from omnitts_cli.kernels.hardware import Hardware
from omnitts_cli.kernels.ops import Normed, Ops
from omnitts_cli.models.layers import angles

HERE = Path(__file__).parent
TABLES = json.loads((HERE / "vendor.json").read_text("utf-8"))
OLDEST, NEWEST = TABLES

DTYPES = (torch.float32, torch.bfloat16, torch.float16)
BOUND = {torch.float32: 2e-5, torch.bfloat16: 3e-2, torch.float16: 4e-3}
"""A rounding or two more or less than the twin; the vendor's norms round once, ours twice."""

EPS = 1e-6
SLOTS, CAPACITY, WIDTH, HEADS, KV_HEADS = 5, 24, 20, 4, 2


def local(name: str) -> ModuleType:
    """A module beside this file."""
    spec = importlib.util.spec_from_file_location(name, HERE / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_operators_of_a_version_are_unregistered_with_their_names() -> None:
    fake = local("fake_operators")
    library = fake.register(ModuleType("torch_npu"), NEWEST)
    assert [name for name in torch.ops.npu if name.startswith("npu_")]
    fake.unregister(library)
    assert [name for name in torch.ops.npu if name.startswith("npu_")] == []
    library = fake.register(ModuleType("torch_npu"), OLDEST)
    fake.unregister(library)


@pytest.fixture(params=[OLDEST, NEWEST])
def vendor(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """torch_npu with the operators as plain PyTorch, on the CPU, under that version's schemas."""
    torch.manual_seed(0)
    fake, torch_npu = local("fake_operators"), ModuleType("torch_npu")
    library = fake.register(torch_npu, request.param)
    torch_npu.fake = fake
    monkeypatch.setitem(sys.modules, "torch_npu", torch_npu)
    yield torch_npu
    fake.unregister(library)


@pytest.fixture
def operators(vendor: ModuleType, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """devices/npu/operators.py over it."""
    monkeypatch.delitem(sys.modules, "omnitts_cli.devices.npu.operators", raising=False)
    return importlib.import_module("omnitts_cli.devices.npu.operators")


@pytest.fixture
def ours(operators: ModuleType) -> Ops:
    """The operations of an NPU."""
    return choose.ops(Hardware("npu"), {"operators": operators})


def same(got: Tensor, twin: Tensor, dtype: torch.dtype) -> None:
    assert got.dtype == twin.dtype
    torch.testing.assert_close(got.float(), twin.float(), rtol=BOUND[dtype], atol=BOUND[dtype])


def normed(dtype: torch.dtype, *shape: int) -> Normed:
    return Normed(3 * torch.randn(shape).to(dtype), torch.rand(shape[-1]).to(dtype), EPS)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_norms_and_products_are_their_twins(ours: Ops, dtype: torch.dtype) -> None:
    weight = torch.randn(12, 16).to(dtype) / 4
    for shape in ((3, 16), (2, 1, 16), (2, 5, 4, 16)):
        x = normed(dtype, *shape)
        same(ours.norm(x), plain.norm(x), dtype)
        same(ours.norm_linear(x, weight), plain.norm_linear(x, weight), dtype)
        same(ours.norm_swiglu(x, weight), plain.norm_swiglu(x, weight), dtype)
    x, residual = torch.randn(2, 3, 16).to(dtype), torch.randn(2, 3, 12).to(dtype)
    case = (x, weight, residual, torch.rand(12).to(dtype), EPS)
    made, twin = ours.linear_add(*case), plain.linear_add(*case)
    same(made.rows, twin.rows, dtype)
    same(ours.norm(made), plain.norm(twin), dtype)


def attention(dtype: torch.dtype, rows: int, depth: int = 16) -> list[Any]:
    """Three slots of five, at different positions, over a cache in which everything later is rubbish."""
    cos, sin = angles(torch.arange(CAPACITY), depth, 10_000)
    keys, values = (torch.randn(SLOTS, KV_HEADS, CAPACITY, depth).to(dtype) for _ in range(2))
    keys[:, :, 12 + rows :] = 50.0
    positions = torch.tensor([[0], [7], [12]]) + torch.arange(rows)
    qkv = torch.randn(3, rows, (HEADS + 2 * KV_HEADS) * depth).to(dtype)
    weights = [torch.rand(depth).to(dtype) + 0.5 for _ in range(2)]
    return [qkv, *weights, EPS, cos, sin, keys, values, torch.tensor([3, 0, 4]), positions, WIDTH]


def attends_like_its_twin(ours: Ops, dtype: torch.dtype, rows: int, depth: int = 16) -> None:
    case = attention(dtype, rows, depth)
    copied = [value.clone() if isinstance(value, Tensor) else value for value in case]
    same(ours.attend_cached(*copied), plain.attend_cached(*case), dtype)
    for cache in (6, 7):
        same(copied[cache], case[cache], dtype)


@pytest.fixture
def exact(operators: ModuleType, ours: Ops, vendor: ModuleType, monkeypatch: pytest.MonkeyPatch) -> Ops:
    """The same with the vendor's attention in float32, so that a slip cannot hide behind rounding."""
    monkeypatch.setattr(vendor.fake, "strict", False)
    return replace(ours, attend_cached=operators.attend_cached)


@pytest.mark.parametrize("rows", [1, 2, 6])
def test_attention_is_its_twin(ours: Ops, vendor: ModuleType, rows: int) -> None:
    """With the vendor's operator where it takes the type and the depth, else the plain way."""
    real, called = vendor.npu_fused_infer_attention_score, []

    def counting(*args: Any, **kwargs: Any) -> Any:
        called.append(1)
        return real(*args, **kwargs)

    vendor.npu_fused_infer_attention_score = counting
    for dtype, depth, fused in ((torch.bfloat16, 16, 1), (torch.float16, 16, 1), (torch.float32, 16, 0)):
        called.clear()
        attends_like_its_twin(ours, dtype, rows, depth)
        assert len(called) == fused
    attends_like_its_twin(ours, torch.float16, rows, 8)
    assert not called


@pytest.mark.parametrize("rows", [1, 2, 6])
def test_attention_is_its_twin_without_rounding(exact: Ops, rows: int) -> None:
    attends_like_its_twin(exact, torch.float32, rows)


def draws(size: int) -> list[Any]:
    """Every kind of setting in one batch."""
    rows = [(t, k, p) for t in (0.0, 0.7, 1.3) for k in (0, 1, 5, 50, 1024, 1025, 5000) for p in (0.1, 0.8, 1.0)]
    temperature, top_k, top_p = (torch.tensor(column) for column in zip(*rows, strict=True))
    seeds = torch.arange(len(rows)) * 7919 - 2**40
    return [4 * torch.randn(len(rows), size), seeds, torch.arange(len(rows)), 3, temperature, top_k, top_p]


@pytest.mark.parametrize("size", [8, 1024, 2048, 3072])
def test_choices_are_the_twins(operators: ModuleType, ours: Ops, size: int) -> None:
    case = draws(size)
    likely = [plain.keep_likely, operators.keep_likely]
    kept, twin = (one(case[0], *case[4:]).isfinite() for one in likely)
    assert torch.equal(kept, twin)
    case[0][:, 1] = float("-inf")  # codes that may not be drawn
    assert ours.choose(*case).tolist() == plain.choose(*case).tolist()


@pytest.mark.parametrize("late", [False, True])
def test_an_engine_over_the_vendors_operators_speaks_as_over_the_plain_ones(exact: Ops, late: bool) -> None:
    """Captured steps, streams that lag, no host reads, no float64; with the vendor's attention in float32."""
    engine = engine_of(3, of=model_over(exact), device=RecordingDevice(late=late), chunks=(1, 2), prefill_rows=(16,))
    with engine.device.count_syncs() as waits:
        spoken = join(engine.speak(requests_of(7)))
    assert waits() == 0
    for request in requests_of(7):
        same_clip(solo(request), spoken[request.id])


def test_captured_is_eager_in_bfloat16(ours: Ops) -> None:
    """The card's own type."""
    sizes = {"groups": 3, "codes": 24, "hidden": 32, "predictor_hidden": 16}
    model = toy(**sizes, dtype=torch.bfloat16, ops=ours)
    few = {"buckets": (3,), "chunks": (1, 2), "prefill_rows": (16,), "pads": True}
    asked = requests_of(4, max_frames=8)
    eager = speak(asked, engine=engine_of(3, of=model, **few))
    captured = speak(asked, engine=engine_of(3, of=model, device=RecordingDevice(), **few))
    for name, clip in eager.items():
        assert np.array_equal(captured[name].codes, clip.codes)


def test_no_tensor_is_made_on_the_host() -> None:
    """Every tensor that a file of the room makes from nothing says where."""
    makers = {"arange", "empty", "full", "ones", "tensor", "zeros"}
    room = HERE.parents[2] / "omnitts_cli/devices/npu"
    calls = [node for path in room.glob("*.py") for node in ast.walk(ast.parse(path.read_text("utf-8")))]
    made = [
        call for call in calls if isinstance(call, ast.Call) and ast.unparse(call.func).removeprefix("torch.") in makers
    ]
    assert len(made) > 1 and all("device" in {given.arg for given in call.keywords} for call in made)


def test_the_vendors_operators_are_used(ours: Ops) -> None:
    own = {name for name in vars(plain.OPS) if getattr(ours, name) is not getattr(plain.OPS, name)}
    assert own >= {"norm", "norm_linear", "norm_swiglu", "linear_add", "attend_cached", "choose"}


@pytest.mark.parametrize("version", [OLDEST, NEWEST])
def test_streams_and_graphs_are_asked_for_what_the_vendor_has(version: str) -> None:
    """Every name that accelerator.py uses of the package, and the arguments that it gives."""
    told = {name: text for file in TABLES[version]["interface"].values() for name, text in file.items()}
    known = {name.split(".")[0] for name in told}
    asked = set(re.findall(r"\bapi\.(\w+)", inspect.getsource(accelerator)))
    assert asked <= known, asked - known
    calls = [node for node in ast.walk(ast.parse(inspect.getsource(accelerator))) if isinstance(node, ast.Call)]
    for call in calls:
        if isinstance(call.func, ast.Attribute) and ast.unparse(call.func.value).endswith("api"):
            name = next(
                one
                for one in told
                if one in (call.func.attr, f"{call.func.attr}.__init__", f"{call.func.attr}.__new__")
            )
            for given in call.keywords:
                assert given.arg in told[name] or "kwargs" in told[name], f"{name}({given.arg})"


@pytest.mark.slow
@pytest.mark.parametrize("version", [OLDEST, NEWEST])
def test_the_table_is_the_real_wheel(version: str, tmp_path: Path) -> None:
    """The wheel is read, never installed or imported. Needs a network and a Python it is built for."""
    command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--dest", str(tmp_path)]
    done = subprocess.run([*command, f"torch_npu=={version}"], capture_output=True, text=True, check=False)
    wheels = list(tmp_path.glob("*.whl"))
    if not wheels:
        pytest.skip(f"no wheel of torch_npu {version} for this machine: {done.stderr[-200:]}")
    read: dict[str, Any] = local("vendor_table").table(wheels[0])
    assert read == TABLES[version]


def test_the_reader_sees_a_change(tmp_path: Path) -> None:
    table = local("vendor_table")
    library = b"\0npu_swiglu(Tensor input, int dim=-1) -> Tensor\0npu_swiglu.out(Tensor x) -> Tensor\0"
    assert table.schema(library, "npu_swiglu") == TABLES[NEWEST]["schemas"]["npu_swiglu"]
    with pytest.raises(AssertionError, match="not registered"):
        table.schema(library, "npu_rms_norm")
