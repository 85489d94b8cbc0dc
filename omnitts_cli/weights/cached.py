"""Models that are already in the local Hub cache. Makes no network call."""

from fnmatch import fnmatchcase
from pathlib import Path

from omnitts_cli import files
from omnitts_cli.errors import ModelError
from omnitts_cli.parse import json_object
from omnitts_cli.weights.folder import check_folder
from omnitts_cli.weights.header import INDEX, shown
from omnitts_cli.weights.hub import cache_folder
from omnitts_cli.weights.names import Found, HubName
from omnitts_cli.weights.released import Released


def local(wanted: HubName) -> Found | None:
    """The wanted model from the Hub cache, if it is complete."""
    root = cache_folder(wanted.repo)
    for commit in _commits(root, wanted):
        folder = root / "snapshots" / commit
        if _whole(folder, wanted.released) and (not wanted.thinker or _thinks(folder, wanted)):
            return Found(check_folder(folder), wanted.name, commit)
    return None


def _commits(root: Path, wanted: HubName) -> list[str]:
    """Cached commits that may be the wanted one, best first."""
    here = sorted(path.name for path in root.glob("snapshots/*"))
    if (released := wanted.released) is not None:
        # Another commit will do if its weights are the same; `_whole` compares their sizes.
        return sorted(here, key=lambda commit: not commit.startswith(released.revision))
    ref = root / "refs" / (wanted.revision or "main")
    commit = files.read_text(ref, files.SMALL).strip() if ref.is_file() else wanted.revision
    return [commit] if commit in here else []


def _thinks(folder: Path, wanted: HubName) -> bool:
    """Whether every shard with a wanted tensor is here: an earlier download may have been for speech only."""
    if wanted.tensors is None or not (folder / INDEX).is_file():
        return True
    return all((folder / shard).exists() for shard in useful_shards(folder / INDEX, wanted))


def useful_shards(index: Path, wanted: HubName) -> set[str]:
    """The shards that hold a wanted tensor; ModelError for an index that cannot be read."""
    try:
        places: dict[str, str] = json_object(files.read(index, files.LARGE))["weight_map"]
        patterns = wanted.tensors or ("*",)
        return {place for name, place in places.items() if any(fnmatchcase(name, one) for one in patterns)}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ModelError(
            f"the shards of '{wanted.name}' cannot be selected", cause=f"cannot read {INDEX}: {shown(error, 100)}"
        ) from None


def _whole(folder: Path, released: Released | None) -> bool:
    """Whether a download has finished: config.json is written last, and the sizes of released models are known."""
    if not (folder / "config.json").exists():
        return False
    weights = [file for file in released.files if file.sha256] if released else []
    return all(
        (folder / file.path).exists() and (folder / file.path).stat().st_size == file.size_bytes for file in weights
    )
