"""Sampling codes on a CPU, row by row: probabilities are computed only for codes that may be drawn."""

import math

import numpy as np
import torch
from torch import Tensor


def choose(
    logits: Tensor, seeds: Tensor, frames: Tensor, group: int, temperature: Tensor, top_k: Tensor, top_p: Tensor
) -> Tensor:
    settings = (column.tolist() for column in (seeds, frames, temperature, top_k, top_p))
    rows = zip(logits.float().numpy(), *settings, strict=True)
    return torch.tensor([code(scores, group, *told) for scores, *told in rows])


def code(scores: np.ndarray, group: int, seed: int, frame: int, temperature: float, top_k: int, top_p: float) -> int:
    likeliest = int(scores.argmax())
    if temperature <= 0:
        return likeliest
    scaled = scores / temperature
    if not math.isfinite(scaled[likeliest]):  # NaN or infinite, or a temperature close to zero
        return likeliest
    least = -math.inf
    if 0 < top_k < scores.size:
        # a partition takes ten times as long if most values are equal, like those of suppressed codes in group 0
        least = np.sort(scaled)[-top_k]
    may = np.flatnonzero(scaled >= least)
    chance = np.exp(scaled[may] - scaled[likeliest], dtype=np.float64)
    if top_p < 1:
        keep = nucleus(scaled[may], chance, top_p)
        may, chance = may[keep], chance[keep]
    mass = chance.cumsum()
    drawn = mass.searchsorted(uniform(seed, frame, group) * mass[-1], side="right")
    return int(may[min(drawn, may.size - 1)])


def nucleus(scaled: np.ndarray, chance: np.ndarray, top_p: float) -> np.ndarray:
    """The codes that make up the first `top_p` of the probability; ties with the last of them are kept."""
    order = scaled.argsort()[::-1]
    larger = chance[order].cumsum() - chance[order]  # mass of the strictly more likely ones
    inside = int(np.count_nonzero(larger < top_p * chance.sum()))
    return scaled >= scaled[order[max(inside, 1) - 1]]


def uniform(seed: int, frame: int, group: int) -> float:
    """The same number as `plain.uniform`."""
    bits = mix(mix(mix(frame * 64 + group & 0xFFFFFFFF) ^ seed & 0xFFFFFFFF) ^ seed >> 32 & 0xFFFFFFFF)
    return (bits >> 8) * 2.0**-24


def mix(x: int) -> int:
    x = (x ^ x >> 16) * 0x21F0AAAD & 0xFFFFFFFF
    x = (x ^ x >> 15) * 0x735A2D97 & 0xFFFFFFFF
    return x ^ x >> 15
