"""omnitts doctor."""

from __future__ import annotations

from omnitts_cli.cli.options import Telling


def doctor(telling: Telling) -> None:
    """Not yet."""
