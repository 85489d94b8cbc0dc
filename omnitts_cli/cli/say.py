"""omnitts say."""

from __future__ import annotations

from omnitts_cli.cli.options import Telling


def say(telling: Telling) -> None:
    """Not yet."""
