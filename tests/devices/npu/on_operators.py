"""Proofs about the operators, on the fake NPU: each is its plain twin, and slips are seen. Run by test_operators.py."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

sys.path.insert(0, str(Path(__file__).parent))

import fake_npu
import fake_operators

torch_npu = fake_npu.install(os.environ["FAKE_NPU_VERSION"])

from omnitts_cli.devices.npu import operators  # noqa: E402
from omnitts_cli.kernels import plain  # noqa: E402
from omnitts_cli.kernels.ops import Normed  # noqa: E402
from omnitts_cli.models.cache import angles  # noqa: E402

DTYPES = (torch.float32, torch.bfloat16, torch.float16)
BOUND = {torch.float32: 2e-5, torch.bfloat16: 3e-2, torch.float16: 4e-3}
"""A rounding or two more or less than the twin; the vendor's norms round once, ours twice."""

EPS = 1e-6


@pytest.fixture(autouse=True)
def on_its_own() -> Iterator[None]:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    yield
    fake_operators.strict = True
    fake_npu.waits.mode = 0


def put(tree: Any) -> Any:
    if isinstance(tree, Normed):
        return replace(tree, rows=put(tree.rows), weight=put(tree.weight))
    return tree.to("npu") if isinstance(tree, Tensor) else tree


def same(ours: Tensor, twin: Tensor, dtype: torch.dtype) -> None:
    assert ours.device.type == "npu"
    assert ours.dtype == twin.dtype
    torch.testing.assert_close(ours.cpu().float(), twin.float(), rtol=BOUND[dtype], atol=BOUND[dtype])


def is_twin(name: str, dtype: torch.dtype, *args: Any) -> None:
    same(getattr(operators.OPS, name)(*map(put, args)), getattr(plain.OPS, name)(*args), dtype)


def heard(dtype: torch.dtype, *shape: int) -> Normed:
    return Normed(3 * torch.randn(shape).to(dtype), torch.rand(shape[-1]).to(dtype), EPS)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(3, 16), (2, 1, 16), (2, 5, 4, 16)], ids=str)
def test_norm_is_its_twin(dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    is_twin("norm", dtype, heard(dtype, *shape))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", ["norm_linear", "norm_swiglu"])
def test_norm_and_product_are_their_twins(dtype: torch.dtype, name: str) -> None:
    is_twin(name, dtype, heard(dtype, 2, 3, 16), torch.randn(12, 16).to(dtype) / 4)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_product_add_and_norm_are_their_twins(dtype: torch.dtype) -> None:
    x, weight, residual = torch.randn(2, 3, 16).to(dtype), torch.randn(12, 16).to(dtype) / 4, torch.randn(2, 3, 12)
    case = [x, weight, residual.to(dtype), torch.rand(12).to(dtype), EPS]
    ours, twin = operators.linear_add(*map(put, case)), plain.linear_add(*case)
    same(ours.rows, twin.rows, dtype)
    same(operators.norm(ours), plain.norm(twin), dtype)


def attention(dtype: torch.dtype, rows: int, depth: int = 16, heads: int = 4, kv_heads: int = 2) -> list[Any]:
    """Three slots of five, at different positions, over a cache in which everything behind is rubbish."""
    slots, capacity, width = 5, 24, 20
    cos, sin = angles(torch.arange(capacity), depth, 10_000)
    keys, values = (torch.randn(slots, kv_heads, capacity, depth).to(dtype) for _ in range(2))
    keys[:, :, 12 + rows :] = 50.0
    return [
        torch.randn(3, rows, (heads + 2 * kv_heads) * depth).to(dtype),
        torch.rand(depth).to(dtype) + 0.5,
        torch.rand(depth).to(dtype) + 0.5,
        EPS,
        cos,
        sin,
        keys,
        values,
        torch.tensor([3, 0, 4]),
        torch.tensor([[0], [7], [12]]) + torch.arange(rows),
        width,
    ]


def attends_like_its_twin(dtype: torch.dtype, rows: int) -> None:
    case = attention(dtype, rows)
    ours = [value.clone().to("npu") if isinstance(value, Tensor) else value for value in case]
    same(operators.attend_cached(*ours), plain.attend_cached(*case), dtype)
    for cache in (6, 7):
        same(ours[cache], case[cache], dtype)


@pytest.mark.parametrize("dtype", DTYPES[1:], ids=str)
@pytest.mark.parametrize("rows", [1, 2, 6])
def test_attention_is_its_twin(dtype: torch.dtype, rows: int) -> None:
    attends_like_its_twin(dtype, rows)
    assert counted(lambda: attends_like_its_twin(dtype, rows))["npu_fused_infer_attention_score"] == 1


@pytest.mark.parametrize("rows", [1, 2, 6])
def test_attention_is_its_twin_without_rounding(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    exact(monkeypatch)
    attends_like_its_twin(torch.float32, rows)


def exact(monkeypatch: pytest.MonkeyPatch) -> None:
    """The vendor's attention, but in float32, so that a slip cannot hide behind rounding."""
    fake_operators.strict = False
    monkeypatch.setattr(operators, "fused", lambda dtype, depth: True)


def counted(work: Callable[[], None]) -> dict[str, int]:
    """How often the work calls each of the vendor's operators."""
    names = [name for name in vars(torch_npu) if name.startswith("npu_")]
    counts = dict.fromkeys(names, 0)

    def counting(name: str, real: Any) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            counts[name] += 1
            return real(*args, **kwargs)

        return call

    with pytest.MonkeyPatch.context() as patch:
        for name in names:
            patch.setattr(torch_npu, name, counting(name, getattr(torch_npu, name)))
        work()
    return counts


def test_what_the_vendor_refuses_goes_the_plain_way() -> None:
    for dtype, depth in ((torch.float32, 16), (torch.float16, 8)):
        case = attention(dtype, 3, depth=depth)
        ours = [put(value) for value in case]
        counts = counted(lambda ours=ours: operators.attend_cached(*ours))
        assert counts["npu_fused_infer_attention_score"] == 0
        same(operators.attend_cached(*map(put, case)), plain.attend_cached(*case), dtype)


def test_every_operator_of_the_table_is_called() -> None:
    def everything() -> None:
        attends_like_its_twin(torch.bfloat16, 2)
        is_twin("norm_swiglu", torch.float32, heard(torch.float32, 2, 16), torch.randn(12, 16))
        test_product_add_and_norm_are_their_twins(torch.float32)
        is_twin("choose", torch.float32, *draws(8))

    counts = counted(everything)
    assert all(counts.values())


def draws(size: int) -> list[Any]:
    """Every kind of setting in one batch."""
    rows = [(t, k, p) for t in (0.0, 0.7, 1.3) for k in (0, 1, 5, 50, 1024, 1025, 5000) for p in (0.1, 0.8, 1.0)]
    temperature, top_k, top_p = (torch.tensor(column) for column in zip(*rows, strict=True))
    seeds = torch.arange(len(rows)) * 7919 - 2**40
    return [4 * torch.randn(len(rows), size), seeds, torch.arange(len(rows)), 3, temperature, top_k, top_p]


@pytest.mark.parametrize("size", [8, 1024, 2048, 3072])
def test_choices_are_the_twins(size: int) -> None:
    case = draws(size)
    case[0][:, 1] = float("-inf")  # codes that may not be drawn
    ours, twin = operators.choose(*map(put, case)), plain.choose(*case)
    assert ours.cpu().tolist() == twin.tolist()


@pytest.mark.parametrize("size", [8, 3072])
def test_the_same_codes_stay_likely(size: int) -> None:
    logits, _, _, _, *settings = draws(size)
    ours = operators.keep_likely(*map(put, (logits, *settings))).cpu()
    assert (ours.isfinite() == plain.keep_likely(logits, *settings).isfinite()).all()


def test_a_captured_choice_and_attention_replay_to_the_same() -> None:
    case, drawing = [put(value) for value in attention(torch.bfloat16, 1)], [put(value) for value in draws(64)]
    before = fake_npu.waits.seen.copy()
    out: dict[str, Tensor] = {}

    def step() -> None:
        out["heard"] = operators.attend_cached(*case)
        out["code"] = operators.choose(*drawing)

    step()
    eager = {name: tensor.cpu() for name, tensor in out.items()}
    graph = torch_npu.npu.NPUGraph()
    with torch_npu.npu.graph(graph, stream=torch_npu.npu.Stream()):
        step()
    assert not any(op.measured for op in fake_npu.graphs.all[-1].ops), "lengths of the host were baked in"
    for _ in range(2):
        with torch_npu.npu.stream(torch_npu.npu.Stream()):
            graph.replay()
        for name, tensor in out.items():
            assert torch.equal(tensor.cpu(), eager[name])
    assert not [wait for wait in fake_npu.waits.seen[len(before) :] if "copy" not in wait and "synchronize" not in wait]


# ---- slips, each of which one of the comparisons above must see


def wrong(monkeypatch: pytest.MonkeyPatch, name: str, slip: Callable[..., Any]) -> None:
    real = getattr(torch_npu, name)
    monkeypatch.setattr(torch_npu, name, lambda *args, **kwargs: slip(real, *args, **kwargs))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_mask_of_the_wrong_polarity_is_seen(dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    exact(monkeypatch)
    wrong(
        monkeypatch,
        "npu_fused_infer_attention_score",
        lambda real, *args, atten_mask, **rest: real(*args, atten_mask=~atten_mask, **rest),
    )
    with pytest.raises(AssertionError, match="Tensor-likes are not close"):
        attends_like_its_twin(dtype, 2)


def test_a_forgotten_scale_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong(
        monkeypatch,
        "npu_fused_infer_attention_score",
        lambda real, *args, scale, **rest: real(*args, **rest),
    )
    with pytest.raises(AssertionError, match="Tensor-likes are not close"):
        attends_like_its_twin(torch.bfloat16, 2)


def test_sine_and_cosine_in_the_wrong_order_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong(monkeypatch, "npu_rotary_mul", lambda real, x, cos, sin: real(x, sin, cos))
    with pytest.raises(AssertionError, match="Tensor-likes are not close"):
        attends_like_its_twin(torch.bfloat16, 2)


def test_k_before_p_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong(monkeypatch, "npu_top_k_top_p", lambda real, logits, *, p: real(logits, None, p))
    with pytest.raises(fake_operators.Refused, match="k int32"):
        operators.choose(*map(put, draws(64)))


def test_indices_in_the_wrong_order_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong(monkeypatch, "npu_scatter_nd_update_", lambda real, x, at, rows: real(x, at[:, [0, 2, 1]], rows))
    with pytest.raises((fake_operators.Refused, RuntimeError)):
        attends_like_its_twin(torch.bfloat16, 6)


def test_an_argument_of_another_operator_is_refused() -> None:
    q = torch.zeros(1, 4, 1, 16, dtype=torch.bfloat16).to("npu")
    with pytest.raises(RuntimeError, match="enable_gqa"):
        torch_npu.npu_fused_infer_attention_score(q, q, q, num_heads=4, input_layout="BNSD", enable_gqa=True)


def test_a_mask_given_by_position_is_refused() -> None:
    q = torch.zeros(1, 4, 1, 16, dtype=torch.bfloat16).to("npu")
    with pytest.raises(RuntimeError, match="positional"):
        torch_npu.npu_fused_infer_attention_score(q, q, q, None, None, num_heads=4, input_layout="BNSD")


def test_a_compressed_mask_of_another_size_is_refused() -> None:
    q = torch.zeros(1, 4, 8, 16, dtype=torch.bfloat16).to("npu")
    mask = torch.ones(8, 8, dtype=torch.bool).triu(1).to("npu")
    with pytest.raises(fake_operators.Refused, match="compressed mask"):
        torch_npu.npu_fused_infer_attention_score(
            q, q, q, atten_mask=mask, num_heads=4, input_layout="BNSD", sparse_mode=3
        )


@pytest.mark.parametrize("make", ["double", "float64", "zeros"])
def test_float64_on_the_device_is_refused(make: str) -> None:
    makers: dict[str, Callable[[], Tensor]] = {
        "double": lambda: torch.ones(2).to("npu").double(),
        "float64": lambda: torch.ones(2, dtype=torch.float64).to("npu"),
        "zeros": lambda: torch.zeros(2, dtype=torch.float64, device="npu"),
    }
    with pytest.raises(TypeError, match="float64"):
        makers[make]()
