"""Plain PyTorch version of every operation: the reference for faster versions. All of them can be captured: fixed
shapes, no host reads, no branch on a tensor's value. Norms, rotation, softmax and probabilities are computed in float32
whatever the activations are: users of other engines heard the difference when fused norms rounded elsewhere.
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from omnitts_cli.kernels.ops import ExpertBlock, LearnOps, LowRank, Normed, Ops
from omnitts_cli.kernels.plain_experts import mixture, swiglu
from omnitts_cli.kernels.plain_frame import begin, finish, first_scores, pick


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    return F.linear(x, weight, bias)


def scores(hidden: Tensor, head: Tensor) -> Tensor:
    return F.linear(hidden.float(), head.float())


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    wide = x.float()
    wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + eps)
    return weight * wide.to(x.dtype)


def norm(x: Normed) -> Tensor:
    return rms_norm(x.rows, x.weight, x.eps) if x.value is None else x.value


def norm_linear(x: Normed, weight: Tensor) -> Tensor:
    return F.linear(norm(x), weight)


def norm_swiglu(x: Normed, gate_up: Tensor) -> Tensor:
    """The first half of a gated MLP; gate_up [2 * inner, H], gate first -> [..., inner]."""
    return swiglu(norm_linear(x, gate_up))


def linear_add(x: Tensor, weight: Tensor, residual: Tensor, norm: Tensor, eps: float) -> Normed:
    """The end of a block: adds its product to its input; the norm belongs to the next block."""
    return Normed(residual + F.linear(x, weight), norm, eps)


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Half-split rotation. x [B, P, heads, D]; cos, sin [B, P, D / 2] float32."""
    cos, sin = cos[:, :, None], sin[:, :, None]
    low, high = x.float().chunk(2, -1)
    return torch.cat([low * cos - high * sin, high * cos + low * sin], -1).to(x.dtype)


def split_heads(
    qkv: Tensor, q_weight: Tensor, k_weight: Tensor, eps: float, cos: Tensor, sin: Tensor, kv_heads: int
) -> tuple[Tensor, Tensor, Tensor]:
    """One projection [B, P, (heads + 2 kv) D] -> normed, rotated q, k and plain v, each [B, P, n, D]."""
    width = q_weight.shape[0]
    parts = qkv.unflatten(-1, (-1, width))
    heads = parts.shape[2] - 2 * kv_heads
    q, k, v = parts.split([heads, kv_heads, kv_heads], 2)
    return rotate(rms_norm(q, q_weight, eps), cos, sin), rotate(rms_norm(k, k_weight, eps), cos, sin), v


def attend_cached(
    qkv: Tensor,  # [B, P, (heads + 2 kv) D]
    q_weight: Tensor,  # [D]
    k_weight: Tensor,  # [D]
    eps: float,
    cos: Tensor,  # [capacity, D / 2] float32, by position
    sin: Tensor,
    keys: Tensor,  # [slots, kv, capacity, D], written at `positions`
    values: Tensor,
    slots: Tensor,  # [B] int64
    positions: Tensor,  # [B, P] int64
    width: int,  # no position of this call is >= width; a bound known to the host
) -> Tensor:
    """Norm, rotate, write the new keys and values, attend to all positions so far: [B, P, heads * D]."""
    kv_heads, depth = keys.shape[1], keys.shape[3]
    q, k, v = split_heads(qkv, q_weight, k_weight, eps, cos[positions], sin[positions], kv_heads)
    batch, rows = positions.shape
    where = (slots[:, None], positions)
    # with advanced indices on both sides, the head axis comes after them: [B, P, kv, D], as in k and v
    keys.transpose(1, 2).index_put_(where, k)
    values.transpose(1, 2).index_put_(where, v)
    seen_keys = keys[:, :, :width].index_select(0, slots)  # [B, kv, width, D]
    seen_values = values[:, :, :width].index_select(0, slots)
    # the queries that share a kv head are laid side by side, so that keys need no copies
    shared = q.shape[2] // kv_heads
    q = (
        q.view(batch, rows, kv_heads, shared, depth)
        .permute(0, 2, 3, 1, 4)
        .reshape(batch, kv_heads, shared * rows, depth)
    )
    mask = torch.arange(width, device=positions.device) <= positions[:, :, None]  # [B, P, width]
    mask = mask[:, None, None].expand(batch, 1, shared, rows, width).reshape(batch, 1, shared * rows, width)
    out = F.scaled_dot_product_attention(q, seen_keys, seen_values, attn_mask=mask)
    out = out.view(batch, kv_heads, shared, rows, depth).permute(0, 3, 1, 2, 4)
    return out.reshape(batch, rows, kv_heads * shared * depth)


def mix(x: Tensor) -> Tensor:
    """A 32-bit integer hash, in int64 so that every device computes the same bits.

    Both factors are below 2^31, so no product leaves int64.
    """
    x = (x ^ (x >> 16)) * 0x21F0AAAD & 0xFFFFFFFF
    x = (x ^ (x >> 15)) * 0x735A2D97 & 0xFFFFFFFF
    return x ^ (x >> 15)


def uniform(seeds: Tensor, frames: Tensor, group: int) -> Tensor:
    """A number in [0, 1) addressed by (seed, frame, group): [B] float32. seeds and frames [B] int64.

    It depends on nothing else, so a request's draws do not depend on its neighbours in the batch.
    """
    low, high = seeds & 0xFFFFFFFF, (seeds >> 32) & 0xFFFFFFFF
    bits = mix(mix(mix((frames * 64 + group) & 0xFFFFFFFF) ^ low) ^ high)
    return (bits >> 8).float() * 2.0**-24


def keep_likely(logits: Tensor, temperature: Tensor, top_k: Tensor, top_p: Tensor) -> Tensor:
    """Temperature, top-k, top-p: codes that may not be drawn get -inf. logits [B, V] float32, the settings [B].

    Ties with the last kept logit are kept, and the code that crosses top-p is kept. top_k 0 or >= V
    and top_p >= 1 keep everything.
    """
    size = logits.shape[-1]
    scaled = logits / torch.where(temperature > 0, temperature, 1.0)[:, None]
    ordered = scaled.sort(-1, descending=True).values
    last = torch.where(top_k > 0, top_k, size).clamp(max=size) - 1  # [B]
    threshold = ordered.gather(1, last[:, None])  # [B, 1]
    ordered = ordered.masked_fill(ordered < threshold, float("-inf"))
    chance = ordered.softmax(-1)
    larger = chance.cumsum(-1) - chance  # mass of the strictly more likely ones
    dropped = (larger >= top_p[:, None]) & (top_p < 1)[:, None]
    dropped[:, 0] = False
    lowest = ordered.masked_fill(dropped, float("inf")).amin(-1, keepdim=True)
    return scaled.masked_fill(scaled < torch.maximum(threshold, lowest), float("-inf"))


def choose(
    logits: Tensor,  # [B, V]
    seeds: Tensor,  # [B] int64
    frames: Tensor,  # [B] int64
    group: int,
    temperature: Tensor,  # [B] float32; 0: the likeliest
    top_k: Tensor,  # [B] int64; 0: all
    top_p: Tensor,  # [B] float32
) -> Tensor:
    """One code per row: [B] int64."""
    logits = logits.float()
    return draw(keep_likely(logits, temperature, top_k, top_p), logits, seeds, frames, group, temperature)


def draw(likely: Tensor, logits: Tensor, seeds: Tensor, frames: Tensor, group: int, temperature: Tensor) -> Tensor:
    """Draws a code from logits [B, V]: the number of `uniform` selects from the cumulated probabilities in code
    order."""
    mass = likely.softmax(-1).cumsum(-1)
    target = uniform(seeds, frames, group)[:, None] * mass[:, -1:]
    drawn = (mass <= target).sum(-1).clamp(max=logits.shape[-1] - 1)
    return torch.where(temperature > 0, drawn, logits.argmax(-1))


def experts(x: Tensor, norm: Tensor, eps: float, block: ExpertBlock) -> Tensor:
    """x [..., H] plus the experts' output for its norm."""
    return x + mixture(rms_norm(x, norm, eps), block)


# ---- for learning: these have gradients


def add_norm(product: Tensor, residual: Tensor, weight: Tensor, eps: float) -> Normed:
    return Normed(residual + product, weight, eps)


def attend(
    qkv: Tensor, q_weight: Tensor, k_weight: Tensor, eps: float, cos: Tensor, sin: Tensor, kv_heads: int
) -> Tensor:
    """qkv [B, P, (heads + 2 kv) D]; cos, sin [P, D / 2] float32. Norm and rotate queries and keys, attend to all
    positions so far: [B, P, heads D].
    """
    q, k, v = split_heads(qkv, q_weight, k_weight, eps, cos[None], sin[None], kv_heads)
    shared = q.shape[2] // kv_heads
    q, k, v = (x.transpose(1, 2) for x in (q, k.repeat_interleave(shared, 2), v.repeat_interleave(shared, 2)))
    return F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)


def low_rank(x: Tensor, weight: Tensor, bias: Tensor | None, pairs: Sequence[LowRank], hidden: float) -> Tensor:
    out = F.linear(x, weight, bias)
    inner = F.linear(F.dropout(x, hidden), torch.cat([pair.a for pair in pairs]))
    pieces, at = [], 0
    for pair, one in zip(pairs, inner.split([len(pair.a) for pair in pairs], -1), strict=True):
        pieces.append(out.new_zeros(*out.shape[:-1], pair.begin - at))  # of layers without a pair
        pieces.append(pair.scale * F.linear(one, pair.b))
        at = pair.end
    pieces.append(out.new_zeros(*out.shape[:-1], out.shape[-1] - at))
    return out + torch.cat(pieces, -1)


LEARN = LearnOps(norm=rms_norm, add_norm=add_norm, swiglu=swiglu, attend=attend, low_rank=low_rank)

OPS = Ops(
    linear=linear,
    norm=norm,
    norm_linear=norm_linear,
    norm_swiglu=norm_swiglu,
    linear_add=linear_add,
    attend_cached=attend_cached,
    choose=choose,
    experts=experts,
    begin=begin,
    pick=pick,
    first_scores=first_scores,
    finish=finish,
    scores=scores,
    learn=LEARN,
)
