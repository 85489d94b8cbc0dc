"""omnitts codec."""

from __future__ import annotations

from omnitts_cli.cli.grammar import group

app = group("codec")


@app.command()
def list() -> None:
    """Not yet."""
