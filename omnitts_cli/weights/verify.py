"""Verify a local model: its SHA-256 against the released table, or against the hashes in the Hub cache."""

import base64
import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from omnitts_cli.errors import ModelError
from omnitts_cli.settings.environment import EMBEDDED
from omnitts_cli.weights.find import TINY
from omnitts_cli.weights.header import shown
from omnitts_cli.weights.released import RELEASED, Released, ReleasedFile
from omnitts_cli.weights.sums import SHA256, sha256_of

OK, DAMAGED, MISSING, UNKNOWN = "ok", "damaged", "missing", "unknown"

_GIT_SHA1 = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True)
class VerifiedFile:
    """The result for one file."""

    path: str
    state: str  # ok | damaged | missing | unknown
    note: str = ""


def verify(folder: Path, released: Released | None = None) -> list[VerifiedFile]:
    """Check every file of a model folder. `unknown`: there is no hash to compare with."""
    expected = {file.path: file for file in released.files} if released else {}
    paths = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file() or path.is_symlink()}
    packed = {} if released else shipped(folder)
    return [_check(folder, path, expected.get(path), packed) for path in sorted({*paths, *expected, *packed})]


def shipped(folder: Path) -> dict[str, str]:
    """SHA-256 of the files that the installed wheel placed in this folder; empty in a source tree."""
    from importlib import metadata  # takes 10 ms, and speech needs none of it

    try:
        files = metadata.files("omnitts-cli") or []
    except metadata.PackageNotFoundError:
        return {}
    sums = {}
    for file in files:
        path = Path(str(file.locate()))
        if file.hash is not None and file.hash.mode == "sha256" and path.is_relative_to(folder):
            digest = base64.urlsafe_b64decode(f"{file.hash.value}==").hex()
            sums[path.relative_to(folder).as_posix()] = digest
    return sums


def _check(folder: Path, path: str, expected: ReleasedFile | None, packed: Mapping[str, str]) -> VerifiedFile:
    file = folder / path
    if not file.exists():
        return VerifiedFile(shown(path), MISSING)
    size = file.stat().st_size
    if expected is not None and expected.sha256 is not None:
        if size != expected.size_bytes:
            return VerifiedFile(path, DAMAGED, f"{size:,} bytes instead of {expected.size_bytes:,}")
        return _compared(path, sha256_of(file), expected.sha256)
    if path in packed:
        return _compared(path, sha256_of(file), packed[path])
    blob = file.resolve().name
    if file.is_symlink() and SHA256.fullmatch(blob):
        return _compared(shown(path), sha256_of(file), blob)
    if file.is_symlink() and _GIT_SHA1.fullmatch(blob):
        return _compared(shown(path), _git_sha1_of(file), blob)
    if file.suffix == ".safetensors":
        return _recognised(folder, shown(path), sha256_of(file))
    return VerifiedFile(shown(path), UNKNOWN, "there is no checksum to compare it with")


def _compared(path: str, is_: str, should: str) -> VerifiedFile:
    if is_ == should:
        return VerifiedFile(path, OK)
    return VerifiedFile(path, DAMAGED, f"SHA-256 {is_[:12]}…, expected {should[:12]}…")


def _recognised(folder: Path, path: str, digest: str) -> VerifiedFile:
    """Weights in a plain folder: whether they are released ones, or those that our own model card names."""
    if folder == TINY and digest in (folder / "README.md").read_text("utf-8"):
        return VerifiedFile(path, OK, "matches README.md")
    owners = [model.name for model in RELEASED.values() for file in model.files if file.sha256 == digest]
    return (
        VerifiedFile(path, OK, f"same as in {owners[0]}")
        if owners
        else VerifiedFile(path, UNKNOWN, f"SHA-256 {digest}")
    )


def _git_sha1_of(path: Path) -> str:
    """The Hub names small files as git does."""
    content = path.read_bytes()
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


def problem(name: str, checked: list[VerifiedFile]) -> ModelError | None:
    """The error for damaged or missing files; None if there are none."""
    bad = [file for file in checked if file.state in (DAMAGED, MISSING)]
    if not bad:
        return None
    first = f"{bad[0].path} is {bad[0].state}" + (f" ({bad[0].note})" if bad[0].note else "")
    more = f"; and {len(bad) - 1} more" if len(bad) > 1 else ""
    again = f"omnitts models rm {shown(name)} && omnitts models pull {shown(name)}"
    if name == EMBEDDED:
        again = "pip install --force-reinstall --no-deps .   in the folder that omnitts was installed from"
    return ModelError(f"model '{shown(name)}' is damaged", cause=first + more, hint=again)
