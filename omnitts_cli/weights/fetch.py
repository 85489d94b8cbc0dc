"""Download one large file: resume where the last attempt stopped, and accept it only if its SHA-256 matches.

huggingface_hub discards an interrupted download and starts from zero, which is too expensive for gigabytes. Large
files are therefore downloaded here, with its own HTTP function, to the place where its cache expects them.
"""

import hashlib
import os
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from io import BufferedRandom
from pathlib import Path

from omnitts_cli.errors import ModelError
from omnitts_cli.settings.setting import readable_size
from omnitts_cli.weights.header import shown
from omnitts_cli.weights.hub import failures
from omnitts_cli.weights.released import ReleasedFile

REPORT_S = 0.2
WORTH_A_TRY_BYTES = 2**20  # fewer bytes may be an error page
_SPARE_BYTES = 64 * 2**20


@dataclass(frozen=True)
class DownloadProgress:
    """Progress of a download. The first report comes before the first byte."""

    model: str
    folder: Path  # where it is stored
    done_bytes: int
    total_bytes: int
    resumed_bytes: int  # already downloaded when this run began
    seconds: float

    @property
    def bytes_per_s(self) -> float:
        return (self.done_bytes - self.resumed_bytes) / self.seconds if self.seconds > 0 else 0.0


Report = Callable[[DownloadProgress], None]


def part_of(blob: Path) -> Path:
    """The partial file. It is named by content hash, so another run or revision can resume it."""
    return blob.with_name(f"{blob.name}.omnitts-part")


def fetch(file: ReleasedFile, url: str, headers: dict[str, str], blob: Path, arrived: Callable[[int], None]) -> None:
    """Download `file` to `blob`. `arrived` is called with the size of every piece, negative if bytes were discarded."""
    from filelock import FileLock

    assert file.sha256 is not None
    part = part_of(blob)
    blob.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{part}.lock"):
        if blob.exists():  # another process has finished it
            arrived(file.size_bytes - _size(part))
            return
        _check_room(file.size_bytes - _size(part), blob.parent)
        # The partial file may be corrupt: if the hash is wrong after resuming, start once more from zero.
        for _ in range(2):
            resumed = _size(part)
            digest = _persistently(part, url, headers, file.size_bytes, arrived)
            if digest == file.sha256:
                os.replace(part, blob)
                return
            arrived(-_size(part))
            part.unlink()
            if not resumed:
                break
    raise ModelError(
        f"{shown(file.path)} is corrupt after the download",
        cause=f"its SHA-256 is {digest[:12]}…, it should be {file.sha256[:12]}…",
        hint="run the same command again, or choose another mirror: --mirror URL",
    )


def _persistently(part: Path, url: str, headers: dict[str, str], size: int, arrived: Callable[[int], None]) -> str:
    """Reconnect for as long as every attempt brings enough new bytes."""
    while True:
        before = _size(part)
        try:
            return _continue(part, url, headers, size, arrived)
        except failures():
            if _size(part) < before + WORTH_A_TRY_BYTES:
                raise


def _continue(part: Path, url: str, headers: dict[str, str], size: int, arrived: Callable[[int], None]) -> str:
    """Append the missing bytes; returns the SHA-256 of the whole file."""
    from huggingface_hub.file_download import http_get

    with part.open("a+b") as raw:
        if raw.tell() > size:
            arrived(-raw.tell())
            raw.truncate(0)
        file = _Hashed(raw, arrived)
        try:
            http_get(url, file, resume_size=raw.tell(), headers=dict(headers), expected_size=size)  # type: ignore[arg-type]
        finally:
            raw.flush()
            os.fsync(raw.fileno())
        return file.digest.hexdigest()


class _Hashed:
    """The partial file as http_get sees it: counts and hashes every byte as it is written."""

    def __init__(self, raw: BufferedRandom, arrived: Callable[[int], None]) -> None:
        self.raw, self.arrived = raw, arrived
        raw.seek(0)
        self.digest = hashlib.file_digest(raw, "sha256")
        raw.seek(0, os.SEEK_END)

    def write(self, piece: bytes) -> int:
        written = self.raw.write(piece)
        self.digest.update(piece)
        self.arrived(len(piece))
        return written

    def tell(self) -> int:
        return self.raw.tell()

    def seek(self, offset: int) -> int:
        return self.raw.seek(offset)

    def truncate(self) -> int:
        """Called by http_get when the server ignores the range and sends the file from its start."""
        end = self.raw.seek(0, os.SEEK_END)
        kept = self.raw.truncate(0)
        self.digest = hashlib.sha256()
        self.arrived(-end)
        return kept


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _check_room(needed_bytes: int, folder: Path) -> None:
    free = shutil.disk_usage(folder).free
    if free < needed_bytes + _SPARE_BYTES:
        raise ModelError(
            f"not enough disk space in {shown(folder, 400)}",
            cause=f"{readable_size(needed_bytes)} are needed, {readable_size(free)} are free",
            hint="free some space, or set HF_HOME to a folder on another disk",
        )


class DownloadMeter:
    """Adds up the downloaded bytes of a model and reports progress at intervals."""

    def __init__(self, model: str, folder: Path, total_bytes: int, here_bytes: int, report: Report | None) -> None:
        self.model, self.folder, self.total_bytes = model, folder, total_bytes
        self.resumed_bytes = self.done_bytes = here_bytes
        self.report, self.began = report, time.monotonic()
        self.tell()

    def arrived(self, size: int) -> None:
        self.done_bytes += size
        # Discarded bytes of an earlier run do not count as resumed.
        self.resumed_bytes = min(self.resumed_bytes, self.done_bytes)
        if time.monotonic() - self.told >= REPORT_S:
            self.tell()

    def tell(self) -> None:
        self.told = time.monotonic()
        if self.report is not None:
            seconds = self.told - self.began
            self.report(
                DownloadProgress(
                    self.model, self.folder, self.done_bytes, self.total_bytes, self.resumed_bytes, seconds
                )
            )
