"""Engine room: from what the person typed to an open engine, and a word to them while it loads."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from omnitts_cli.cli.console import console
from omnitts_cli.cli.options import Machine, Network, Telling

if TYPE_CHECKING:
    from omnitts_cli.engine.engine import Engine

EMBEDDED = "tiny"


@contextmanager
def engine_for(
    model: str | None, variant: str, machine: Machine, network: Network, telling: Telling
) -> Iterator[Engine]:
    """The engine for a model. `variant` completes a bare size: custom_voice, base or voice_design."""
    name = model or EMBEDDED
    console.detail(f"loading {name} on {machine.device} ...")
    from omnitts_cli import build  # seconds of imports: after the word to the person
    from omnitts_cli.cli.models import tell
    from omnitts_cli.cli.progress import Progress

    settings = settings_for(machine, network)
    console.detail(f"settings: {settings}")
    with Progress(f"fetching {name}", telling.progress) as progress:
        opened = build.open_engine(
            name,
            variant=variant,
            report=lambda news: tell(progress, news),
            tell=console.warning,
            **settings,
        )
        with opened as engine:
            yield engine


def settings_for(machine: Machine, network: Network) -> dict[str, Any]:
    """What the options say about running a model, in the words of EngineSettings."""
    return {
        "device": machine.device,
        "dtype": machine.dtype,
        "slots": None if machine.batch_size == "auto" else int(machine.batch_size),
        "first_chunk": machine.first_chunk,
        "chunk": machine.chunk,
        "threads": machine.threads,
        "offline": network.offline,
    }
