"""Request, Sampling, Failed: what goes into the engine, and its failures. Frozen, without tensors, picklable."""

from dataclasses import dataclass, field
from typing import Literal

from omnitts_cli.errors import OmniError
from omnitts_cli.voices import Named, Voice

FIRST_SOUND, STREAMING, BULK = range(3)
"""Priorities: a listener who has no sound yet, one who has, and work that no one listens to as it is made."""

TextMode = Literal["whole", "streamed"]
COLDEST = 1e-30
"""The lowest sampling temperature: dividing scores by less may overflow float32. Below it, decoding is greedy."""


@dataclass(frozen=True)
class Sampling:
    """How codes are drawn. `None` means the model's own value; temperature 0 means greedy.

    The `predictor_*` values apply to groups 1..G-1, the others to group 0. The repetition penalty applies to group 0
    only and counts the generated frames of this request, not the prompt.
    """

    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    repetition_penalty: float | None = None
    predictor_temperature: float | None = None
    predictor_top_k: int | None = None
    predictor_top_p: float | None = None


@dataclass(frozen=True)
class Request:
    """One piece of speech. `language` is a plain lower-case name such as "english", or None for auto."""

    text: str
    voice: Voice = field(default_factory=Named)
    language: str | None = None
    style: str | None = None
    sampling: Sampling = field(default_factory=Sampling)
    seed: int = 0
    text_mode: TextMode | None = None  # None: the official default of the voice's kind
    max_frames: int | None = None  # a user's cap; None: the guard's ceiling from the text's length
    ignore_end: bool = False  # fixed work for measurements: the end code is never chosen
    script: int = 0  # requests of one text have the same number
    id: str = ""


@dataclass(frozen=True, eq=False)
class Failed:
    """One request that could not be spoken. Its slot is free again; the others go on."""

    request: str
    error: OmniError
