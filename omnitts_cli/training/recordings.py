"""Recordings of people: parts of clips, with or without their words, as shards beside those of the teacher.

A folder of them holds `list.tsv` with a line for each part: the file, a name of the reader, f or m, the seconds at
which the part begins and ends, and its words, which may be missing. Nobody knows when which phone is spoken.
`librispeech.py` writes such a folder.

There are far fewer readers than mixtures of the teacher's voices. So each part is there several times, each time as of
a shorter or longer reader (`tract`), and with another part of the same reader beside it.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path

import numpy as np
import torch

from omnitts_cli.audio.read import read_sound
from omnitts_cli.bench.acoustics import pitch
from omnitts_cli.errors import InputError
from omnitts_cli.training import tract
from omnitts_cli.training.pool import FOLDER, UNNAMED, WORDLESS, TeacherUtterance, write_shard
from omnitts_cli.training.recipe import Recipe
from omnitts_cli.training.teacher import (
    AFTER,
    BEFORE,
    LOUDNESS,
    PEAK,
    PHONES_PER_FRAME,
    SAMPLE_RATE,
    SAMPLES_PER_FRAME,
    STYLE,
    UNKNOWN,
    USUAL_PITCH,
    VOWELS,
    Facts,
)
from omnitts_cli.training.texts import TrainingLine
from omnitts_cli.training.unnamed_speakers import between
from omnitts_cli.tuning.journal import Journal

LIST = "list.tsv"
NOT_KNOWN = float("nan")


@dataclass(frozen=True)
class Passage:
    """A part of a recording, in seconds, and its words, or ""."""

    file: str
    reader: str
    sex: str
    start: float
    end: float
    words: str


@dataclass(frozen=True)
class PassageSound:
    """A part as sound at SAMPLE_RATE, its text's number, the vowels in that, and its median pitch in Hz."""

    sound: np.ndarray
    text: int
    vowels: int
    woman: float
    pitch: float


def parts(folder: Path) -> list[Passage]:
    """The parts of a folder of recordings."""
    try:
        lines = (folder / LIST).read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise InputError(f"{folder / LIST} cannot be read", cause=error.strerror) from None
    found = []
    for number, line in enumerate(lines, 1):
        try:
            file, reader, sex, start, end, words = line.split("\t")
            found.append(Passage(file, reader, sex, float(start), float(end), words))
        except ValueError:
            raise InputError(
                f"{folder / LIST}: line {number} is not understood",
                hint="file, reader, f or m, start, end, words, with tabs between them",
            ) from None
    return found


def record(recipe: Recipe, folder: Path, lines: Sequence[TrainingLine], work: Path) -> None:
    """Writes shards of all recordings in `folder`, each as often as the recipe says."""
    plan, draw, journal = recipe.recordings, random.Random(recipe.seed), Journal(work / "recorded.jsonl", "record")
    texts = {line.text: (number, line.said) for number, line in enumerate(lines) if plan.words}
    readers = [heard(folder, list(own), texts, recipe) for _, own in groupby(parts(folder), lambda part: part.reader)]
    waiting, shards, said = list[TeacherUtterance](), 0, 0.0
    for copy in range(plan.copies):
        draw.shuffle(readers)
        for own in readers:
            # the first time as they were recorded
            steps = tract.steps(between(draw, plan.tract)) if copy else tract.WHOLE
            waiting += in_pairs([utterance(one, steps) for one in own], draw)
        while len(waiting) >= recipe.teacher.shard or (waiting and copy == plan.copies - 1):
            shard, waiting = waiting[: recipe.teacher.shard], waiting[recipe.teacher.shard :]
            write_shard(work / FOLDER / f"record-{shards:05d}.safetensors", shard)
            shards += 1
            said += sum(len(u.sound) for u in shard) / SAMPLE_RATE
    wordless = sum(one.text == WORDLESS for own in readers for one in own)
    journal.write(shards=shards, hours=said / 3600, readers=len(readers), wordless=wordless)


def heard(folder: Path, own: list[Passage], texts: dict[str, tuple[int, str]], recipe: Recipe) -> list[PassageSound]:
    """The parts of one reader that are short enough; the longer ones are cut, and lose their words."""
    found = []
    files: dict[str, np.ndarray] = {}
    for part in own:
        if part.file not in files:
            files[part.file] = read_sound(folder / part.file).sound
        sound = files[part.file][round(part.start * SAMPLE_RATE) : round(part.end * SAMPLE_RATE)]
        text, phonemes = texts.get(part.words, (WORDLESS, ""))
        # a copy may be longer
        longest = round(recipe.teacher.longest * min(1.0, *recipe.recordings.tract) * SAMPLE_RATE) - BEFORE - AFTER
        if len(sound) > longest:
            sound, text = sound[:longest], WORDLESS
        hertz = pitch(sound)
        if len(sound) > recipe.unnamed_speakers.shortest * SAMPLE_RATE:
            vowels = sum(c in VOWELS for c in phonemes)
            woman = float(part.sex == "f")
            found.append(PassageSound(sound, text, vowels, woman, USUAL_PITCH if math.isnan(hertz) else hertz))
    return found


def utterance(said: PassageSound, steps: int) -> TeacherUtterance:
    """A part as of a reader whose formants are `steps` / WHOLE times as high, trimmed and as loud as the teacher."""
    factor = steps / tract.WHOLE
    sound = tract.resampled(torch.from_numpy(said.sound)[None], [steps])[0].numpy()
    level = np.sqrt(np.mean(sound**2)) + 1e-6
    gain = min(LOUDNESS / level, PEAK / (np.abs(sound).max() + 1e-6))
    frames = -(-(BEFORE + len(sound) + AFTER) // SAMPLES_PER_FRAME)
    whole = np.zeros(frames * SAMPLES_PER_FRAME, np.int16)
    whole[BEFORE : BEFORE + len(sound)] = np.round(sound * gain * 32767)
    seconds = len(sound) / SAMPLE_RATE
    tempo = max(1, said.vowels) / seconds if said.text != WORDLESS else NOT_KNOWN
    style = (NOT_KNOWN,) * STYLE
    facts = Facts(said.woman, NOT_KNOWN, said.pitch * factor, tempo, style, NOT_KNOWN)
    phones = np.full((frames, PHONES_PER_FRAME), UNKNOWN, np.uint8)
    return TeacherUtterance(said.text, UNNAMED, whole, phones, facts)


def in_pairs(said: list[TeacherUtterance], draw: random.Random) -> Iterator[TeacherUtterance]:
    """The utterances of a reader: those with words in pairs of one number, then the others. One alone with words is
    used without them."""
    worded = [u for u in said if u.text != WORDLESS]
    draw.shuffle(worded)
    if len(worded) % 2 and len(worded) > 1:
        worded.append(worded[0])
    for at in range(0, len(worded) - 1, 2):
        number = draw.getrandbits(62) + 1
        yield from (replace(u, speaker=number) for u in worded[at : at + 2])
    yield from (replace(u, text=WORDLESS) for u in said if u.text == WORDLESS or len(worded) == 1)
