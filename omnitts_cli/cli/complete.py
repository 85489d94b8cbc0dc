"""What a shell completes: names of voices, models, presets, keys and pages. Imported when a shell asks."""

import json

from omnitts_cli.cli.commands import TOPICS
from omnitts_cli.settings import presets
from omnitts_cli.settings.environment import EMBEDDED
from omnitts_cli.settings.setting import fields_of
from omnitts_cli.settings.table import SHARED
from omnitts_cli.speech import voice_files
from omnitts_cli.weights.find import TINY
from omnitts_cli.weights.released import ALIASES, RELEASED, SIZES

SHELLS = {"bash": "bash", "zsh": "zsh", "fish": "fish", "powershell": "ps1", "pwsh": "ps1"}
"""The shells, and how the names of their scripts in deploy/ end."""


def topic_names(incomplete: str) -> list[str]:
    return [name for name in TOPICS if name.startswith(incomplete)]


def shell_names(incomplete: str) -> list[str]:
    return [name for name in SHELLS if name.startswith(incomplete)]


def preset_names(incomplete: str) -> list[str]:
    return [name for name in presets.names() if name.startswith(incomplete)]


def key_names(incomplete: str) -> list[str]:
    """The settings of all commands, as `omnitts config` names them."""
    return [field.key for group in SHARED for field in fields_of(group) if field.key.startswith(incomplete)]


def embedded_voices() -> list[str]:
    """The voices of the embedded model, default first; read from its config, as importing its family takes seconds."""
    config = TINY / "config.json"
    return list(json.loads(config.read_text("utf-8"))["omnitts"]["voices"]) if config.is_file() else []


def saved_names(incomplete: str) -> list[str]:
    return [name for name in voice_files.names() if name.startswith(incomplete)]


def voice_names(incomplete: str) -> list[str]:
    """The saved voices and those of the embedded model."""
    return [name for name in [*voice_files.names(), *embedded_voices()] if name.startswith(incomplete)]


def model_names(incomplete: str) -> list[str]:
    return [name for name in (EMBEDDED, "0.6b", "1.7b", "omni") if name.startswith(incomplete)]


def hub_names(incomplete: str) -> list[str]:
    """The models that can be downloaded: bare sizes, and each variant."""
    return [name for name in (*SIZES, *RELEASED, *ALIASES) if name.startswith(incomplete)]
