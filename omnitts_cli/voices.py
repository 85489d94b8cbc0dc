"""Voice: who speaks. Named, Cloned or Designed; plain values, no torch.

Cloning and design are ways to get a voice, not modes of the engine: only `families/*/` distinguishes the three.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Named:
    """A speaker that the model knows by name; matched without regard to case. Empty: no speaker row."""

    speaker: str = ""


@dataclass(frozen=True, eq=False)
class Cloned:
    """A voice cloned from a clip: its embedding and, with a transcript, the codes of the clip.

    `codes` and `transcript` are both there (the model continues the clip) or both absent.
    """

    embedding: np.ndarray  # [H] float32
    codes: np.ndarray | None = None  # [T, G] int64
    transcript: str | None = None


@dataclass(frozen=True)
class Designed:
    """A voice made from a description in words; the description may be empty."""

    description: str = ""


Voice = Named | Cloned | Designed
