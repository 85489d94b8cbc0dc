"""Unnamed speakers: random mixtures of the teacher's voices, and descriptions of them in words.

A description comes from the utterance itself: its pitch and tempo are measured, so a deep voice is one of low pitch,
and a slow one needs long for a sentence.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

from omnitts_cli.training.recipe import UnnamedSpeakers
from omnitts_cli.training.teacher import Facts, TeacherVoice

CALM = 4.6
"""The teacher's usual tempo: syllables a second, with pauses."""
_DEEP = ("deep", "deep", "deep", "low", "low-pitched", "bass")
_HIGH = ("high", "high", "high", "high-pitched", "bright", "light")
_SLOW = ("slow", "slow", "slow", "calm", "unhurried", "leisurely")
_FAST = ("fast", "fast", "fast", "quick", "rapid", "hurried")
_SLOWLY = ("slowly", "slowly", "at a slow pace", "in a slow, calm manner", "without hurry")
_FASTER = ("fast", "fast", "quickly", "at a fast pace", "rapidly", "in a hurry")
_BRITISH = ("with a British accent", "with a British accent", "from England", "with an English accent")
_AMERICAN = ("with an American accent", "from America")


def random_speaker(draw: random.Random, ranges: UnnamedSpeakers, names: Sequence[str]) -> TeacherVoice:
    """A random speaker: one to four voices, mostly of one sex, with random pitch, pace and formants."""
    sex = draw.choice("fm")
    group = [name for name in names if name[1] == sex or draw.random() < ranges.crossing]
    chosen = draw.sample(group, min(len(group), draw.choice((1, 2, 2, 3, 3, 4))))
    weights = [draw.expovariate(1.0) for _ in chosen]
    mix = tuple((name, weight / sum(weights)) for name, weight in zip(chosen, weights, strict=True))
    pitch, pace, tract = (between(draw, ends) for ends in (ranges.pitch, ranges.pace, ranges.tract))
    return TeacherVoice(mix, pitch, pace, tract)


def between(draw: random.Random, ends: tuple[float, ...]) -> float:
    return math.exp(draw.uniform(math.log(ends[0]), math.log(ends[1])))


def describe(facts: Facts, draw: random.Random) -> str:
    """A random phrase that describes this voice; sometimes some of the facts are left out."""
    gendered = not 0.3 < facts.woman < 0.7 and draw.random() < 0.8
    woman = facts.woman > 0.5
    adjectives = _adjectives(facts, woman, gendered, draw)
    tempo = facts.tempo / CALM
    manner = ""
    if (tempo < 0.87 or tempo > 1.15) and draw.random() < 0.85:
        if draw.random() < 0.5:
            adjectives.append(_strong(draw.choice(_SLOW if tempo < 1 else _FAST), abs(math.log(tempo)) > 0.3, draw))
        else:
            manner = draw.choice(_SLOWLY if tempo < 1 else _FASTER)
    draw.shuffle(adjectives)
    tail = ""
    if facts.british > 0.7 or facts.british < 0.05:
        tail = draw.choice(_BRITISH if facts.british > 0.5 else _AMERICAN) if draw.random() < 0.3 else ""
    person = _person(woman, draw) if gendered else draw.choice(("speaker", "person"))
    words = _sentence(adjectives, person, "female" if woman else "male", gendered, manner, tail, draw)
    words = words[0].upper() + words[1:] if draw.random() < 0.7 else words
    return words + draw.choice((".", ".", ""))


def _adjectives(facts: Facts, woman: bool, gendered: bool, draw: random.Random) -> list[str]:
    # if the sex is named, deep and high are relative to it
    low, high = ((165.0, 215.0) if woman else (102.0, 138.0)) if gendered else (115.0, 195.0)
    if low <= facts.pitch <= high or draw.random() > 0.9:
        return []
    far = facts.pitch < 0.88 * low or facts.pitch > 1.13 * high
    return [_strong(draw.choice(_DEEP if facts.pitch < low else _HIGH), far, draw)]


def _strong(word: str, far: bool, draw: random.Random) -> str:
    return f"very {word}" if far and draw.random() < 0.35 else word


def _person(woman: bool, draw: random.Random) -> str:
    return draw.choice(("woman", "woman", "lady", "female speaker") if woman else ("man", "man", "guy", "male speaker"))


def _sentence(
    adjectives: list[str], person: str, sex: str, gendered: bool, manner: str, tail: str, draw: random.Random
) -> str:
    listed = draw.choice((", ", ", ", " and ")).join(adjectives)
    voice = " ".join(filter(None, (listed, sex if gendered else "", "voice")))
    form = draw.randrange(5)
    if form == 0 and adjectives:  # a woman with a deep voice, speaking slowly
        return " ".join(filter(None, (_a(person), "with", _a(f"{listed} voice"), f"speaking {manner}" * bool(manner))))
    if form == 1:  # a slow man from England
        spoken = f"who speaks {manner}" if manner else ""
        return " ".join(filter(None, (_a(f"{listed} {person}".strip()), tail, spoken)))
    if form == 2 and (adjectives or gendered):  # deep, slow, male
        return ", ".join(filter(None, (*adjectives, sex if gendered else "", tail, f"speaks {manner}" * bool(manner))))
    if form == 3:
        return " ".join(filter(None, (draw.choice(("speak in", "speak with", "use")), _a(voice), tail, manner)))
    return " ".join(filter(None, (_a(voice), tail, f"speaking {manner}" * bool(manner))))


def _a(words: str) -> str:
    return f"{'an' if words[0] in 'aeiou' else 'a'} {words}"
