"""For tests of kernels: whether there is a Hopper GPU, random weights of the released shapes, the plain operations over
them, relative errors."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from omnitts_cli.kernels import plain
from omnitts_cli.kernels.ops import LayerWeights, PredictorParts

HOPPER = torch.cuda.is_available() and torch.cuda.get_device_capability() == (9, 0)
NEEDS_HOPPER = [pytest.mark.gpu, pytest.mark.skipif(not HOPPER, reason="needs a Hopper GPU")]


def on_hopper(test: Callable[..., None]) -> Callable[..., None]:
    """For a single test of a file."""
    return NEEDS_HOPPER[0](NEEDS_HOPPER[1](test))


def rotations(positions: int, device: str = "cuda") -> tuple[Tensor, Tensor]:
    """Cosines and sines of the released talker's rotary embedding, [positions, 64] each."""
    angle = torch.arange(positions, device=device)[:, None] * 1e6 ** -(torch.arange(64, device=device) / 64)
    return angle.cos(), angle.sin()


def captured(run: Callable[[], Any]) -> tuple[Any, torch.cuda.CUDAGraph]:
    """What a call makes in a graph, and the graph that makes it again."""
    graph = torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        return run(), graph


def random(*shape: int, seed: int = 0, device: str = "cpu") -> Tensor:
    """Normal values that are the same on every device."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed + sum(shape))).to(device)


def relative_error(got: Tensor, wanted: Tensor) -> float:
    """The norm of the difference, divided by that of the wanted tensor."""
    return float((got.float() - wanted.float()).norm() / wanted.float().norm())


def normal(*shape: int, std: float = 0.02, device: str = "cuda") -> Tensor:
    return (std * torch.randn(shape, device=device)).bfloat16()


def norm_of(width: int, device: str = "cuda") -> Tensor:
    return 1 + normal(width, std=0.1, device=device)


def layers_of(blocks: int, count: int, device: str = "cuda", scale: float = 1.0) -> list[LayerWeights]:
    """Random layers of a released shape; the hidden width is 1024 times `blocks`. `scale` makes sums large."""
    hidden, inner = 1024 * blocks, 3072 * blocks
    shapes = {"qkv": (4096, hidden), "out": (hidden, 2048), "gate_up": (2 * inner, hidden), "down": (hidden, inner)}
    norms = {"input_norm": hidden, "mlp_norm": hidden, "q_norm": 128, "k_norm": 128}
    return [
        LayerWeights(
            **{name: norm_of(width, device) for name, width in norms.items()},
            **{
                name: normal(*shape, device=device) * (scale if name == "down" else 1) for name, shape in shapes.items()
            },
        )
        for _ in range(count)
    ]


def predictor_parts(
    groups: int = 16, layers: int = 5, device: str = "cuda", seed: int = 5, scale: float = 1.0
) -> PredictorParts:
    """Random weights of a predictor."""
    torch.manual_seed(seed)
    made = layers_of(1, layers, device, scale)
    heads = normal(groups - 1, 2048, 1024, std=0.05, device=device)
    tables = normal(groups - 2, 2048, 1024, std=0.5, device=device)
    return PredictorParts(made, norm_of(1024, device), 1e-6, 8, *rotations(groups, device), heads, tables)


def predictor_inputs(rows: int, seed: int = 1, device: str = "cuda", **settings: Any) -> tuple[Tensor, ...]:
    """hidden, first row, first codes, seeds, frames, temperature, top-k, top-p; a row is the same among others."""
    torch.manual_seed(seed)
    values = {"temperature": 0.9, "top_k": 50, "top_p": 1.0} | settings
    return (
        *(torch.randn(64, 1024, device=device).bfloat16()[:rows] for _ in range(2)),
        *(torch.randint(0, most, (64,), device=device)[:rows] for most in (2048, 2**62, 1000)),
        torch.full((rows,), values["temperature"], device=device),
        torch.full((rows,), values["top_k"], device=device, dtype=torch.int64),
        torch.full((rows,), values["top_p"], device=device),
    )


def in_type(layer: LayerWeights, dtype: torch.dtype) -> dict[str, Tensor]:
    return {name: getattr(layer, name).to(dtype) for name in LayerWeights.__annotations__}


def after_attention(x: Tensor, seen: Tensor, of: dict[str, Tensor]) -> Tensor:
    """The rest of a layer, from what its heads have attended to."""
    x = x + seen @ of["out"].T
    gate, up = (plain.rms_norm(x, of["mlp_norm"], 1e-6) @ of["gate_up"].T).chunk(2, -1)
    return x + (torch.nn.functional.silu(gate) * up) @ of["down"].T


def plain_step(
    stack: tuple[list[LayerWeights], Tensor], x: Tensor, at: Tensor, slots: Tensor, keys: Tensor, values: Tensor
) -> Tensor:
    """A step of the talker with the plain operations, in the type of the keys; writes keys and values."""
    layers, norm = stack
    capacity, x = keys.shape[-2], x.to(keys.dtype)[:, None]
    for index, layer in enumerate(layers):
        of = in_type(layer, keys.dtype)
        qkv = plain.rms_norm(x, of["input_norm"], 1e-6) @ of["qkv"].T
        cache = keys[index], values[index], slots, at[:, None], capacity
        turns = rotations(capacity, str(x.device))
        seen = plain.attend_cached(qkv, of["q_norm"], of["k_norm"], 1e-6, *turns, *cache)
        x = after_attention(x, seen, of)
    return plain.rms_norm(x, norm.to(keys.dtype), 1e-6)[:, 0]


def teacher_forced(parts: PredictorParts, given: tuple[Tensor, ...], codes: Tensor, dtype: torch.dtype) -> Tensor:
    """Logits [groups - 1, rows, 2048] of the plain operations for these codes, from weights in `dtype`."""
    groups = codes.shape[1]
    later = [parts.tables[group, codes[:, group + 1]] for group in range(groups - 2)]
    x = torch.stack([given[0], given[1], *later], 1).to(dtype)
    causal = torch.ones(groups, groups, dtype=torch.bool, device=x.device).tril()
    for layer in parts.layers:
        of = in_type(layer, dtype)
        qkv = plain.rms_norm(x, of["input_norm"], 1e-6) @ of["qkv"].T
        turns = parts.cos[None], parts.sin[None]
        q, k, v = plain.split_heads(qkv, of["q_norm"], of["k_norm"], 1e-6, *turns, 8)
        q, k, v = (x.transpose(1, 2) for x in (q, k.repeat_interleave(2, 2), v.repeat_interleave(2, 2)))
        seen = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=causal)
        x = after_attention(x, seen.transpose(1, 2).flatten(2), of)
    states = plain.rms_norm(x, parts.norm.to(dtype), 1e-6)[:, 1:]
    return torch.einsum("ngp,gcp->gnc", states, parts.heads.to(dtype))
