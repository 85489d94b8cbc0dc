"""From a model name as typed to its folder; downloads it first where that is allowed."""

import difflib
from dataclasses import replace
from pathlib import Path

from omnitts_cli import files
from omnitts_cli.errors import ModelError, OmniError
from omnitts_cli.parse import json_object
from omnitts_cli.settings.environment import EMBEDDED
from omnitts_cli.settings.setting import readable_size
from omnitts_cli.weights import hub
from omnitts_cli.weights.cached import local
from omnitts_cli.weights.fetch import Report
from omnitts_cli.weights.folder import check_folder
from omnitts_cli.weights.header import shown
from omnitts_cli.weights.names import Found, HubName, hub_name, looks_like_a_repository
from omnitts_cli.weights.pull import pull
from omnitts_cli.weights.released import ALIASES, RELEASED, SIZES

CODEC_CONFIG = "speech_tokenizer/config.json"
RATE = 24_000  # of every released model
TOY, TOY_RATE = "random:toy", 8_000  # families/toy.py, which imports torch
TINY = Path(__file__).parent.parent / "embedded" / EMBEDDED


def find(name: str, *, variant: str | None = None, offline: bool = False, report: Report | None = None) -> Found:
    """The model called `name`: tiny, 0.6b, 1.7b-base, a folder, hf:ORG/REPO[@REVISION] or random:SIZE.

    `variant` completes a bare size. Makes no network call if the model is on this machine.
    """
    found = here(name, variant=variant)
    if isinstance(found, Found):
        return found
    if offline or hub.told_offline():
        raise not_here(found, f" and {'--offline' if offline else 'HF_HUB_OFFLINE'} is set")
    return pull(found, report=report)


def here(name: str, *, variant: str | None = None, thinker: bool = False, typed: str = "-m") -> Found | HubName:
    """The same without the network: the model, or what to download if it is not on this machine.

    With `thinker`, a download that was for speech only does not count. `typed`: the words before the name, for hints.
    """
    if name.startswith("random:"):
        return Found(None, name)
    if name == EMBEDDED:
        return _tiny()
    wanted = hub_name(name, variant)
    wanted = replace(wanted, thinker=True) if wanted is not None and thinker else wanted
    return _folder(name, typed) if wanted is None else local(wanted) or wanted


def sample_rate(name: str, variant: str | None = None) -> int:
    """The sample rate of a model, without opening it. That of every released model, if its files are not here or do not
    tell: what is wrong with them is found when the model is opened.
    """
    if name in (EMBEDDED, TOY):
        return RATE if name == EMBEDDED else TOY_RATE
    try:
        found = here(name, variant=variant)
        if isinstance(found, HubName) or found.folder is None:
            return RATE
        rate = json_object(files.read(found.folder / CODEC_CONFIG, files.LARGE))["output_sample_rate"]
    except (OmniError, OSError, ValueError, LookupError, TypeError):
        return RATE
    return rate if isinstance(rate, int) and rate > 0 else RATE


def not_here(wanted: HubName, why: str = "", other: str = f"   or   -m {EMBEDDED}") -> ModelError:
    """The error for a model that would have to be downloaded. `other`: what the hint offers besides the download."""
    weight = f"   ({readable_size(wanted.released.size_bytes)}, once)" if wanted.released else ""
    return ModelError(
        f"model '{shown(wanted.name)}' is not on this machine{why}",
        hint=f"omnitts models pull {shown(wanted.name)}{weight}{other}",
    )


def _tiny() -> Found:
    if not TINY.exists():
        raise ModelError(
            "the embedded voice 'tiny' is missing from this installation",
            hint="reinstall omnitts, or use another model: -m 0.6b   (2.3 GiB, downloaded once)",
        )
    return Found(check_folder(TINY), EMBEDDED)


def _folder(name: str, typed: str) -> Found:
    path = Path(name)
    try:
        known = bool(name) and path.expanduser().exists()
    except (OSError, RuntimeError, ValueError):
        known = False
    if known:
        return Found(check_folder(path), name)
    names = [EMBEDDED, *SIZES, *RELEASED, *ALIASES]
    close = difflib.get_close_matches(name.lower(), names, 1)
    cause = f"known models: {', '.join(names)}"
    hint = f"omnitts models list --remote   or   {typed} FOLDER   or   {typed} hf:ORG/REPO"
    if close:
        hint = f"{typed} {close[0]}"
    elif looks_like_a_repository(name):
        hint = f"{typed} hf:{name}   if it is on the Hugging Face Hub"
    raise ModelError(f"model '{shown(name, 400)}' not found", cause=cause, hint=hint)
