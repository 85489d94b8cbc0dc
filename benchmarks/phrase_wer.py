"""Whether the places where long sentences are cut cost words: Whisper's errors with our cuts and with cuts by hand.

    pip install faster-whisper
    python benchmarks/phrase_wer.py WHISPER --seeds 8      # a folder of Whisper base in CTranslate2's format

Every fifth of the 300 long sentences of tests/text/everyday/phrases.txt. By hand: in as few and as equal parts as the
marks of that file allow. Sentences that are cut alike have the same sound and are left out; the error rate of all 60 is
printed too, with --all. Both ways have the same seeds, and the interval is of the difference, of sentences drawn anew.
"""

from __future__ import annotations

import argparse
import itertools
import random
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "support")]

LONGEST, EVERY, DRAWN = 110, 5, 2000


def by_hand(text: str, allowed: set[int]) -> list[int]:
    """Places of spaces: as few parts as the marks allow, and of those the most equal ones."""
    words = text.split()
    ends = {n: len(" ".join(words[:n])) for n in sorted(allowed)}
    for count in range(1, len(ends) + 1):
        fits = []
        for chosen in itertools.combinations(ends.values(), count):
            bounds = [-1, *chosen, len(text)]
            widths = [end - start - 1 for start, end in itertools.pairwise(bounds)]
            if max(widths) <= LONGEST:
                fits.append((max(widths), list(chosen)))
        if fits:
            return min(fits)[1]
    return []


def spoken(tts: Any, text: str, voice: str, seed: int, places: list[int] | None) -> Any:
    """The sound of a sentence; cut at these places, or where the command cuts it."""
    import numpy as np

    from omnitts_cli.text import phrases, reading
    from omnitts_cli.training.spoken import speak

    reading.cuts = phrases.cuts if places is None else lambda words, widest: places if words == text else []
    try:
        return np.concatenate(speak(tts, [text], voice=voice, seed=seed).sounds)
    finally:
        reading.cuts = phrases.cuts


def interval(differences: list[tuple[int, int, int]]) -> tuple[float, float]:
    """Of 95 in 100 drawings of the sentences anew, the difference of the error rates in percent."""
    draw, found = random.Random(1), []
    for _ in range(DRAWN):
        rows = draw.choices(differences, k=len(differences))
        found.append(100 * sum(ours - hand for ours, hand, _ in rows) / sum(words for _, _, words in rows))
    found.sort()
    return found[DRAWN // 40], found[-DRAWN // 40]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("whisper", type=Path)
    parser.add_argument("--voice", default="henry")
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--all", action="store_true", help="also the sentences that are cut alike, each once")
    options = parser.parse_args()
    from everyday import phrases

    from omnitts_cli.bench.evaluate import words
    from omnitts_cli.fleet.verify import aligned
    from omnitts_cli.speech.tts import load
    from omnitts_cli.text.phrases import cuts
    from omnitts_cli.training.listeners import Installed

    judge, tts = Installed(options.whisper), load("tiny", device="cpu", threads=1)

    def errors(text: str, seed: int, places: list[int] | None) -> int:
        heard = judge.transcribe(spoken(tts, text, options.voice, seed, places))
        return aligned(words(text), words(heard)).errors

    sentences = [(text, by_hand(text, allowed)) for _, text, allowed in phrases()[::EVERY]]
    unlike = [(text, hand) for text, hand in sentences if hand != cuts(text, LONGEST)]
    found: dict[str, tuple[int, int, int]] = {}
    for seed in range(1, options.seeds + 1):
        for text, hand in unlike:
            ours, theirs, count = found.get(text, (0, 0, 0))
            found[text] = (ours + errors(text, seed, None), theirs + errors(text, seed, hand), count + len(words(text)))
        print_rates(list(found.values()), seed, len(sentences))
    if options.all:
        alike = [(errors(text, 1, None), len(words(text))) for text, hand in sentences if (text, hand) not in unlike]
        print(f"cut alike: {100 * sum(e for e, _ in alike) / sum(n for _, n in alike):.2f} %")


def print_rates(rows: list[tuple[int, int, int]], seeds: int, sentences: int) -> None:
    """The figures after so many seeds."""
    total = sum(count for _, _, count in rows)
    ours, theirs = (100 * sum(row[side] for row in rows) / total for side in (0, 1))
    low, high = interval(rows)
    print(f"{len(rows)} of {sentences} sentences are cut otherwise; word errors with {seeds} seeds:")
    print(f"{ours:.2f} % with our cuts, {theirs:.2f} % with cuts by hand;", end=" ")
    print(f"the difference is {ours - theirs:+.2f} ({low:+.2f} to {high:+.2f})", flush=True)


if __name__ == "__main__":
    main()
