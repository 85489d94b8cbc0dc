"""The models on this machine, for `omnitts models`: list, pull, path, verify, rm."""

import difflib
import shutil
from dataclasses import dataclass, replace
from pathlib import Path

from omnitts_cli.errors import ModelError, UsageError
from omnitts_cli.settings.environment import EMBEDDED
from omnitts_cli.weights import eight_files
from omnitts_cli.weights import pull as pulling
from omnitts_cli.weights import verify as verifying
from omnitts_cli.weights.cached import local
from omnitts_cli.weights.fetch import Report
from omnitts_cli.weights.find import TINY, here, not_here
from omnitts_cli.weights.header import shown
from omnitts_cli.weights.hub import cache_folder
from omnitts_cli.weights.names import Found, HubName, hub_name
from omnitts_cli.weights.released import ALIASES, RELEASED, THINKER

EIGHT_BITS = "/q8"
"""Ends the name of the matrices that were made of a model."""


@dataclass(frozen=True)
class LocalModel:
    """A complete or partly downloaded model on this machine."""

    name: str
    folder: Path
    size_bytes: int
    revision: str | None
    whole: bool


def local_models() -> list[LocalModel]:
    """Everything that -m finds without a network, and interrupted downloads."""
    models = [LocalModel(EMBEDDED, TINY, _bytes_in(TINY), None, True)] if TINY.exists() else []
    for wanted in [hub_name(name) for name in (*RELEASED, *ALIASES)] + _strangers():
        assert wanted is not None
        root = cache_folder(wanted.repo)
        if not root.exists():
            continue
        found = local(wanted)
        models.append(
            LocalModel(
                wanted.name,
                root if found is None or found.folder is None else found.folder,
                _bytes_in(root),
                found.revision if found else None,
                found is not None,
            )
        )
    return models


def kept_in_eight_bits() -> list[LocalModel]:
    """Matrices that were made in 8 bits, by the name under which `rm` removes them."""
    kept = eight_files.kept_files()
    return [
        LocalModel(f"{one.model or one.path.name[:12]}{EIGHT_BITS}", one.path, one.size_bytes, None, bool(one.model))
        for one in kept
    ]


def _strangers() -> list[HubName | None]:
    """Speech models in the Hub cache that are not in our table; the cache holds other kinds of models too."""
    ours = {model.repo for model in RELEASED.values()}
    cache = cache_folder("a/b").parent
    repos = (
        path.parents[2].name.removeprefix("models--") for path in cache.glob("models--*/snapshots/*/speech_tokenizer")
    )
    names = sorted({repo.replace("--", "/", 1) for repo in repos} - ours)
    return [HubName(f"hf:{name}", name, None) for name in names]


def pull(
    name: str,
    *,
    variant: str | None = None,
    revision: str | None = None,
    mirror: str | None = None,
    report: Report | None = None,
    thinker: bool = False,
) -> Found:
    """Download a model, even if an older version is here. `revision` overrides the pinned one.

    `thinker`: with the parts that answer questions.
    """
    wanted = to_pull(name, variant=variant, thinker=thinker)
    if revision is not None:
        wanted = replace(wanted, revision=revision, released=None)
    elif (found := local(wanted)) is not None and wanted.released is not None:
        return found
    return pulling.pull(wanted, mirror=mirror, report=report)


def to_pull(name: str, *, variant: str | None = None, thinker: bool = False) -> HubName:
    """What `pull` downloads. Raises an error for what cannot be downloaded."""
    wanted = _on_hub(name, variant, "downloaded")
    if thinker and wanted.repo not in THINKER:
        raise UsageError(f"{shown(name)} has no thinker of its own", hint="omnitts models pull omni --with-thinker")
    return replace(wanted, thinker=thinker)


def path(name: str, *, variant: str | None = None, command: str = "path") -> Path:
    """Where a model is, without asking the network. `command`: of `omnitts models`, for hints."""
    found = here(name, variant=variant, typed=f"omnitts models {command}")
    if isinstance(found, HubName):
        raise not_here(found, other="")
    if found.folder is None:
        raise UsageError(f"'{shown(name)}' has no folder: it is generated when it is loaded")
    return found.folder


def verify(name: str, *, variant: str | None = None) -> list[verifying.VerifiedFile]:
    """Check every file of a model. Damaged files are in the returned list, not raised."""
    wanted = hub_name(name, variant)
    released = wanted.released if wanted else None
    return verifying.verify(path(name, variant=variant, command="verify"), released)


def rm(name: str, *, variant: str | None = None, dry_run: bool = False) -> int:
    """Remove a model from the Hub cache, complete or not, and what was made of it; returns the number of bytes.

    A name that ends in EIGHT_BITS: only what was made of it.
    """
    made = [one for one in kept_in_eight_bits() if one.name in (name, f"{name}{EIGHT_BITS}")]
    if name.endswith(EIGHT_BITS):
        root = None
        if not made:
            raise ModelError(f"'{shown(name)}' is not on this machine", hint="omnitts models list")
    else:
        wanted = _on_hub(name, variant, "removed")
        made += [one for one in kept_in_eight_bits() if one.name == f"{wanted.name}{EIGHT_BITS}" and one not in made]
        root = cache_folder(wanted.repo)
        if not root.exists():
            raise ModelError(f"model '{shown(name)}' is not on this machine", hint="omnitts models list")
    size = (_bytes_in(root) if root else 0) + sum(one.size_bytes for one in made)
    if not dry_run:
        try:
            if root:
                shutil.rmtree(root)
            for one in made:
                one.folder.unlink()
        except OSError as error:
            raise ModelError(f"cannot remove model '{shown(name)}'", cause=shown(error, 300)) from None
    return size


def _on_hub(name: str, variant: str | None, verb: str) -> HubName:
    wanted = hub_name(name, variant)
    if wanted is not None:
        return wanted
    if name == EMBEDDED:
        raise UsageError(f"'{name}' cannot be {verb}: it is inside the package", hint="omnitts models list")
    if name.startswith("random:") or Path(name).is_absolute():
        why = "it does not come from the Hub"
        raise UsageError(f"'{shown(name)}' cannot be {verb}: {why}", hint="omnitts models list")
    known = [*RELEASED, *ALIASES]
    close = difflib.get_close_matches(name.lower(), known, 1)
    listed = "omnitts models list --remote"
    hint = f"did you mean '{close[0]}'? All models: {listed}" if close else f"{listed}   or hf:ORG/REPO"
    raise ModelError(f"model '{shown(name)}' not found", hint=hint)


def _bytes_in(folder: Path) -> int:
    """Bytes on disk; links are not followed."""
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file() and not file.is_symlink())
