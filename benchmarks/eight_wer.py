"""Whether weights in 8 bits cost words: Whisper's errors of the embedded voice in q8 and in float32, and runaways.

    pip install faster-whisper
    python benchmarks/eight_wer.py WHISPER --no-keep      # a folder of Whisper base in CTranslate2's format

`sentences`: those that training never read, then long ones of tests/text/everyday/phrases.txt, eight at a time.
`texts`: paragraphs of about a minute. Both ways have the same voices and seeds. Pieces are judged in windows of up to
half a minute. A piece that ran away and that the engine spoke again counts as `retries`, one whose length is wrong all
the same as `runaways`. The interval is of the difference, of texts (or eight sentences) drawn anew.

With --first and --most, several processes can share the work; `--sum results/eight_wer.jsonl` adds up what they kept.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from itertools import groupby
from pathlib import Path
from typing import Any

import rig
from phrase_wer import interval

sys.path.append(str(rig.HERE.parent / "tests" / "support"))

KINDS = {"sentences": 500, "texts": 60}
TOGETHER = 8  # sentences
WAYS = ("q8", "fp32")
WINDOW_S = 28.0  # Whisper takes 30 s at a time
JOINED = 24  # sentences of a text, about 145 words
COUNTS = ("errors", "words", "runaways", "retries")


def arguments() -> argparse.Namespace:
    parser = rig.options(__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("whisper", type=Path, nargs="?")
    parser.add_argument("--only", choices=KINDS)
    parser.add_argument("--first", type=int, default=0, help="of each kind")
    parser.add_argument("--most", type=int, help="of each kind")
    parser.add_argument("--sum", type=Path, help="rows of earlier calls; nothing is spoken")
    parser.set_defaults(model="tiny", threads=2)
    return parser.parse_args()


def texts_of(kind: str) -> list[list[str]]:
    """What is spoken at once: lines."""
    from everyday import phrases

    from omnitts_cli.bench.evaluate import unseen

    if kind == "sentences":
        lines = [*unseen(), *(text for _, text, _ in phrases())][: KINDS[kind]]
        return [lines[at : at + TOGETHER] for at in range(0, len(lines), TOGETHER)]
    draw = random.Random(11)
    return [[" ".join(draw.sample(unseen(), JOINED))] for _ in range(KINDS[kind])]


def windows(made: Any, rate: int) -> list[tuple[str, Any]]:
    """The pieces of a text, joined while they fit in a window: words and sound."""
    import numpy as np

    starts, length = list[int](), 0.0
    for number, sound in enumerate(made.sounds):
        length += len(sound) / rate
        if not starts or length > WINDOW_S:
            starts.append(number)
            length = len(sound) / rate
    of = [sum(start <= number for start in starts) for number in range(len(made.sounds))]
    parts = [list(some) for _, some in groupby(range(len(of)), of.__getitem__)]
    return [(" ".join(made.texts[n] for n in some), np.concatenate([made.sounds[n] for n in some])) for some in parts]


def judged(tts: Any, judge: Any, lines: list[str], voice: str, seed: int) -> dict[str, int]:
    """The counts of one text, spoken once."""
    from omnitts_cli.bench.evaluate import RATE, words
    from omnitts_cli.fleet.verify import aligned
    from omnitts_cli.training.judge import runs_away
    from omnitts_cli.training.spoken import speak

    made = speak(tts, lines, voice=voice, seed=seed, split="auto" if len(lines) == 1 else "line")
    heard = windows(made, RATE)
    return {
        "errors": sum(aligned(words(said), words(judge.transcribe(sound))).errors for said, sound in heard),
        "words": sum(len(words(said)) for said, _ in heard),
        "runaways": sum(runs_away(said, sound) for said, sound in zip(made.texts, made.sounds, strict=True)),
        "retries": made.retries,
    }


def compared(rows: list[dict[str, Any]]) -> str:
    """The rates of all texts so far."""
    total = {way: {name: sum(row[way][name] for row in rows) for name in COUNTS} for way in WAYS}
    rates = {way: 100 * found["errors"] / found["words"] for way, found in total.items()}
    low, high = interval([(row["q8"]["errors"], row["fp32"]["errors"], row["fp32"]["words"]) for row in rows])
    ran = ", ".join(f"{way} {found['runaways']} and {found['retries']}" for way, found in total.items())
    return (
        f"{len(rows)} {rows[0]['kind']}, {total['fp32']['words']} words: q8 {rates['q8']:.2f} %, "
        f"fp32 {rates['fp32']:.2f} %, difference {rates['q8'] - rates['fp32']:+.2f} ({low:+.2f} to {high:+.2f}); "
        f"runaways and retries: {ran}"
    )


def main() -> None:
    options = arguments()
    if options.sum:
        kept = [json.loads(line) for line in options.sum.read_text("utf-8").splitlines()]
        each = {(row["kind"], row["text"]): row for row in kept}.values()  # one that was spoken twice counts once
        for kind in KINDS:
            print(compared([row for row in each if row["kind"] == kind]))
        return
    from omnitts_cli.speech.tts import load
    from omnitts_cli.training.listeners import Installed

    judge, about = Installed(options.whisper), rig.machine(options)
    models = {way: load(options.model, device="cpu", threads=options.threads, dtype=way) for way in WAYS}
    voices = list(models["fp32"].engine.model.speakers)
    for kind in [options.only] if options.only else KINDS:
        rows, texts = list[dict[str, Any]](), list(enumerate(texts_of(kind)))[options.first :]
        for number, lines in texts[: options.most]:
            voice = voices[number % len(voices)]
            found = {way: judged(tts, judge, lines, voice, number) for way, tts in models.items()}
            rows.append({"bench": "eight_wer", "kind": kind, "text": number, "voice": voice, **found})
            rig.keep("eight_wer", [rows[-1] | about], options)
        print(compared(rows))


if __name__ == "__main__":
    main()
