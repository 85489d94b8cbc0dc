"""Download a model from the Hub into its cache: only the files that are needed, large ones first and resumable."""

from pathlib import Path

from omnitts_cli.errors import ModelError
from omnitts_cli.weights import hub
from omnitts_cli.weights.cached import useful_shards
from omnitts_cli.weights.fetch import DownloadMeter, Report, fetch, part_of
from omnitts_cli.weights.folder import check_folder
from omnitts_cli.weights.header import INDEX, shown
from omnitts_cli.weights.names import Found, HubName
from omnitts_cli.weights.released import ReleasedFile


def pull(wanted: HubName, *, mirror: str | None = None, report: Report | None = None) -> Found:
    """Download the missing files of a model. `mirror`: the URL of another hub."""
    listing = _pinned(wanted, mirror) if wanted.released else hub.listing(wanted.repo, wanted.revision, mirror)
    files = sorted((_known(wanted, file) for file in listing.files), key=_order)
    _promised(wanted, files)
    files = _of_use(wanted, files, listing.commit, mirror)
    root = hub.cache_folder(wanted.repo)
    blobs = {file.path: root / "blobs" / file.sha256 for file in files if file.sha256}
    here = sum(_here(blobs[file.path], file.size_bytes) for file in files if file.sha256)
    meter = DownloadMeter(wanted.name, root, sum(file.size_bytes for file in files), here, report)
    with hub.asking(wanted.repo):
        for file in files:
            if file.sha256 and not blobs[file.path].exists():
                url, headers = hub.address(wanted.repo, file.path, listing.commit, mirror)
                fetch(file, url, headers, blobs[file.path], meter.arrived)
            # For a large file this only makes the link to its blob.
            hub.link(wanted.repo, file.path, listing.commit, mirror)
            if not file.sha256:
                meter.arrived(file.size_bytes)
        if wanted.released is None:
            ref = root / "refs" / (wanted.revision or "main")
            ref.parent.mkdir(parents=True, exist_ok=True)
            ref.write_text(listing.commit, "utf-8")
    meter.tell()
    return Found(check_folder(root / "snapshots" / listing.commit), wanted.name, listing.commit)


def _pinned(wanted: HubName, mirror: str | None) -> hub.CommitFiles:
    """The pinned revision, or the main branch if it cannot be resolved: the weights are checked by SHA-256 anyway.

    Only the first digits of the pinned commits are known, and the Hub may not accept abbreviated ones.
    """
    assert wanted.revision is not None
    main = hub.listing(wanted.repo, None, mirror)
    if main.commit.startswith(wanted.revision):
        return main
    try:
        return hub.listing(wanted.repo, wanted.revision, mirror)
    except ModelError:
        return main


def _known(wanted: HubName, file: ReleasedFile) -> ReleasedFile:
    """The file with our own size and hash, which take precedence over what the Hub reports."""
    known = {ours.path: ours for ours in wanted.released.files} if wanted.released else {}
    ours = known.get(file.path)
    if ours is None or ours.sha256 is None:
        return file
    if file.sha256 not in (None, ours.sha256):
        raise ModelError(
            f"{shown(file.path)} of '{wanted.name}' on the Hub is not the released one",
            cause=f"its SHA-256 is {shown(file.sha256)[:12]}…, it should be {ours.sha256[:12]}…",
            hint=f"-m hf:{wanted.repo}   uses it anyway, if you trust it",
        )
    return ours


def _order(file: ReleasedFile) -> tuple[bool, bool, str]:
    """Weights first, config.json last: its presence marks a complete download."""
    return file.path == "config.json", file.sha256 is None, file.path


def _promised(wanted: HubName, files: list[ReleasedFile]) -> None:
    paths = {file.path for file in files}
    if "config.json" in paths and any(path.endswith(".safetensors") for path in paths):
        return
    raise ModelError(
        f"'{shown(wanted.repo)}' cannot be used as a model",
        cause="it has no safetensors weights" if "config.json" in paths else "it has no config.json",
        hint="only safetensors weights are read, because other formats can run code",
    )


def _of_use(wanted: HubName, files: list[ReleasedFile], commit: str, mirror: str | None) -> list[ReleasedFile]:
    """The files without the shards that hold no wanted tensor, if the repository has an index."""
    if wanted.tensors is None or all(file.path != INDEX for file in files):
        return files
    useful = useful_shards(hub.link(wanted.repo, INDEX, commit, mirror), wanted)
    return [file for file in files if not file.path.endswith(".safetensors") or file.path in useful]


def _here(blob: Path, size: int) -> int:
    part = part_of(blob)
    return size if blob.exists() else part.stat().st_size if part.exists() else 0
