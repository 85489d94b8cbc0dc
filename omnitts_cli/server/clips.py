"""Clips: the sound that a client sends to be cloned."""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnitts_cli.server.fields import Clip
from omnitts_cli.server.problems import invalid
from omnitts_cli.speech.voices import Voice

if TYPE_CHECKING:
    from omnitts_cli.server.models import Model
    from omnitts_cli.server.state import State


async def voice_of(state: State, model: Model, clip: Clip) -> Voice:
    """The voice of a clip."""
    raise invalid("ref_audio", "not yet")
