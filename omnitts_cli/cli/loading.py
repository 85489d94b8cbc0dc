"""Loading: opens the model of a command, and says so while it loads."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from omnitts_cli.errors import UsageError
from omnitts_cli.settings.environment import EMBEDDED, server_socket
from omnitts_cli.settings.table import Machine, Messages, Network
from omnitts_cli.terminal.console import console
from omnitts_cli.terminal.progress import Progress, style

if TYPE_CHECKING:
    from omnitts_cli.speech.remote import RemoteTTS
    from omnitts_cli.speech.tts import TTS


@contextmanager
def opened_model(
    model: str | None,
    variant: str,
    machine: Machine,
    network: Network,
    messages: Messages,
    *,
    via: str = "off",
    **more: Any,
) -> Iterator[TTS]:
    """The open model. `variant` completes a bare size: custom_voice, base or voice_design. `via`: auto, off, or the URL
    of a server. `more`: other fields of EngineSettings.
    """
    name = model or EMBEDDED
    if via != "off" and (via != "auto" or server_socket().exists()):
        served = of_server(via, model, variant, machine, network)
        if served is not None:
            console.detail(f"speaking through {served.via}")
            with served:
                yield served
            return
    words = f"loading {name}{'' if machine.device == 'auto' else f' on {machine.device}'} ..."
    console.detail(words)
    if style(messages.progress) == "bar":
        console.redraw(words)
    from omnitts_cli.cli.models import tell
    from omnitts_cli.speech import tts  # takes seconds: after the message

    settings = {**settings_for(machine, network), **more}
    console.detail("settings: " + ", ".join(f"{key} {value}" for key, value in settings.items() if value is not None))
    with Progress(f"downloading {name}", messages.progress) as progress:
        spoken = tts.load(
            name, variant=variant, fetching=lambda news: tell(progress, news), tell=console.notice, **settings
        )
        with spoken:
            console.stand_still()
            yield spoken


def of_server(via: str, model: str | None, variant: str, machine: Machine, network: Network) -> RemoteTTS | None:
    """The model on a running server; None to open it here."""
    from omnitts_cli.speech import remote, servers

    def local() -> TTS:
        from omnitts_cli.speech import tts

        return tts.load(model or EMBEDDED, variant=variant, tell=console.notice, **settings_for(machine, network))

    if network.offline and via != "auto" and not servers.Address.of(via, "--via").loopback:
        raise UsageError("--offline cannot be used with a server on another machine", hint="--via off")
    return remote.connect(via, model, variant, device=machine.device, dtype=machine.dtype, local=local)


def settings_for(machine: Machine, network: Network) -> dict[str, Any]:
    """The options as fields of EngineSettings."""
    given = {name: getattr(machine, name) for name in machine.__dataclass_fields__}
    return {**given, "slots": None if machine.slots == "auto" else int(machine.slots), "offline": network.offline}
