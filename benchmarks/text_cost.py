"""What splitting and reading text cost in two checkouts: processor time in turn, and the byte code that is run.

    git worktree add ../old 6b951fa
    python benchmarks/text_cost.py ../old . --rounds 5

A row of figures is what the old tree takes, what the new one takes, and new over old: microseconds of this thread, the
least of all rounds, then instructions of byte code and calls of functions, which are the same in every run (what runs
in C, such as a pattern, is one call). "worst" is the longest of several patterns repeated to 400 characters.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

SENTENCES = (
    "The meeting was moved to the large room on the second floor.",
    "She said that he would be back before dinner, but nobody came.",
    "Dr. Smith arrived at 5 p.m. and left again at 6:30.",
    "The train leaves at 10:45 and arrives two hours later.",
    "It costs $25.50, which is 10% less than last year.",
    "We walked 5 km along the river on March 3, 2024.",
    "I have no idea what he meant by that, do you?",
    "About 3,000 people came to the game on Saturday.",
    "Please send the form to 12 Main St. by Friday.",
    "He was born in 1984 and grew up near the sea.",
    "The first chapter is short; the second one is not.",
    "Nobody knew why the lights had gone out so early.",
)
PATTERNS = (
    "1 ", "1", "1,", "1.", "1/", "1-", "-", "a@", "a.", "$1", "http://", "1:", "A.M", "4B ", "<a ", "~/a", "(555) ",
    "10 000 ", "Dr. ", "√1 ", "6 ft ",
)  # fmt: skip
LONGEST = 110

CHILD = """
import json, time
from types import SimpleNamespace; from omnitts_cli.text.inputs import TextOptions, pieces_of_text
import sys; from omnitts_cli.text.reading import reader, readings

sentences, patterns, longest = json.loads(sys.argv[1])
read = reader(None, "en", SimpleNamespace(plain_letters=True))

def split():
    for text in sentences:
        list(pieces_of_text(text, TextOptions()))

def whole():
    for text in sentences:
        all_of(text)

def only_read():
    for text in sentences:
        read(text)

def least(work, tries):
    found = []
    for _ in range(tries):
        began = time.thread_time()
        work()
        found.append(time.thread_time() - began)
    return min(found)

def counted(work):
    calls, codes = 0, 0
    def trace(frame, event, argument):
        nonlocal codes
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        codes += event == "opcode"
        return trace
    def profile(frame, event, argument):
        nonlocal calls
        calls += event in ("call", "c_call")
    sys.settrace(trace)
    work()
    sys.settrace(None)
    sys.setprofile(profile)
    work()
    sys.setprofile(None)
    return calls, codes

def all_of(text):
    for piece in pieces_of_text(text, TextOptions()):
        readings(piece, read, longest)

def worst(text):
    return least(lambda: all_of((text * 400)[:400]), 2)

for work in (split, whole, only_read):
    work()
figures = {name: least(work, 40) / len(sentences) for name, work in
           (("split", split), ("read", only_read), ("split and read", whole))}
figures["worst"] = max(map(worst, patterns))
print(json.dumps({"s": figures, "count": counted(split) if sys.argv[2] == "count" else None}))
"""


def figures(tree: Path, count: bool) -> dict[str, Any]:
    given = json.dumps([SENTENCES, PATTERNS, LONGEST])
    command = [sys.executable, "-c", CHILD, given, "count" if count else ""]
    environment = {**os.environ, "PYTHONPATH": str(tree)}
    done = subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)  # type: ignore[no-any-return]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    trees = [options.old.resolve(), options.new.resolve()]
    found: list[list[dict[str, Any]]] = [[], []]
    for number in range(options.rounds):
        for side, tree in enumerate(trees):
            found[side].append(figures(tree, number == 0))
    for name in found[0][0]["s"]:
        old, new = (min(one["s"][name] for one in side) * 1e6 for side in found)
        print(f"{name:32} {old:10.1f} {new:10.1f} us  {new / old:.3f}")
    (old_calls, old_codes), (new_calls, new_codes) = (side[0]["count"] for side in found)
    print(f"{'split, instructions of byte code':32} {old_codes:10} {new_codes:10}     {new_codes / old_codes:.3f}")
    print(f"{'split, calls of functions':32} {old_calls:10} {new_calls:10}     {new_calls / old_calls:.3f}")


if __name__ == "__main__":
    main()
