"""Listing: which sound files are there, and their sizes. A million files take seconds, so that several processes share
the folders, and begin while the model is looked up.
"""

import os
import subprocess
import sys
from array import array
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from omnitts_cli import child
from omnitts_cli.fleet.names import name_digest

MANY = 50_000  # rows; for fewer, starting a process takes longer
PROCESSES = 4
FOLDERS = tuple(f"{number:02x}" for number in range(256))


def files_in(out: Path, folders: Sequence[str], suffix: str) -> Iterator[tuple[str, int]]:
    """Path below the output folder, and size, of every file that may be a row's."""
    for folder in folders:
        try:
            entries = os.scandir(out / folder)
        except FileNotFoundError:
            continue
        prefix = f"{folder}/" if folder else ""
        with entries:
            for entry in entries:
                if entry.name.endswith(suffix):
                    yield prefix + entry.name, entry.stat(follow_symlinks=False).st_size


class Listing:
    """The files of an output folder, by the hash of their path. It begins at once if there may be many."""

    def __init__(self, out: Path, suffix: str, *, flat: bool, rows: int) -> None:
        self._out, self._suffix, self._folders = out, suffix, ("",) if flat else FOLDERS
        self._running: list[subprocess.Popen[bytes]] = []
        if rows >= MANY and not flat:
            command = child.command("omnitts_cli.fleet.listing", str(out), suffix)
            share = len(FOLDERS) // PROCESSES
            self._running = [
                subprocess.Popen([*command, *FOLDERS[at : at + share]], stdout=subprocess.PIPE)
                for at in range(0, len(FOLDERS), share)
            ]

    def found(self) -> tuple[np.ndarray, np.ndarray]:
        """Hashes of the paths, sorted, and the sizes."""
        parts = [process.communicate()[0] for process in self._running]
        if not self._running or any(process.returncode for process in self._running):
            parts = [packed(self._out, self._folders, self._suffix)]
        pairs = np.concatenate([np.frombuffer(part, np.uint64).reshape(2, -1) for part in parts], axis=1)
        order = np.argsort(pairs[0])
        return pairs[0][order], pairs[1][order]

    def close(self) -> None:
        """Stops a listing whose result is not needed."""
        for process in self._running:
            if process.poll() is None:
                process.kill()
                process.communicate()


def packed(out: Path, folders: Sequence[str], suffix: str) -> bytes:
    """All hashes, then all sizes, 64 bits each."""
    names, sizes = bytearray(), array("Q")
    for path, size in files_in(out, folders, suffix):
        names += name_digest(path)
        sizes.append(size)
    return bytes(names) + sizes.tobytes()


def main() -> None:
    """One process of a listing."""
    out, suffix, *folders = sys.argv[1:]
    sys.stdout.buffer.write(packed(Path(out), folders, suffix))
