"""Family: the interface of a published model design."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omnitts_cli.models.roles import Cloner, SpeechModel
from omnitts_cli.models.shapes import DecoderShape
from omnitts_cli.models.sources import Names

Tensors = tuple[Names, dict[str, tuple[int, ...]], str, tuple[str, ...]]
"""Names and shapes of the tensors of a network, their folder inside that of the model, and patterns of names in the
same files that belong to other networks."""


@dataclass(frozen=True)
class Stored:
    """The tensors of the networks that speak."""

    language: Tensors
    decoder: Tensors
    shape: DecoderShape


@dataclass(frozen=True)
class Family:
    """One family. Of its config, others know what is in `families/common/fields.py`."""

    model_type: str  # in config.json
    read_config: Callable[[Path], Any]  # -> a Config
    parts: Callable[..., Any]  # config, ops -> Parts, those for speaking
    assemble: Callable[..., Any]  # name, config, filled parts, tokenizer, place, ops
    made_up: tuple[str, ...]  # names of its models of random weights, without "random:"
    made_up_config: Callable[[Path, str], Any]  # of one of these, and what to call its file
    cloner: Callable[..., Cloner | None] = lambda *_: None  # config, what fills a Part, place
    stored: Callable[[Any], Stored] | None = None  # config -> what `compiled` needs
    compiled: Callable[..., SpeechModel] | None = None  # name, config, a Compute, tokenizer; None: with PyTorch only
    thinker: "Family | None" = None  # the part that answers questions in text; its parts take more arguments
    complete: Callable[[str, str | None], str] = lambda name, variant: name  # a short name and its variant -> a name
