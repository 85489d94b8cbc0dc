"""What is known here of a model that is elsewhere: in a process of its own, or on a server."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class FarFacts:
    """What a caller needs of a model's Facts."""

    sample_rate: int
    frame_rate: float
    hidden: int


@dataclass(frozen=True, eq=False)
class FarModel:
    """What a caller needs of a SpeechModel. `cloner` and `vector_of` ask the model, where that is possible."""

    name: str
    facts: FarFacts
    kinds: frozenset[str]
    speakers: Mapping[str, str]
    languages: tuple[str, ...]
    precision: str
    sha256: str | None = None
    longest_piece: int | None = None
    plain_letters: bool = False
    obeys_style: bool = False
    cloner: Any = None
    vector_of: Callable[[str], np.ndarray] | None = None
    adapter: str | None = None
    """The checksum of a tuned voice's adapter that is merged into it. None for `--via`, which leaves tuned voices to a
    model of this process."""


@dataclass(frozen=True)
class FarPlan:
    """What a caller needs of an engine's Plan."""

    slots: int
    frames: int | None = None  # of one request at most, if it is known
    first_alone: bool = False  # as in Plan


@dataclass(frozen=True)
class FarDevice:
    """What a caller needs of a Device. `exact`: the fingerprint of an engine with --exact."""

    name: str
    card: str = ""
    exact: str | None = None

    def synchronize(self) -> None:
        """There is nothing to wait for here."""


@dataclass(frozen=True)
class FarEngine:
    """What a caller needs of an engine. `vectors`: named voices of its model have vectors."""

    model: FarModel
    plan: FarPlan
    device: FarDevice
    vectors: bool = False
