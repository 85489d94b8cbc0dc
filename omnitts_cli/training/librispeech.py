"""Cuts the readings of LibriSpeech at pauses: a folder of recordings as `recordings.py` reads it, without words.

The model learns to speak on as its clip ends. From parts with quiet ends and long pauses it learned silence, and clones
of people fell silent. So every part begins and ends shortly before and after speech, and no pause in it is longer than
PAUSE. A second measurement, with a threshold of the part's own, drops the parts where the first was mistaken: where
a reader's voice sank into noise, or noise was taken for speech.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise
from pathlib import Path

import numpy as np

from omnitts_cli.errors import InputError
from omnitts_cli.training.recordings import LIST
from omnitts_cli.tuning.journal import Journal

RATE = 16000
HOP, WINDOW = 80, 320  # samples: 5 and 20 ms
SPEAKERS = "SPEAKERS.TXT"
# seconds
QUIET = 0.06  # before and after the speech of a part
PAUSE = 0.29  # in a part, at most
LONGEST, SHORTEST = 7.6, 2.0  # a part
EDGE = 0.005  # by which a window reaches beyond the speech that makes it loud
CLICK = 0.025  # shorter sounds are not speech
QUIET_MEASURED, PAUSE_MEASURED = 0.12, 0.32  # in the second measurement
BELOW = 30.0  # dB: its threshold, below the loudness of the part
Span = tuple[float, float]
"""The beginning and the end of a stretch of sound, in seconds."""


def cut(source: Path, folder: Path, work: Path) -> None:
    """Writes the parts of all readings below `source`: in `folder`, a file for each reader, and the list."""
    import soundfile

    journal = Journal(work / "cut.jsonl", "cut")
    sexes = _sexes(source / SPEAKERS)
    files = sorted(source.rglob("*.flac"), key=lambda file: (int(_reader(file)), file.name))
    if not files:
        raise InputError(f"{source} has no readings", hint="a folder of LibriSpeech, such as train-clean-100")
    folder.mkdir(parents=True, exist_ok=True)
    lines, seconds, readers, dropped = list[str](), 0.0, 0, 0
    for reader, own in groupby(files, key=_reader):
        kept, at, first = list[np.ndarray](), 0, len(lines)
        for file in own:
            for part in parts(_read(file)):
                start, end = at / RATE, (at + len(part)) / RATE
                kept.append(part)
                at += len(part)
                if is_even(part):
                    lines.append(f"{reader}.flac\t{reader}\t{sexes[reader]}\t{start:.4f}\t{end:.4f}\t\n")
                    seconds += end - start
                else:
                    dropped += 1
        if len(lines) > first:
            sound = np.concatenate(kept)
            soundfile.write(folder / f"{reader}.flac", sound, RATE, "PCM_16", format="FLAC", compression_level=1.0)
            readers += 1
    (folder / LIST).write_text("".join(lines), encoding="utf-8")
    journal.write(files=len(files), readers=readers, parts=len(lines), dropped=dropped, minutes=seconds / 60)


def _reader(file: Path) -> str:
    """The number of the reader, with which the name of a file begins."""
    return file.name.split("-")[0]


def _sexes(file: Path) -> dict[str, str]:
    """f or m for the number of each reader."""
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise InputError(f"{file} cannot be read", cause=error.strerror) from None
    rows = [line.split("|") for line in lines if line and not line.startswith(";")]
    return {number.strip(): sex.strip().lower() for number, sex, *_ in rows}


def _read(file: Path) -> np.ndarray:
    """The samples of a reading [n], int16."""
    import soundfile

    sound, rate = soundfile.read(file, dtype="int16")
    if rate != RATE or sound.ndim != 1:
        raise InputError(f"{file} is not LibriSpeech", hint=f"one channel, {RATE} samples a second")
    found: np.ndarray = sound
    return found


def loudness(sound: np.ndarray) -> np.ndarray:
    """int16 [n] -> dB of each window [t]."""
    count = (len(sound) - WINDOW) // HOP
    windows = sound.astype(np.float32)[np.arange(count)[:, None] * HOP + np.arange(WINDOW)] / 32768
    windows = windows - windows.mean(1, keepdims=True)
    level: np.ndarray = 10 * np.log10((windows**2).mean(1) + 1e-10)
    return level


def parts(sound: np.ndarray) -> Iterator[np.ndarray]:
    """The parts of a reading, with `QUIET` before and after their speech."""
    total = len(sound) / RATE
    for phrase in phrases(spoken(loudness(sound))):
        for start, end in split(without_clicks(phrase)):
            first, last = max(0.0, start - QUIET), min(total, end + QUIET)
            if last - first >= SHORTEST:
                yield sound[round(first * RATE) : round(last * RATE)]


def spoken(level: np.ndarray) -> list[Span]:
    """Where a reading is louder than its noise and not much softer than its loudest speech."""
    noise, loud = np.percentile(level, 5), np.percentile(level, 95)
    threshold = min(max(noise + 7, loud - 33), max(loud - 22, noise + 4))
    edges = np.flatnonzero(np.diff(np.concatenate([[False], level > threshold, [False]]).astype(np.int8)))
    return [
        (first * HOP / RATE + EDGE, ((last - 1) * HOP + WINDOW) / RATE - EDGE)
        for first, last in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True)
        if (last - first) * HOP >= CLICK * RATE
    ]


def phrases(spans: Sequence[Span]) -> list[list[Span]]:
    """What is spoken between two pauses."""
    found: list[list[Span]] = []
    for span in spans:
        if not found or span[0] - found[-1][-1][1] > PAUSE:
            found.append([])
        found[-1].append(span)
    return found


def without_clicks(phrase: list[Span]) -> list[Span]:
    """A phrase without a click or a breath at either end."""
    while len(phrase) > 1 and phrase[0][1] - phrase[0][0] < 0.06 and phrase[1][0] - phrase[0][1] > 0.06:
        phrase = phrase[1:]
    while len(phrase) > 1 and phrase[-1][1] - phrase[-1][0] < 0.04 and phrase[-1][0] - phrase[-2][1] > 0.1:
        phrase = phrase[:-1]
    return phrase


def split(phrase: list[Span]) -> Iterator[Span]:
    """A phrase in parts that are short enough, cut at long gaps far from its ends; nothing of one without gaps."""
    start, end = phrase[0][0], phrase[-1][1]
    if end - start + 2 * QUIET <= LONGEST:
        yield start, end
        return
    best, place = 0.0, 0
    for number, (before, after) in enumerate(pairwise(phrase), 1):
        gap, shorter = after[0] - before[1], min(before[1] - start, end - after[0])
        worth = gap * min(1.0, shorter / 3)
        if gap >= 0.05 and shorter >= SHORTEST - 2 * QUIET and worth > best:
            best, place = worth, number
    if place:
        yield from split(phrase[:place])
        yield from split(phrase[place:])


def is_even(part: np.ndarray) -> bool:
    """Whether a part is nowhere quiet for long, neither at its ends nor in between, as measured by its own loudness."""
    level = loudness(part)
    loud = np.flatnonzero(level > np.percentile(level, 95) - BELOW) * HOP
    ends = max(loud[0], (len(level) - 1) * HOP - loud[-1])
    pause = np.diff(loud).max(initial=0) - WINDOW
    return bool(ends <= QUIET_MEASURED * RATE and pause <= PAUSE_MEASURED * RATE)
