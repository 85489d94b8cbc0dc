"""Sums: the SHA-256 of model files, remembered by path, size and times, so that asking again reads no file.

The memory is one small JSON file in the user's cache folder. A file that was written less than two seconds before it
was read is not remembered: a second write within the clock's step would go unnoticed.
"""

import hashlib
import json
import os
import re
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from omnitts_cli import files
from omnitts_cli.audio.target import put
from omnitts_cli.errors import OmniError
from omnitts_cli.parse import json_object
from omnitts_cli.weights.header import unreadable

SMALL_BYTES = 64 * 2**20  # hashed in about 50 ms
MOST_FILES = 512  # remembered
FRESH_S = 2.0
SHA256 = re.compile(r"[0-9a-f]{64}")


def sha256_of(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise unreadable(path, error) from None


def model_sha256(folder: Path, *, read: bool = False) -> str | None:
    """The SHA-256 of a model's weights. None if gigabytes would have to be read for it, unless `read`."""
    weights = folder / "model.safetensors"
    if not weights.is_file():
        return None
    memory = Memory()
    found = memory.sum_of(weights, read=read)
    memory.save()
    return found


def identity(folder: Path, *, read: bool = False) -> str | None:
    """One sum over all files of a model that affect its speech: weights, configs, vocabularies.

    None while the sum of large weights is unknown, unless `read`: then they are read, and remembered.
    """
    memory, whole = Memory(), hashlib.sha256()
    files = [path for place in (folder, folder / "speech_tokenizer") for path in place.glob("*") if path.is_file()]
    sums = {
        path.relative_to(folder).as_posix(): memory.sum_of(path, read=read)
        for path in sorted(files)
        if path.suffix in (".safetensors", ".json", ".txt")
    }
    memory.save()
    if None in sums.values():
        return None
    whole.update(json.dumps(sums).encode())
    return whole.hexdigest()


class Memory:
    """The sums that are remembered."""

    def __init__(self) -> None:
        self.path = memory_path()
        self._sums, self._changed = known_sums(self.path), False

    def sum_of(self, path: Path, *, read: bool) -> str | None:
        """The SHA-256 of a file; None for a large one that would have to be read, unless `read`."""
        real = path.resolve()
        if SHA256.fullmatch(real.name):  # file names in the Hub cache are hashes
            return real.name
        try:
            facts = os.stat(real)
        except OSError as error:
            raise unreadable(path, error) from None
        stamp = [facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns, facts.st_ino]
        if (known := self._sums.get(str(real))) and known[:-1] == stamp:
            return str(known[-1])
        if facts.st_size > SMALL_BYTES and not read:
            return None
        total = sha256_of(real)
        if time.time() - max(facts.st_mtime, facts.st_ctime) > FRESH_S:
            self._sums[str(real)] = [*stamp, total]
            self._changed = True
        return total

    def save(self) -> None:
        """Writes what is new. If that fails, the sum is computed again next time."""
        if not self._changed:
            return
        kept = dict(list(self._sums.items())[-MOST_FILES:])
        with suppress(OSError, OmniError):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            put(self.path, json.dumps(kept).encode(), private=True)


def memory_path() -> Path:
    import platformdirs

    return Path(platformdirs.user_cache_dir("omnitts", appauthor=False)) / "sums.json"


def known_sums(path: Path) -> dict[str, list[Any]]:
    """The remembered sums; those of a damaged file are forgotten."""
    try:
        found = json_object(files.read(path, files.LARGE))
    except (OSError, ValueError):
        return {}
    return {name: row for name, row in found.items() if isinstance(row, list) and len(row) == 5 and is_sum(row[-1])}


def is_sum(value: Any) -> bool:
    return isinstance(value, str) and SHA256.fullmatch(value) is not None
