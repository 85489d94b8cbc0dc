"""omnitts play."""

from __future__ import annotations

from omnitts_cli.cli.options import Telling


def play(telling: Telling) -> None:
    """Not yet."""
