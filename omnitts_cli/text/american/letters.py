"""Letter to sound: how a word that is in no dictionary is probably said.

A small network, trained by `training/letter_sounds.py`: convolutions read the whole word, then a head names the
sounds of each letter in turn, and knows the two that it named before. The file is a zip of 8-bit weights.
"""

import io
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

ALPHABET = "abcdefghijklmnopqrstuvwxyz'"
FILE = "letters.npz"
KERNEL, SPREADS = 3, (1, 2, 4, 2, 1)
BEAM = 3
LONGEST = 40  # letters read in one go; a longer run of letters is read in parts
UNIT = re.compile("[ˈˌ]?.")
NORM = 1e-5
NEVER = -1e9


def units(spoken: str) -> list[str]:
    """Sounds, each vowel with its stress mark."""
    return UNIT.findall(spoken)


class LetterSounds:
    """The trained network, on numpy."""

    def __init__(self, path: Path) -> None:
        with np.load(path) as file:
            stored = dict(file)
        self._chunks = bytes(stored.pop("chunks")).decode().split("|")
        self._stress = np.array(["ˈ" in chunk for chunk in self._chunks])
        w = {}
        for name, values in stored.items():
            if not name.endswith(".scale"):
                scale = stored.get(f"{name}.scale")
                w[name] = values.astype(np.float32) if scale is None else values * scale
        self._letters = w["letters.weight"] @ w["enter.weight"].T + w["enter.bias"]  # [letters + 1, W]
        self._blocks = [
            (
                spread,
                w[f"norms.{n}.weight"],
                w[f"norms.{n}.bias"],
                [np.ascontiguousarray(w[f"blocks.{n}.weight"][:, :, k].T) for k in range(KERNEL)],  # [W, 2W] each
                w[f"blocks.{n}.bias"],
            )
            for n, spread in enumerate(SPREADS)
        ]
        hidden, said, width = w["hidden.weight"].T, w["spoken.weight"], self._letters.shape[1]
        size = said.shape[1]
        self._hidden, self._hidden_bias = np.ascontiguousarray(hidden[:width]), w["hidden.bias"]
        self._before, self._earlier = said @ hidden[width : width + size], said @ hidden[width + size : -1]
        self._stressed = hidden[-1]
        self._out, self._out_bias = np.ascontiguousarray(w["out.weight"].T), w["out.bias"]

    @staticmethod
    def write(path: Path, weights: Mapping[str, np.ndarray], chunks: Sequence[str]) -> None:
        """Matrices in 8 bits with a scale for each row, vectors in 16."""
        stored: dict[str, np.ndarray] = {"chunks": np.frombuffer("|".join(chunks).encode(), np.uint8)}
        for name, values in weights.items():
            if values.ndim == 1:
                stored[name] = values.astype(np.float16)
                continue
            scale = np.abs(values).max(axis=tuple(range(1, values.ndim)), keepdims=True) / 127 + 1e-12
            stored[name], stored[f"{name}.scale"] = np.round(values / scale).astype(np.int8), scale.astype(np.float32)
        made = io.BytesIO()
        np.savez_compressed(made, allow_pickle=False, **stored)
        path.write_bytes(made.getvalue())

    def spoken(self, word: str) -> str:
        """The probable sounds of a word in small letters, with one primary stress."""
        parts = [word[at : at + LONGEST] for at in range(0, len(word), LONGEST)]
        return "".join(self._part(part) for part in parts)

    def _read(self, word: str) -> np.ndarray:
        """[L, W]"""
        x = self._letters[[ALPHABET.index(letter) + 1 for letter in word]]
        length = len(x)
        for spread, weight, bias, taps, shift in self._blocks:
            centred = x - x.mean(-1, keepdims=True)
            padded = np.zeros((length + 2 * spread, x.shape[1]), np.float32)
            inner = centred / np.sqrt((centred * centred).mean(-1, keepdims=True) + NORM)
            padded[spread : spread + length] = inner * weight + bias
            both = shift.copy()
            for k, tap in enumerate(taps):
                both = both + padded[k * spread : k * spread + length] @ tap
            value, gate = both[:, : x.shape[1]], both[:, x.shape[1] :]
            x = x + value / (1 + np.exp(-gate))
        return x

    def _part(self, word: str) -> str:
        start = len(self._chunks)
        heads = self._read(word) @ self._hidden + self._hidden_bias  # [L, H]
        # Rows: the best readings so far.
        paths, scores = [[start, start]], np.zeros(1, np.float32)
        stressed = np.zeros(1, bool)
        for head in heads:
            last, first = [path[-1] for path in paths], [path[-2] for path in paths]
            inner = head + self._before[last] + self._earlier[first] + stressed[:, None] * self._stressed
            logits = np.maximum(inner, 0) @ self._out + self._out_bias  # [n, C]
            logits[stressed[:, None] & self._stress] = NEVER  # one primary stress
            logits -= np.log(np.exp(logits).sum(-1, keepdims=True))
            total = (scores[:, None] + logits).ravel()
            best = np.argpartition(-total, BEAM)[:BEAM]
            best = best[np.argsort(-total[best])]
            rows, picks = np.divmod(best, start)
            paths = [[*paths[row], pick] for row, pick in zip(rows.tolist(), picks.tolist(), strict=True)]
            scores, stressed = total[best], stressed[rows] | self._stress[picks]
        return "".join(self._chunks[pick] for pick in paths[0][2:])
