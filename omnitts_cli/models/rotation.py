"""The rotation of queries and keys by their positions. Does not import torch."""

from __future__ import annotations

import math

import numpy as np

HALF_PI = (1.5707963267341256, 6.077100506303966e-11, 2.0222662487959506e-21)
"""Three numbers whose sum is pi / 2. The first has 33 bits, so that a product with a small integer is exact."""
SINE: tuple[float, ...] = (1.58969099521155010221e-10, -2.50507602534068634195e-08, 2.75573137070700676789e-06)
SINE += (-1.98412698298579493134e-04, 8.33333333332248946124e-03, -1.66666666666666324348e-01)
COSINE: tuple[float, ...] = (-1.13596475577881948265e-11, 2.08757232129817482790e-09, -2.75573143513906633035e-07)
COSINE += (2.48015872894767294178e-05, -1.38888888888741095749e-03, 4.16666666666666019037e-02)
"""Coefficients of polynomials in x squared, for x up to pi / 4."""


def same_angles(positions: np.ndarray, head_dim: int, theta: float) -> tuple[np.ndarray, np.ndarray]:
    """Cosine and sine of positions [N] below 100,000: two of [N, head_dim / 2] float32, with the same bits on every
    processor. Only sums and products of float64, one by one, then rounded.
    """
    rates = np.array([theta ** (-2 * i / head_dim) for i in range(head_dim // 2)]).astype(np.float32)
    angle = (positions.astype(np.float32)[:, None] * rates).astype(np.float64)
    quarter = np.rint(angle * (2 / math.pi))
    for part in HALF_PI:
        angle -= quarter * part
    square = angle * angle
    sine, cosine = (np.zeros_like(square), np.zeros_like(square))
    for factor, other in zip(SINE, COSINE, strict=True):
        sine, cosine = sine * square + factor, cosine * square + other
    sine, cosine = angle + angle * square * sine, 1 - square / 2 + square * square * cosine
    turn = quarter.astype(np.int64) % 4
    found = [np.where(turn % 2, *pair) for pair in ((sine, cosine), (cosine, sine))]
    signs = np.where((turn == 1) | (turn == 2), -1, 1), np.where(turn >= 2, -1, 1)
    cos, sin = ((one * sign).astype(np.float32) for one, sign in zip(found, signs, strict=True))
    return cos, sin
