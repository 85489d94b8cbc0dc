"""omnitts completion: the script that teaches a shell our options."""

from __future__ import annotations

from typing import Annotated

import typer

from omnitts_cli.cli.console import console
from omnitts_cli.cli.options import Telling
from omnitts_cli.errors import UsageError

COMPLETING = "_OMNITTS_COMPLETE"  # set by the scripts when a shell asks
SHELLS = {"bash": "bash", "zsh": "zsh", "fish": "fish", "powershell": "powershell", "pwsh": "pwsh"}


def shell_names(incomplete: str) -> list[str]:
    return [name for name in SHELLS if name.startswith(incomplete)]


def completion(
    telling: Telling,
    shell: Annotated[
        str,
        typer.Argument(
            metavar="bash|zsh|fish|powershell", help="The shell.", show_default=False, autocompletion=shell_names
        ),
    ],
) -> None:
    """Print the completion script of a shell.

    \b
    omnitts completion bash > ~/.local/share/bash-completion/completions/omnitts
    omnitts completion zsh > ~/.zfunc/_omnitts
    omnitts completion fish > ~/.config/fish/completions/omnitts.fish
    """
    from typer._completion_shared import get_completion_script

    if shell not in SHELLS:
        raise UsageError(f"no completion for '{shell}'", hint="one of: " + ", ".join(SHELLS))
    script = get_completion_script(prog_name="omnitts", complete_var=COMPLETING, shell=SHELLS[shell])
    console.result(script)
    console.record(status="ok", shell=shell, script=script)


def prepare() -> None:
    """Makes the parser answer a shell's question."""
    from typer._completion_classes import completion_init

    completion_init()
