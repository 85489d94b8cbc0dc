"""Model names that a user may type, and what they mean on the Hub."""

import re
from dataclasses import dataclass
from pathlib import Path

from omnitts_cli.errors import ModelError, UsageError
from omnitts_cli.weights.header import shown
from omnitts_cli.weights.released import ALIASES, RELEASED, SIZES, TENSORS, THINKER, VARIANTS, Released

_REPO = r"\w[\w.-]{0,95}/\w[\w.-]{0,95}"
_HUB_NAME = re.compile(rf"hf:(?P<repo>{_REPO})(?:@(?P<revision>\w[\w./-]{{0,127}}))?", re.ASCII)


@dataclass(frozen=True)
class Found:
    """A model on this machine. Only a random model has no folder."""

    folder: Path | None
    name: str
    revision: str | None = None


@dataclass(frozen=True)
class HubName:
    """A repository and revision; `released` if it is in our table, at its pinned revision."""

    name: str
    repo: str
    revision: str | None
    released: Released | None = None
    thinker: bool = False  # also what answering questions needs

    @property
    def tensors(self) -> tuple[str, ...] | None:
        """Patterns of the wanted tensors; None: all."""
        speech = TENSORS.get(self.repo)
        return (*speech, *THINKER.get(self.repo, ())) if speech is not None and self.thinker else speech


def hub_name(name: str, variant: str | None = None) -> HubName | None:
    """What `name` means on the Hub; None if it can only be a folder."""
    short = name.lower().replace("_", "")
    if short in SIZES:
        short = f"{short}-{(variant or VARIANTS[0]).replace('_', '')}"
        if short not in RELEASED:
            raise UsageError(f"there is no {name} model for this", hint="-m 1.7b")
    if short in RELEASED:
        model = RELEASED[short]
        return HubName(model.name, model.repo, model.revision, model)
    if short in ALIASES:
        return HubName(short, ALIASES[short], None)
    if not name.startswith("hf:"):
        return None
    parts = _HUB_NAME.fullmatch(name)
    if parts is None or ".." in name or "--" in parts["repo"]:
        raise ModelError(f"'{shown(name)}' is not a valid name on the Hub", hint="hf:ORG/REPO or hf:ORG/REPO@REVISION")
    return HubName(name, parts["repo"], parts["revision"])


def looks_like_a_repository(name: str) -> bool:
    return re.fullmatch(_REPO, name, re.ASCII) is not None
