"""The vendor's fused operators, where they compute the same as the plain versions. All of them can be captured: lengths
and masks are tensors on the device, so no host value becomes part of a graph.
"""

import torch
import torch.nn.functional as F
import torch_npu
from torch import Tensor

from omnitts_cli.kernels import plain
from omnitts_cli.kernels.ops import ExpertBlock, Normed
from omnitts_cli.kernels.plain_experts import mixture


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    return torch_npu.npu_rms_norm(x, weight, epsilon=eps)[0]


def norm(x: Normed) -> Tensor:
    return rms_norm(x.rows, x.weight, x.eps) if x.value is None else x.value


def norm_linear(x: Normed, weight: Tensor) -> Tensor:
    return F.linear(norm(x), weight)


def norm_swiglu(x: Normed, gate_up: Tensor) -> Tensor:
    return torch_npu.npu_swiglu(norm_linear(x, gate_up), dim=-1)


def linear_add(x: Tensor, weight: Tensor, residual: Tensor, norm: Tensor, eps: float) -> Normed:
    value, _, rows = torch_npu.npu_add_rms_norm(F.linear(x, weight), residual, norm, epsilon=eps)
    return Normed(rows, norm, eps, value)


def experts(x: Tensor, norm: Tensor, eps: float, block: ExpertBlock) -> Tensor:
    return x + mixture(rms_norm(x, norm, eps), block)


def attend_cached(
    qkv: Tensor,  # [B, P, (heads + 2 kv) D]
    q_weight: Tensor,
    k_weight: Tensor,
    eps: float,
    cos: Tensor,  # [capacity, D / 2] float32, by position
    sin: Tensor,
    keys: Tensor,  # [slots, kv, capacity, D]
    values: Tensor,
    slots: Tensor,  # [B]
    positions: Tensor,  # [B, P]
    width: int,
) -> Tensor:
    kv_heads, depth = keys.shape[1], keys.shape[3]
    parts = qkv.unflatten(-1, (-1, depth))
    heads = parts.shape[2] - 2 * kv_heads
    q, k, v = parts.split([heads, kv_heads, kv_heads], 2)
    normed = torch.cat([rms_norm(q, q_weight, eps), rms_norm(k, k_weight, eps)], 2)  # [B, P, heads + kv, D]
    q, k = rotate(normed, cos[positions], sin[positions]).split([heads, kv_heads], 2)
    where = places(slots, positions, kv_heads)
    torch_npu.npu_scatter_nd_update_(keys, where, k.reshape(-1, depth))
    torch_npu.npu_scatter_nd_update_(values, where, v.reshape(-1, depth))
    # a full-width mask on the device, where True means "not seen"; host lengths would have to be patched into
    # every captured graph before each replay
    unseen = torch.arange(width, device=positions.device) > positions[:, :, None]  # [B, P, width]
    out = torch_npu.npu_fused_infer_attention_score(
        q.transpose(1, 2).contiguous(),  # [B, heads, P, D]
        keys[:, :, :width].index_select(0, slots),  # [B, kv, width, D]
        values[:, :, :width].index_select(0, slots),
        atten_mask=unseen[:, None],
        num_heads=heads,
        num_key_value_heads=kv_heads,
        scale=depth**-0.5,
        input_layout="BNSD",
        sparse_mode=0,
    )[0]
    return out.transpose(1, 2).flatten(2)


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """x [B, P, heads, D]; cos, sin [B, P, D / 2] float32. In float32 like the plain version, rounded once."""
    cos, sin = (torch.cat([half, half], -1)[:, :, None] for half in (cos, sin))  # [B, P, 1, D]
    return torch_npu.npu_rotary_mul(x.float(), cos, sin).to(x.dtype)


def places(slots: Tensor, positions: Tensor, kv_heads: int) -> Tensor:
    """Where in a cache [slots, kv, capacity, D] the rows of k [B, P, kv, D] belong: [B P kv, 3] int64."""
    heads = torch.arange(kv_heads, device=slots.device)
    axes = torch.broadcast_tensors(slots[:, None, None], heads, positions[:, :, None])
    return torch.stack(axes, -1).flatten(0, 2)


def keep_likely(logits: Tensor, temperature: Tensor, top_k: Tensor, top_p: Tensor) -> Tensor:
    """Like the plain version, except that it may drop some of several logits that equal the last one inside top-p.

    The vendor's operator knows top-k too, but only up to 1024; the codes are more.
    """
    size = logits.shape[-1]
    scaled = logits / torch.where(temperature > 0, temperature, 1.0)[:, None]
    last = torch.where(top_k > 0, top_k, size).clamp(max=size) - 1  # [B]
    threshold = scaled.sort(-1, descending=True).values.gather(1, last[:, None])  # [B, 1]
    scaled = scaled.masked_fill(scaled < threshold, float("-inf"))
    return torch_npu.npu_top_k_top_p(scaled, p=top_p.clamp(0.0, 1.0))


def choose(
    logits: Tensor, seeds: Tensor, frames: Tensor, group: int, temperature: Tensor, top_k: Tensor, top_p: Tensor
) -> Tensor:
    logits = logits.float()
    return plain.draw(keep_likely(logits, temperature, top_k, top_p), logits, seeds, frames, group, temperature)
