"""How far a reader walks: the files and lines that one `omnitts say "Hello" -o a.wav` enters before its first frame.

The count began with 73 files and 1,846 lines (commit 99d0ddd). `pytest -s tests/test_walk.py` prints the list;
`python tests/support/tracer.py ROOT` prints it for another checkout.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

HOUSE = Path(__file__).parent.parent
LEAVES = ("text/", "weights/", "audio/", "errors.py")
"""Left out of the totals."""
MOST_FILES, MOST_LINES = 43, 1844
"""Both may only go down: 40 % fewer files than at the start, and hardly more lines: Ctrl-C that has an effect at any
moment, and codec calls that do not wait when they are full, took a few. Two threads move them by a few."""


def test_no_sentence_takes_a_longer_way_than_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))  # no server answers
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.setenv("OMNITTS_NATIVE", "0")  # the frame in Python
    command = [sys.executable, str(HOUSE / "tests" / "support" / "tracer.py")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    lines: dict[str, int] = json.loads(done.stdout or "{}")
    assert "engine/engine.py" in lines, done.stderr
    walked = {file: count for file, count in lines.items() if not file.startswith(LEAVES)}
    for file, count in walked.items():
        print(f"{count:5} {file}")
    print(f"{sum(walked.values()):5} lines in {len(walked)} files; {len(lines)} files with {', '.join(LEAVES)}")
    assert len(walked) <= MOST_FILES
    assert sum(walked.values()) <= MOST_LINES
