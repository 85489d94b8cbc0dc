"""Voice: who speaks. Named, Cloned or Designed; plain values, no torch.

Cloning and design are ways to get a voice, not ways to run the engine: only `families/*/` looks at
which of the three it is.
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
    """A voice heard in a clip: its vector and, with a transcript, the clip's own frames.

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
