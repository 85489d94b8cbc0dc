"""Transcripts of recordings by a speech recogniser, in the place of missing texts and to check the others."""

import json
from pathlib import Path

import numpy as np

from omnitts_cli import files, parse
from omnitts_cli.audio.resample import resample
from omnitts_cli.audio.target import put
from omnitts_cli.fleet.verify import aligned, words_of
from omnitts_cli.speech.transcribe import HEARD_AT, Transcriber

MOST_BYTES = 256 << 20
RATE = 24_000


class Transcripts:
    """By the checksum of the samples. A file in the folder of the run keeps them, so that the same command learns the
    same words. `fills`: it writes the texts of recordings that have none. `checks`: it is good enough to doubt texts.
    """

    def __init__(
        self, transcribe: Transcriber, path: Path, fills: bool = True, checks: bool = False, language: str | None = None
    ) -> None:
        self.fills, self.checks = fills, checks
        self._transcribe, self._path, self._language = transcribe, path, language
        self._known: dict[str, str] = {}
        try:
            known = parse.json_object(files.read(path, MOST_BYTES), parse.Limits(MOST_BYTES))
            self._known = {digest: text for digest, text in known.items() if isinstance(text, str)}
        except (OSError, ValueError, AttributeError):
            pass  # missing or damaged: the recordings are transcribed again

    def of(self, sound: np.ndarray, digest: str) -> str:
        """The words in samples at 24 kHz; may be empty."""
        if digest not in self._known:
            self._known[digest] = " ".join(self._transcribe(resample(sound, RATE, HEARD_AT)).split())
        return self._known[digest]

    def wrong(self, text: str, sound: np.ndarray, digest: str) -> float:
        """The share of a text that its transcript lacks, 0 if texts are not checked. Words and letters are compared,
        and the smaller share counts, so that "blue tooth" is not an error for "Bluetooth"."""
        if not self.checks:
            return 0.0
        wanted, found = (words_of(one, self._language) for one in (text, self.of(sound, digest)))
        letters = [*"".join(wanted)], [*"".join(found)]
        return min(aligned(*pair).errors / max(len(pair[0]), 1) for pair in ((wanted, found), letters))

    def keep(self) -> None:
        if self._known:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            put(self._path, json.dumps(self._known, ensure_ascii=False, indent=1).encode(), private=True)
