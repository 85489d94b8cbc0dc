"""omnitts clone."""

from __future__ import annotations

from omnitts_cli.cli.options import Telling


def clone(telling: Telling) -> None:
    """Not yet."""


class Clip:
    pass
