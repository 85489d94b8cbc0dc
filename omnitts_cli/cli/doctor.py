"""omnitts doctor: what this machine can do, and what to fix. One line per check."""

from __future__ import annotations

from omnitts_cli.errors import DeviceError
from omnitts_cli.settings.table import Machine, Messages, Network
from omnitts_cli.terminal.console import console


def doctor(machine: Machine, network: Network, messages: Messages) -> None:
    """Check this machine. Exit code 0 if it can speak on some device, else 5.

    \b
    omnitts doctor
    omnitts doctor --json | jq '.checks[]|select(.status!="ok")'
    """
    from omnitts_cli.cli import checks

    found = []
    for check in checks.all_of(machine, network):
        found.append(check)
        console.check(check.status, check.name, check.words, check.fix)
    speaks = any(check.speaks and check.status == "ok" for check in found)
    console.record(
        status="ok" if speaks else "error",
        checks=[{"name": c.name, "status": c.status, "message": c.words, "fix": c.fix, **c.numbers} for c in found],
    )
    if not speaks:
        which = "no device can speak" if machine.device == "auto" else f"{machine.device} cannot speak"
        raise DeviceError(f"{which} on this machine", hint="see the lines marked warn or fail")
