"""Known: the families, and which of them a model folder is of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omnitts_cli.families.qwen3_omni import config as omni_config
from omnitts_cli.families.qwen3_omni import family as omni
from omnitts_cli.families.qwen3_omni import released as omni_released
from omnitts_cli.families.qwen3_tts import config as tts_config
from omnitts_cli.families.qwen3_tts import family as tts
from omnitts_cli.families.qwen3_tts import released as tts_released
from omnitts_cli.families.qwen3_tts.fields import Fields
from omnitts_cli.models.roles import SpeechModel


@dataclass(frozen=True)
class Family:
    """One published design. A config is whatever `read_config` gives; only the family looks inside."""

    read_config: Callable[[Path], Any]
    released_config: Callable[[Path, str], Any]  # of one of its made-up models, and what to call its file
    made_up: tuple[str, ...]  # names of those
    parts: Callable[..., Any]
    assemble: Callable[..., SpeechModel]
    voices: Callable[[Any], dict[str, str]]  # each name with one line about it
    languages: Callable[[Any], tuple[str, ...]]


def _tts_released(file: Path, name: str) -> tts_config.Config:
    top, codec = Fields(file, tts_released.model_config(name)), Fields(file, tts_released.CODEC_CONFIG)
    return tts_config.config_of(top, codec, Fields(file, {}))


def _omni_released(file: Path, name: str) -> omni_config.Config:
    return omni_config.config_of(Fields(file, omni_released.CONFIG), Fields(file, {}))


FAMILIES = {
    tts_config.FAMILY: Family(
        tts_config.read_config,
        _tts_released,
        tts_released.NAMES,
        tts.parts,
        tts.assemble,
        lambda config: {name: speaker.about for name, speaker in config.speakers.items()},
        lambda config: config.languages,
    ),
    omni_released.FAMILY: Family(
        omni_config.read_config,
        _omni_released,
        (omni_released.NAME,),
        omni.parts,
        omni.assemble,
        lambda config: config.about,
        lambda config: config.languages,
    ),
}
"""By what config.json calls itself."""


def family_of(folder: Path) -> Family:
    """The family of a model folder, or an error that names those there are."""
    return FAMILIES[Fields.read(folder / "config.json").word("model_type", list(FAMILIES))]
