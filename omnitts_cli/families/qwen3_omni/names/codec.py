"""Rename table of the codec."""

from __future__ import annotations

from omnitts_cli.families.common.names import upsampling_names
from omnitts_cli.models.shapes import Code2WavShape
from omnitts_cli.models.sources import Names, One

UNUSED = ("thinker.*", "talker.*")
"""What else is in the codec's files."""


def code2wav_names(shape: Code2WavShape) -> Names:
    """Names of the codec."""
    return {"table": One("code2wav.code_embedding.weight")} | upsampling_names(shape, "code2wav.")
