"""The vendor's operators as plain PyTorch, registered under the schemas that the wheel's library registers.

Names, order, defaults and the number of results are therefore PyTorch's to check: they come from `vendor.json`.
What the vendor's manual asks of types, shapes and layouts is checked here. Only tests use this file.
"""

import json
from pathlib import Path
from types import ModuleType

import torch
import torch.nn.functional as F
from torch import Tensor

HALVES = (torch.float16, torch.bfloat16)
strict = True
"""False: attention takes float32 and any depth too, so that rounding hides no mistake."""


class Refused(RuntimeError):
    """The vendor's manual does not allow this call."""


def expect(holds: bool, why: str) -> None:
    if not holds:
        raise Refused(why)


def npu_rms_norm(input: Tensor, gamma: Tensor, epsilon: float = 1e-6) -> tuple[Tensor, Tensor]:
    expect(gamma.dtype == input.dtype, "gamma must be of the input's type")
    wide = input.float()
    rstd = torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + epsilon)
    return (wide * rstd * gamma.float()).to(input.dtype), rstd


def npu_add_rms_norm(x1: Tensor, x2: Tensor, gamma: Tensor, epsilon: float = 1e-6) -> tuple[Tensor, Tensor, Tensor]:
    total = x1 + x2
    return (*npu_rms_norm(total, gamma, epsilon), total)


def npu_swiglu(input: Tensor, dim: int = -1) -> Tensor:
    gate, up = input.float().chunk(2, dim)
    return (F.silu(gate) * up).to(input.dtype)


def npu_rotary_mul(
    input: Tensor, r1: Tensor, r2: Tensor, rotary_mode: str = "half", rotate: Tensor | None = None
) -> Tensor:
    expect(input.ndim == r1.ndim == r2.ndim == 4, "four dimensions are expected")
    expect(input.dtype == r1.dtype == r2.dtype, "the tables must be of the input's type")
    expect(rotary_mode == "half" and rotate is None, "the fake knows the mode 'half' alone")
    expect(input.shape[-1] == r1.shape[-1] == r2.shape[-1], "the tables are as deep as the heads")
    low, high = input.chunk(2, -1)
    return input * r1 + torch.cat([-high, low], -1) * r2


def npu_scatter_nd_update_(input: Tensor, indices: Tensor, updates: Tensor) -> Tensor:
    expect(input.dtype == updates.dtype, "updates must be of the input's type")
    expect(indices.dtype in (torch.int32, torch.int64) and indices.ndim >= 2, "indices must be whole, with two axes")
    axes = indices.shape[-1]
    expect(updates.shape == (*indices.shape[:-1], *input.shape[axes:]), f"updates of shape {tuple(updates.shape)}")
    sizes = torch.tensor(input.shape[:axes])
    expect(bool(((indices >= 0) & (indices < sizes)).all()), "an index is out of bounds")
    return input.index_put_(tuple(indices.unbind(-1)), updates)


def npu_top_k_top_p(logits: Tensor, p: Tensor | None = None, k: Tensor | None = None) -> Tensor:
    expect(logits.ndim == 2 and (p is not None or k is not None), "two dimensions, and p or k")
    expect(p is None or (p.dtype == logits.dtype and bool(((p >= 0) & (p <= 1)).all())), "p in 0..1, of their type")
    most = min(1024, logits.shape[1])
    expect(k is None or (k.dtype == torch.int32 and bool(((k >= 1) & (k <= most)).all())), f"k int32 in 1..{most}")
    ordered, where = logits.sort(dim=-1, stable=True)  # ascending
    if k is not None:
        least = ordered.gather(1, (logits.shape[1] - k.long())[:, None])
        ordered = ordered.masked_fill(ordered < least, float("-inf"))
    if p is not None:
        dropped = ordered.softmax(-1).cumsum(-1) <= 1 - p[:, None]
        dropped[:, -1] = False
        ordered = ordered.masked_fill(dropped, float("-inf"))
    return torch.empty_like(logits).scatter_(1, where, ordered)


def npu_fused_infer_attention_score(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    atten_mask: Tensor | None = None,
    num_heads: int = 1,
    scale: float = 1.0,
    input_layout: str = "BSH",
    num_key_value_heads: int = 0,
    sparse_mode: int = 0,
    inner_precise: int = 0,
    **others: object,
) -> tuple[Tensor, Tensor]:
    known = {"pre_tokens": 2147483647, "next_tokens": 2147483647}
    expect(all(v in (None, 0, False, known.get(n)) for n, v in others.items()), f"the fake knows none of {others}")
    expect(input_layout == "BNSD", "the fake knows the layout BNSD alone")
    batch, heads, rows, depth = query.shape
    kv_heads, width = key.shape[1], key.shape[2]
    expect(heads == num_heads and kv_heads == (num_key_value_heads or num_heads), "the heads are counted wrong")
    expect(all(t.is_contiguous() for t in (query, key, value)), "only contiguous tensors")
    expect(query.dtype == key.dtype == value.dtype, "one type for all")
    if strict:
        expect(query.dtype in HALVES, f"{query.dtype} is not supported")
        expect(rows == 1 or depth % 16 == 0, "heads must be 16-aligned")
    expect(atten_mask is not None and sparse_mode == 0, "a mask of its own, of no sparse mode")
    expect(atten_mask.dtype in (torch.bool, torch.int8, torch.uint8), f"a mask of {atten_mask.dtype}")
    shapes = [(batch, 1, rows, width), (1, 1, rows, width), (1, rows, width)]
    expect(tuple(atten_mask.shape) in shapes, f"a mask of shape {tuple(atten_mask.shape)}")
    seen = ~atten_mask.bool()  # True is masked out
    shared = heads // kv_heads
    key, value = (t.repeat_interleave(shared, 1).float() for t in (key, value))
    scores = (query.float() @ key.transpose(-1, -2) * scale).masked_fill(~seen, float("-inf"))
    out = scores.softmax(-1).nan_to_num(0.0) @ value
    return out.to(query.dtype), torch.zeros(1)


def register(torch_npu: ModuleType, version: str) -> torch.library.Library:
    """Operators in torch.ops.npu and in the module, under the schemas of that version. The library is to be kept."""
    schemas = json.loads((Path(__file__).parent / "vendor.json").read_text())[version]["schemas"]
    library = torch.library.Library("npu", "DEF")
    for name, schema in schemas.items():
        library.define(schema.replace('"BSH"', "'BSH'"))
        library.impl(name, globals()[name], "CPU")
        setattr(torch_npu, name, getattr(torch.ops.npu, name))
    return library


def unregister(library: torch.library.Library) -> None:
    """So that another version can be registered, and torch's compiler, which reads every name in torch.ops, finds only
    operators that exist."""
    library._destroy()
    operators = torch.ops.npu
    for name in [name for name in vars(operators) if name.startswith("npu_")]:
        delattr(operators, name)
    operators._dir[:] = [name for name in operators._dir if not name.startswith("npu_")]
