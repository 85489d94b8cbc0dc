"""Runs the teacher: random texts in named voices and in those of unnamed speakers, written to shards."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from omnitts_cli.training.languages import voice_in
from omnitts_cli.training.pool import FOLDER, UNNAMED, TeacherUtterance, write_shard
from omnitts_cli.training.recipe import Recipe
from omnitts_cli.training.teacher import SAMPLE_RATE, SAMPLES_PER_FRAME, Teacher, TeacherSpeech, TeacherVoice
from omnitts_cli.training.texts import TrainingLine
from omnitts_cli.training.unnamed_speakers import random_speaker
from omnitts_cli.tuning.journal import Journal

SHORT = 40  # phonemes
Asked = tuple[int, int, int, TeacherVoice]  # text, voice, unnamed speaker, the teacher's voice


def speak(
    recipe: Recipe,
    teacher: Teacher,
    lines: Sequence[TrainingLine],
    work: Path,
    series: int,
    hours: float,
    seconds: float,
) -> None:
    """Writes shards until `hours` of speech or `seconds` have passed. Each `series` has other speech."""
    draw, journal = random.Random(recipe.seed + 7919 * series), Journal(work / f"spoken.{series}.jsonl", "speak")
    said, number, start, plan, numbers = 0.0, 0, time.monotonic(), recipe.teacher, by_language(lines)
    with ThreadPoolExecutor(1) as writer:
        while said < hours * 3600 and time.monotonic() - start < seconds:
            asked = _asked(draw, recipe, teacher.names, numbers, plan.shard)
            spoken = _all(teacher, lines, asked, plan.at_once)
            fitting = _fitting(recipe, asked, spoken)
            writer.submit(write_shard, work / FOLDER / f"{series}-{number:05d}.safetensors", fitting)
            number += 1
            said += sum(len(u.sound) for u in fitting) / SAMPLE_RATE
            journal.write(shards=number, hours=said / 3600, left_out=len(asked) - len(fitting))


def in_accent(line: TrainingLine, voice: TeacherVoice) -> str:
    """The phonemes of a line in the accent of this voice."""
    return line.british if voice.british > 0.5 else line.said


def by_language(lines: Sequence[TrainingLine]) -> dict[str, list[int]]:
    """The numbers of the texts in each language."""
    found: dict[str, list[int]] = {}
    for number, line in enumerate(lines):
        found.setdefault(line.language, []).append(number)
    return found


def _asked(
    draw: random.Random, recipe: Recipe, names: Sequence[str], texts: dict[str, list[int]], count: int
) -> list[Asked]:
    """What to speak next. Each unnamed speaker says two texts, some of them in two languages."""
    plan, asked = recipe.teacher, list[Asked]()
    others = {one.code: one for one in recipe.languages}
    shares = {"en": 1 - sum(one.share for one in recipe.languages)} | {code: one.share for code, one in others.items()}

    def language() -> str:
        return draw.choices(list(shares), list(shares.values()))[0] if others else "en"

    def ask(code: str, voice: int, number: int, made: TeacherVoice, sound: float | None = None) -> None:
        spoken = voice_in(made, others[code], sound) if code in others else made
        asked.append((draw.choice(texts[code]), voice, number, spoken))

    while len(asked) < count:
        if draw.random() < plan.varied / (2 - plan.varied):
            speaker, number = random_speaker(draw, recipe.unnamed_speakers, names), draw.getrandbits(62) + 1
            first = language()
            second = language() if others and draw.random() < plan.abroad else first
            # two texts of one language have one sound; in two languages it is that of named voices
            sound = draw.uniform(others[first].sound, 1.0) if first == second and first in others else None
            for code in (first, second):
                ask(code, UNNAMED, number, speaker, sound)
        else:
            voice = 0 if draw.random() < plan.first / (1 - plan.varied) else draw.randrange(1, len(recipe.voices))
            ask(language(), voice, 0, recipe.voices[voice].made)
    return asked


def _all(teacher: Teacher, lines: Sequence[TrainingLine], asked: list[Asked], at_once: int) -> list[TeacherSpeech]:
    """Speaks texts of similar length together and returns them in the given order."""
    read = [in_accent(lines[a[0]], a[3]) for a in asked]
    order = sorted(range(len(asked)), key=lambda n: len(read[n]))
    spoken: dict[int, TeacherSpeech] = {}
    at = 0
    while at < len(order):
        # as many as the longest of them allows
        count = max(
            1, min(len(order) - at, at_once * 40 // max(40, len(read[order[min(at + at_once, len(order)) - 1]])))
        )
        batch = order[at : at + count]
        at += count
        done = teacher.speak([read[n] for n in batch], [asked[n][3] for n in batch])
        spoken |= dict(zip(batch, done, strict=True))
    return [spoken[n] for n in range(len(asked))]


def _fitting(recipe: Recipe, asked: list[Asked], spoken: list[TeacherSpeech]) -> list[TeacherUtterance]:
    """Drops speech that is too long, or, of unnamed speakers, too short to tell the voice; of a pair, both or none."""
    longest = recipe.teacher.longest * SAMPLE_RATE
    shortest = recipe.unnamed_speakers.shortest * SAMPLE_RATE
    good = [
        max(SAMPLES_PER_FRAME, shortest * (a[1] == UNNAMED)) <= len(s.sound) <= longest
        for a, s in zip(asked, spoken, strict=True)
    ]
    lost = {a[2] for a, ok in zip(asked, good, strict=True) if not ok and a[1] == UNNAMED}
    return [
        TeacherUtterance(a[0], a[1], s.sound, s.phones, s.facts, a[2])
        for a, s, ok in zip(asked, spoken, good, strict=True)
        if ok and a[2] not in lost
    ]
