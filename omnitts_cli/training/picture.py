"""Draws the journal: the losses of each stage over the minutes of all its runs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from omnitts_cli.audio.target import put
from omnitts_cli.errors import InputError, OmniError
from omnitts_cli.tuning.picture import Panel, svg

PANELS = {
    "codec": ("mel", "wave", "commit", "alike", "phones", "periods", "low"),
    "polish": ("mel", "wave", "discriminators", "feature", "latent", "periods", "low", "heard_phones", "misheard"),
    "speech": ("first", "held_first", "phones", "held_phones", "held_cloned", "held_swapped", "held_described"),
}


def curves(journal: Path) -> dict[str, list[dict[str, Any]]]:
    """The lines with losses of each stage; `minutes` counts all its runs together."""
    found: dict[str, list[dict[str, Any]]] = {stage: [] for stage in PANELS}
    done = dict.fromkeys(PANELS, 0.0)  # minutes of the stretches before
    last = dict.fromkeys(PANELS, 0.0)
    for line in lines_of(journal):
        stage = line["stage"]
        if stage not in PANELS:
            continue
        if line["seconds"] / 60 < last[stage]:
            done[stage] += last[stage]
        last[stage] = line["seconds"] / 60
        if "step" in line and "event" not in line:
            found[stage].append(line | {"minutes": done[stage] + last[stage]})
    return found


def lines_of(journal: Path) -> Iterator[dict[str, Any]]:
    """The complete lines. A killed process may have left half a line."""
    try:
        text = journal.read_text()
    except OSError as error:
        raise InputError(f"{journal} cannot be read", cause=error.strerror, hint="train a stage first") from None
    for line in text.splitlines():
        try:
            entry = json.loads(line)
        except json.JSONDecodeError:
            continue
        if isinstance(entry, dict) and {"stage", "seconds"} <= entry.keys():
            yield entry


def draw(journal: Path, picture: Path) -> None:
    """Draws one panel for each stage."""
    panels = []
    for stage, lines in curves(journal).items():
        points = {name: [(line["minutes"], line[name]) for line in lines if name in line] for name in PANELS[stage]}
        if known := {name: curve for name, curve in points.items() if curve}:
            panels.append(Panel(stage, "minutes", known))
    if not panels:
        raise OmniError(f"{journal} contains no losses yet")
    put(picture, svg(panels).encode())
