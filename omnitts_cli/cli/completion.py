"""omnitts completion: shell completion scripts."""

from __future__ import annotations

from typing import Annotated

import typer

from omnitts_cli.errors import UsageError
from omnitts_cli.settings.environment import EMBEDDED
from omnitts_cli.settings.table import Messages
from omnitts_cli.terminal.console import console

COMPLETING = "_OMNITTS_COMPLETE"  # set by the scripts when a shell asks
SHELLS = {"bash": "bash", "zsh": "zsh", "fish": "fish", "powershell": "powershell", "pwsh": "pwsh"}


def shell_names(incomplete: str) -> list[str]:
    return [name for name in SHELLS if name.startswith(incomplete)]


def completion(
    messages: Messages,
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


def preset_names(incomplete: str) -> list[str]:
    from omnitts_cli.settings import presets

    return [name for name in presets.names() if name.startswith(incomplete)]


def embedded_voices() -> list[str]:
    """The voices of the embedded model, default first; read from its config, as importing its family takes seconds."""
    import json

    from omnitts_cli.weights.find import TINY

    config = TINY / "config.json"
    return list(json.loads(config.read_text("utf-8"))["omnitts"]["voices"]) if config.is_file() else []


def voice_names(incomplete: str) -> list[str]:
    """The saved voices and those of the embedded model."""
    from omnitts_cli.speech import voice_files

    return [name for name in [*voice_files.names(), *embedded_voices()] if name.startswith(incomplete)]


def model_names(incomplete: str) -> list[str]:
    return [name for name in (EMBEDDED, "0.6b", "1.7b", "omni") if name.startswith(incomplete)]


def hub_names(incomplete: str) -> list[str]:
    """The models that can be downloaded: bare sizes, and each variant."""
    from omnitts_cli.weights.released import ALIASES, RELEASED, SIZES

    return [name for name in (*SIZES, *RELEASED, *ALIASES) if name.startswith(incomplete)]


CHOICES = {"models": model_names, "voices": voice_names, "presets": preset_names}
"""What completion offers for a setting, by its `complete`."""


def prepare() -> None:
    """Prepares the parser for a completion request."""
    from typer._completion_classes import completion_init

    completion_init()
