"""What two checkouts say for the same prose, sentence by sentence: prints those that they read otherwise.

    git worktree add ../old 6b951fa
    python benchmarks/text_readings.py ../old . /usr/share/common-licenses /usr/share/doc --count 5000

Sentences are taken at random from the text files below the folders, or from the files, that are named (--seed). Each
difference is three lines: what is written, what the old tree says, what the new one says. Commas do not count.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import random
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z\"'(])")
PROSE = re.compile(r"[A-Za-z][a-z]+ [a-z]+ [a-z]+")
LONGEST_FILE = 2_000_000

CHILD = """
import json
from types import SimpleNamespace; from omnitts_cli.text.inputs import pieces_of_text
import sys; from omnitts_cli.text.reading import reader, readings

read = reader(None, "en", SimpleNamespace(plain_letters=True))

def said(text):
    try:
        return " | ".join(words for piece in pieces_of_text(text) for _, words in readings(piece, read, None))
    except Exception as error:
        return f"{type(error).__name__}: {error}"

json.dump([said(text) for text in json.load(sys.stdin)], sys.stdout)
"""


def files_of(place: Path) -> Iterator[Path]:
    if place.is_file():
        yield place
        return
    yield from (path for path in sorted(place.rglob("*")) if path.is_file() and path.stat().st_size < LONGEST_FILE)


def prose_of(path: Path) -> Iterator[str]:
    """The sentences of a file that look like prose."""
    try:
        data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        text = data.decode()
    except (OSError, UnicodeDecodeError, EOFError):
        return
    for paragraph in re.split(r"\n\s*\n", text):
        for sentence in SENTENCE.split(" ".join(paragraph.split())):
            if 30 <= len(sentence) <= 300 and PROSE.search(sentence):
                yield sentence


def read_by(tree: Path, texts: list[str]) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", CHILD], input=json.dumps(texts), cwd=tree, check=True, capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": str(tree)},
    )  # fmt: skip
    return json.loads(done.stdout)  # type: ignore[no-any-return]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("places", type=Path, nargs="+", help="files, or folders of them")
    parser.add_argument("--count", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    known = sorted({text for place in options.places for path in files_of(place) for text in prose_of(path)})
    texts = random.Random(options.seed).sample(known, min(options.count, len(known)))
    pairs = list(zip(texts, *(read_by(tree.resolve(), texts) for tree in (options.old, options.new)), strict=True))
    differing = [one for one in pairs if one[1].replace(",", "") != one[2].replace(",", "")]
    for text, old, new in differing:
        print(f"{text}\n  {old}\n  {new}")
    print(f"{len(differing)} of {len(texts)} sentences are read otherwise", file=sys.stderr)


if __name__ == "__main__":
    main()
