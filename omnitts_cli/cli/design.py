"""omnitts design."""

from __future__ import annotations

from omnitts_cli.cli.options import Telling


def design(telling: Telling) -> None:
    """Not yet."""
