"""UnitCache: finished units by key, as FLAC with the times of their sentences, which are not spoken again. A
unit counts when its JSON file exists; its sound is written, synced and renamed before. File names are hashes of the
content, so several runs may share a folder, and files never change.
"""

import json
import os
import secrets
import shutil
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from omnitts_cli.audio.outlet import make_folder
from omnitts_cli.errors import OmniError, OutputError
from omnitts_cli.fleet import disk
from omnitts_cli.parse import json_object
from omnitts_cli.text.subtitles import Sentence, Word

RUNS = "runs"
BEGINNING_S = 3600.0  # a run gets its lock within this time
UNUSED_S = 60 * 24 * 3600.0
BLOCK = 1 << 16
SUFFIX, WORDS = ".flac", ".words"


def default_folder() -> Path:
    """The user's cache of book speech."""
    import platformdirs

    return platformdirs.user_cache_path("omnitts", appauthor=False) / "books"


@dataclass(frozen=True)
class SpokenUnit:
    """A finished unit."""

    path: Path
    rate: int
    seconds: float
    sentences: list[Sentence]
    details: dict[str, Any]

    def blocks(self) -> Iterator[np.ndarray]:
        """The sound in blocks, mono float32. If it is damaged, the unit is removed, so that it will be spoken again."""
        import soundfile

        left = round(self.seconds * self.rate)
        try:
            with soundfile.SoundFile(self.path) as file:
                while (samples := file.read(BLOCK, dtype="float32")).size:
                    left -= samples.shape[0]
                    yield samples
        except soundfile.SoundFileError as error:
            raise self._removed(str(error)) from None
        if left:
            raise self._removed("its length is wrong")

    def _removed(self, cause: str) -> OutputError:
        with suppress(OSError):
            self.path.with_suffix(".json").unlink(missing_ok=True)
        hint = "run the same command again: it speaks this part again and continues"
        return OutputError(f"{self.path} was damaged and has been removed", cause=cause[:200], hint=hint)

    def sound(self) -> np.ndarray:
        """All of the sound."""
        return np.concatenate([np.zeros(0, np.float32), *self.blocks()])


def remove_dead(run: Path) -> None:
    """Removes the folder of a run that was killed. One that goes on, here or on another machine, holds its lock."""
    with suppress(OSError, OmniError):
        if run.name.startswith(".") and time.time() - run.stat().st_mtime < BEGINNING_S:
            return
        disk.Lock(run).release()
        shutil.rmtree(run, ignore_errors=True)


class UnitCache:
    """A folder of finished units, and a folder for what this run is making."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        if not folder.exists():
            make_folder(folder, "--work DIR", private=True)
        make_folder(folder / RUNS, "--work DIR")
        for old in (folder / RUNS).iterdir():
            remove_dead(old)
        token = secrets.token_hex(8)
        begun = folder / RUNS / f".{token}"
        make_folder(begun, "--work DIR")
        self._lock = disk.Lock(begun)
        self.work = begun.rename(folder / RUNS / token)  # so that nobody sees it without its lock

    def close(self) -> None:
        shutil.rmtree(self.work, ignore_errors=True)
        self._lock.release()

    def _path(self, key: str) -> Path:
        return self.folder / key[:2] / f"{key}{SUFFIX}"

    def get(self, key: str) -> SpokenUnit | None:
        """The unit of that key; None if it is not there, or not whole."""
        path = self._path(key)
        try:
            about = json_object(path.with_suffix(".json").read_bytes())
            if path.stat().st_size != about["bytes"]:
                return None
            sentences = [Sentence(float(start), float(end), str(text)) for start, end, text in about["sentences"]]
            return SpokenUnit(path, int(about["rate"]), float(about["seconds"]), sentences, dict(about["details"]))
        except (OSError, ValueError, KeyError, TypeError, OverflowError):
            return None

    def has(self, key: str) -> bool:
        return self.get(key) is not None

    def put(self, key: str, part: Path, rate: int, seconds: float, sentences: list[Sentence], **details: Any) -> None:
        """Takes over the finished file `part`, which is on the disk already."""
        path = self._path(key)
        path.parent.mkdir(exist_ok=True)
        about = {
            "schema": 1,
            "bytes": part.stat().st_size,
            "rate": rate,
            "seconds": seconds,
            "sentences": [(one.start_s, one.end_s, one.text) for one in sentences],
            "details": details,
        }
        disk.rename(part, path)
        self._put(path.with_suffix(".json"), about)

    def words(self, key: str, by: str) -> list[tuple[Word, ...]] | None:
        """The words of each sentence of a unit, if their times are known. `by`: what has found them."""
        try:
            known = json_object(self._path(key).with_suffix(WORDS).read_bytes())
            if known["by"] != by:
                return None
            return [tuple(Word(*word) for word in row) for row in known["words"]]
        except (OSError, ValueError, TypeError, KeyError):
            return None

    def put_words(self, key: str, words: list[tuple[Word, ...]], by: str) -> None:
        rows = [[(one.start_s, one.end_s, one.text) for one in row] for row in words]
        self._put(self._path(key).with_suffix(WORDS), {"by": by, "words": rows})

    def _put(self, path: Path, about: dict[str, Any]) -> None:
        """A small file, complete or not at all. Another process may be writing the same one."""
        part = self.work / path.name
        disk.put(part, json.dumps(about, ensure_ascii=False).encode())
        disk.rename(part, path)

    def used(self, key: str) -> None:
        """Notes that a unit was used, so that it is kept."""
        with suppress(OSError):
            os.utime(self._path(key).with_suffix(".json"))

    def prune(self) -> None:
        """Removes units that no book has used for two months."""
        before = time.time() - UNUSED_S
        for about in self.folder.glob("??/*.json"):
            with suppress(OSError):
                if about.stat().st_mtime < before:
                    about.unlink()
                    about.with_suffix(SUFFIX).unlink()
                    about.with_suffix(WORDS).unlink(missing_ok=True)
