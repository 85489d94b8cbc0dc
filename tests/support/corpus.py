"""What `omnitts batch` has written, for tests."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path


def sums(out: str) -> dict[str, str]:
    """The SHA-256 of every row by its id. All must be done, and sound files must have that sum."""
    found = {}
    for line in Path(out, "manifest.jsonl").read_text().splitlines():
        row = json.loads(line)
        assert row["status"] == "ok", row
        if row["output"].endswith(".flac"):
            sound = Path(out, row["output"]).read_bytes()
            assert len(sound) == row["bytes"] and hashlib.sha256(sound).hexdigest() == row["sha256"]
        found[row["id"]] = row["sha256"]
    return found
