"""Draws the journal: the losses of each stage over the minutes of all its runs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from omnitts_cli.errors import InputError, OmniError

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
    try:
        import matplotlib
    except ImportError:
        raise OmniError("a picture needs matplotlib", hint="pip install matplotlib") from None
    matplotlib.use("Agg")  # to a file, without a window
    from matplotlib import pyplot

    stages = {stage: lines for stage, lines in curves(journal).items() if lines}
    if not stages:
        raise OmniError(f"{journal} contains no losses yet")
    figure, panels = pyplot.subplots(
        len(stages), 1, figsize=(8, 3.2 * len(stages)), layout="constrained", squeeze=False
    )
    for panel, (stage, lines) in zip(panels[:, 0], stages.items(), strict=True):
        for name in PANELS[stage]:
            known = [line for line in lines if name in line]
            panel.plot([line["minutes"] for line in known], [line[name] for line in known], label=name)
        panel.set(title=stage, xlabel="minutes", yscale="log")
        panel.grid(alpha=0.3)
        panel.legend(fontsize="small")
    figure.savefig(picture)
    pyplot.close(figure)
