"""Engine room: from what the person typed to an open engine, and a word to them while it loads."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from omnitts_cli.settings.environment import EMBEDDED
from omnitts_cli.settings.table import Machine, Messages, Network
from omnitts_cli.terminal.console import console
from omnitts_cli.terminal.progress import Progress, style

if TYPE_CHECKING:
    from omnitts_cli.engine.engine import Engine


@contextmanager
def engine_for(
    model: str | None, variant: str, machine: Machine, network: Network, messages: Messages
) -> Iterator[Engine]:
    """The engine for a model. `variant` completes a bare size: custom_voice, base or voice_design."""
    name = model or EMBEDDED
    words = f"loading {name}{'' if machine.device == 'auto' else f' on {machine.device}'} ..."
    console.detail(words)
    if style(messages.progress) == "bar":
        console.redraw(words)
    from omnitts_cli.cli.models import tell
    from omnitts_cli.speech import load as build  # seconds of imports: after the word to the person

    settings = settings_for(machine, network)
    console.detail(f"settings: {settings}")
    with Progress(f"fetching {name}", messages.progress) as progress:
        opened = build.open_engine(
            name,
            variant=variant,
            report=lambda news: tell(progress, news),
            tell=console.warning,
            **settings,
        )
        with opened as engine:
            console.stand_still()
            if machine.device == "auto":
                tell_of_fall_back(engine)
            yield engine


def tell_of_fall_back(engine: Engine) -> None:
    """An accelerator that is there and was passed over is told, with the reason."""
    from omnitts_cli.devices.choose import broken_cuda, broken_npu

    error = (broken_cuda() or broken_npu()) if engine.device.name == "cpu" else None
    if error is not None:
        console.warning(f"running on the CPU, which is many times slower: {error.message}", hint="omnitts doctor")


def settings_for(machine: Machine, network: Network) -> dict[str, Any]:
    """What the options say about running a model, in the words of EngineSettings."""
    return {
        "device": machine.device,
        "dtype": machine.dtype,
        "slots": None if machine.slots == "auto" else int(machine.slots),
        "first_chunk": machine.first_chunk,
        "chunk": machine.chunk,
        "threads": machine.threads,
        "offline": network.offline,
    }
