"""The window, the positions and the cache of the decoder's transformer, against a plain statement."""

from __future__ import annotations

import torch
from torch import Tensor

from omnitts_cli.models.codec_encoder import ClipTransformer
from omnitts_cli.models.codec_layers import WindowedTransformer
from omnitts_cli.models.shapes import TransformerShape

SHAPE = TransformerShape(hidden=12, inner=20, layers=2, heads=3, head_dim=8, scale=0.7)


def transformer(window: int) -> WindowedTransformer:
    torch.manual_seed(0)
    return WindowedTransformer(SHAPE, 10, window).requires_grad_(False)


def run(network: WindowedTransformer, x: Tensor, sizes: list[int], start: int = 0) -> Tensor:
    rows = x.shape[0]
    frames = torch.full((rows,), start)
    keys = values = torch.zeros(rows, *network.past_shape)
    parts = []
    for chunk in x.split(sizes, 1):
        part, keys, values = network(chunk, frames, keys, values)
        frames = frames + chunk.shape[1]
        parts.append(part)
    return torch.cat(parts, 1)


def test_chunks_are_the_whole() -> None:
    network, x = transformer(window=5), torch.randn(2, 17, 10)
    torch.testing.assert_close(run(network, x, [17]), run(network, x, [1, 3, 1, 7, 5]))


def test_each_layer_attends_to_window_frames_and_no_more() -> None:
    window = 4
    network, x = transformer(window), torch.randn(1, 20, 10)
    changed = x.clone()
    changed[:, 6] += 1.0
    changed_at = (run(network, x, [20]) != run(network, changed, [20])).any(-1)[0].nonzero()[:, 0]
    reach = SHAPE.layers * (window - 1)
    assert changed_at.tolist() == list(range(6, 6 + reach + 1))


def test_unfilled_places_of_the_cache_count_for_nothing() -> None:
    network, x = transformer(window=6), torch.randn(1, 3, 10)
    frames, empty = torch.zeros(1, dtype=torch.int64), torch.zeros(1, *network.past_shape)
    rubbish = torch.full_like(empty, 100.0)
    torch.testing.assert_close(network(x, frames, empty, empty)[0], network(x, frames, rubbish, rubbish)[0])


def test_positions_keep_counting_past_the_window() -> None:
    """Rotation is relative: full windows agree wherever the count stands, up to the rounding of the angles."""
    network, x = transformer(window=3), torch.randn(1, 12, 10)
    early, late = run(network, x, [12]), run(network, x, [12], start=1000)
    settled = SHAPE.layers * 2
    torch.testing.assert_close(early[:, settled:], late[:, settled:], atol=1e-4, rtol=1e-3)


def test_clip_transformer_is_causal_over_everything() -> None:
    torch.manual_seed(0)
    network, x = ClipTransformer(SHAPE).requires_grad_(False), torch.randn(1, 40, 12)
    changed = x.clone()
    changed[:, 3] = torch.randn(12)
    differs = (network(x) != network(changed)).any(-1)[0]
    assert not differs[:3].any() and differs[3:].all()
