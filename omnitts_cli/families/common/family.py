"""Family: the interface of a published model design."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omnitts_cli.families.common.parts import Part
from omnitts_cli.models.roles import Cloner, SpeechModel
from omnitts_cli.models.thinker import TextModel


@dataclass(frozen=True)
class ThinkerFamily:
    """The part of a family that answers questions in text."""

    read_config: Callable[[Path], Any]
    part: Callable[..., Part]  # config, ops
    tower: Callable[[Any], Part | None]  # config; None: the model takes no sound
    projection: Callable[[Any], Part | None]  # config; None: the model does not speak its answers
    assemble: Callable[..., TextModel]  # name, config, filled part, tokenizer, filled tower, filled projection or None
    made_up: tuple[str, ...]  # names of its models of random weights, without "random:"
    made_up_config: Callable[[Path], Any]


@dataclass(frozen=True)
class Family:
    """One family. Its config is whatever `read_config` returns; nothing else looks inside."""

    model_type: str  # in config.json
    read_config: Callable[[Path], Any]
    parts: Callable[..., Any]  # config, ops -> an object whose `all()` lists its Parts, those for speaking
    assemble: Callable[..., SpeechModel]  # name, config, filled parts, tokenizer, place, ops
    voices: Callable[[Any], dict[str, str]]  # config -> each name with one line about it
    languages: Callable[[Any], tuple[str, ...]]
    made_up: tuple[str, ...]  # names of its models of random weights, without "random:"
    made_up_config: Callable[[Path, str], Any]  # of one of these, and what to call its file
    cloner: Callable[..., Cloner | None] = lambda *_: None  # config, what fills a Part, place
    thinker: ThinkerFamily | None = None
    complete: Callable[[str, str | None], str] = lambda name, variant: name  # a short name and its variant -> a name
