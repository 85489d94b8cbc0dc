"""Passing strangers: speakers without a name, from all that the teacher's voices can be turned into; and in words.

A stranger's description comes from what is known of it. Words for pitch and tempo are about what is heard, not
about how it was made: the deep ones are those of few hertz, the slow ones those who need long for a sentence.
"""

from __future__ import annotations

import math
import random

from omnitts_cli.training.recipe import Strangers
from omnitts_cli.training.teacher import BASES, TeacherVoice

PITCHES = {"rms": 99.0, "slt": 172.0, "awb": 128.0, "kal16": 91.0}
"""Hz, the median of a few sentences at a shift of 1."""
DEAF = ("rms",)
"""These keep their pitch whatever they are told."""
TEMPOS = {"rms": 0.89, "slt": 1.05, "awb": 0.93, "kal16": 1.15}
"""Against the four's average, at a pace of 1."""
FACTS = len(BASES) + 3

_DEEP = ("deep", "deep", "deep", "low", "low-pitched", "bass")
_HIGH = ("high", "high", "high", "high-pitched", "bright", "light")
_SLOW = ("slow", "slow", "slow", "calm", "unhurried", "leisurely")
_FAST = ("fast", "fast", "fast", "quick", "rapid", "hurried")
_SLOWLY = ("slowly", "slowly", "at a slow pace", "in a slow, calm manner", "without hurry")
_FASTER = ("fast", "fast", "quickly", "at a fast pace", "rapidly", "in a hurry")
_ACCENT = ("with a Scottish accent", "with a Scottish accent", "from Scotland", "with a British accent")
_ROBOT = ("robotic", "robotic", "mechanical", "synthetic", "machine-like")


def passing(draw: random.Random, ranges: Strangers) -> TeacherVoice:
    """Another speaker at each call; pitch moves beside formants where the base heeds it."""
    base = draw.choice(BASES)
    pitch = 0.0 if base in DEAF else PITCHES[base] * _between(draw, ranges.pitch)
    return TeacherVoice(base, _between(draw, ranges.shift), _between(draw, ranges.pace), pitch)


def _between(draw: random.Random, ends: tuple[float, ...]) -> float:
    return math.exp(draw.uniform(math.log(ends[0]), math.log(ends[1])))


def pitch_of(voice: TeacherVoice) -> float:
    """Hz, about."""
    return (voice.pitch or PITCHES[voice.base]) * voice.shift


def tempo_of(voice: TeacherVoice) -> float:
    return TEMPOS[voice.base] * voice.pace


def facts(voice: TeacherVoice) -> list[float]:
    """What a vector must give away: which base, and pitch, shift and pace in numbers of the size of 1. [FACTS]"""
    base = [float(voice.base == other) for other in BASES]
    numbers = (pitch_of(voice) / 125, voice.shift, voice.pace)
    return base + [4 * math.log(number) for number in numbers]


def describe(voice: TeacherVoice, draw: random.Random) -> str:
    """One of many ways to say how this voice sounds; now and then something is left out."""
    woman = voice.base == "slt"
    gendered = draw.random() < 0.75
    adjectives = _adjectives(voice, woman, gendered, draw)
    tempo = tempo_of(voice)
    manner = ""
    if (tempo < 0.88 or tempo > 1.13) and draw.random() < 0.85:
        if draw.random() < 0.5:
            adjectives.append(_strong(draw.choice(_SLOW if tempo < 0.88 else _FAST), abs(math.log(tempo)) > 0.22, draw))
        else:
            manner = draw.choice(_SLOWLY if tempo < 0.88 else _FASTER)
    draw.shuffle(adjectives)
    tail = draw.choice(_ACCENT) if voice.base == "awb" and draw.random() < 0.6 else ""
    person = _person(woman, voice.shift, draw) if gendered else draw.choice(("speaker", "person"))
    words = _sentence(adjectives, person, "female" if woman else "male", gendered, manner, tail, draw)
    words = words[0].upper() + words[1:] if draw.random() < 0.7 else words
    return words + draw.choice((".", ".", ""))


def _adjectives(voice: TeacherVoice, woman: bool, gendered: bool, draw: random.Random) -> list[str]:
    # beside a man's or a woman's name, deep and high are about men or women
    low, high = ((145.0, 190.0) if woman else (95.0, 135.0)) if gendered else (100.0, 165.0)
    pitch, words = pitch_of(voice), []
    if (pitch < low or pitch > high) and draw.random() < 0.9:
        far = pitch < 0.88 * low or pitch > 1.13 * high
        words.append(_strong(draw.choice(_DEEP if pitch < low else _HIGH), far, draw))
    if voice.base == "kal16" and draw.random() < 0.6:
        words.append(draw.choice(_ROBOT))
    return words


def _strong(word: str, far: bool, draw: random.Random) -> str:
    return f"very {word}" if far and draw.random() < 0.35 else word


def _person(woman: bool, shift: float, draw: random.Random) -> str:
    if shift > 1.12 and draw.random() < 0.4:
        return draw.choice(("girl", "young woman") if woman else ("boy", "young man"))
    return draw.choice(("woman", "woman", "lady", "female speaker") if woman else ("man", "man", "guy", "male speaker"))


def _sentence(
    adjectives: list[str], person: str, sex: str, gendered: bool, manner: str, tail: str, draw: random.Random
) -> str:
    listed = draw.choice((", ", ", ", " and ")).join(adjectives)
    voice = " ".join(filter(None, (listed, sex if gendered else "", "voice")))
    form = draw.randrange(5)
    if form == 0 and adjectives:  # a woman with a deep voice, speaking slowly
        return " ".join(filter(None, (_a(person), "with", _a(f"{listed} voice"), f"speaking {manner}" * bool(manner))))
    if form == 1:  # a slow man from Scotland
        spoken = f"who speaks {manner}" if manner else ""
        return " ".join(filter(None, (_a(f"{listed} {person}".strip()), tail, spoken)))
    if form == 2 and (adjectives or gendered):  # deep, slow, male
        return ", ".join(filter(None, (*adjectives, sex if gendered else "", tail, f"speaks {manner}" * bool(manner))))
    if form == 3:
        return " ".join(filter(None, (draw.choice(("speak in", "speak with", "use")), _a(voice), tail, manner)))
    return " ".join(filter(None, (_a(voice), tail, f"speaking {manner}" * bool(manner))))


def _a(words: str) -> str:
    return f"{'an' if words[0] in 'aeiou' else 'a'} {words}"
