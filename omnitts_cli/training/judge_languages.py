"""Measures the other languages of a model folder beside the teacher's own sentences: words, naturalness, the language
that is heard, and how like the same voice in English each voice is."""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections.abc import Callable
from importlib import resources
from typing import Any

import numpy as np

from omnitts_cli.bench.evaluate import sentences
from omnitts_cli.fleet.verify import aligned
from omnitts_cli.training.languages import line_of, voice_in
from omnitts_cli.training.listeners import Listeners
from omnitts_cli.training.recipe import LanguagePlan, NamedVoice
from omnitts_cli.training.spoken import speak
from omnitts_cli.training.teacher import Teacher

FEW = 4  # sentences that the teacher speaks together
COMPARED = 6  # English sentences with which a voice is compared
SEED = 1


def judged_sentences(language: str) -> list[str]:
    """Sentences of a language that no training text has."""
    file = resources.files(__package__) / "judged" / f"{language}.txt"
    return file.read_text(encoding="utf-8").splitlines()


def words(text: str) -> list[str]:
    flat = unicodedata.normalize("NFC", text.lower()).replace("’", "'")
    return re.sub(r"[^\w' ]", " ", flat).split()


def judge_language(
    language: LanguagePlan,
    voices: tuple[NamedVoice, ...],
    tts: Any,
    teacher: Teacher,
    repeat: Callable[[np.ndarray], np.ndarray],
    listeners: Listeners,
    count: int = 40,
) -> dict[str, Any]:
    """One language, each voice with its first `count` sentences, by the model and by the teacher. `repeat`: the codec,
    which makes a copy of a sound."""
    texts = judged_sentences(language.code)[:count]
    lines = [line.said for text in texts if (line := line_of(text, language.code))]
    found: dict[str, Any] = {}
    for voice in voices:
        made = voice_in(voice.made, language)
        groups = [lines[at : at + FEW] for at in range(0, len(lines), FEW)]
        taught = [
            said.sound.astype(np.float32) / 32768 for few in groups for said in teacher.speak(few, [made] * len(few))
        ]
        own = [speak(tts, [text], voice=voice.name, seed=SEED, language=language.code).sounds[0] for text in texts]
        english = np.mean([
            listeners.voice(sound) for sound in speak(tts, sentences()[:COMPARED], voice=voice.name, seed=SEED).sounds
        ], 0)  # fmt: skip
        english /= np.linalg.norm(english)
        found[voice.name] = {
            "wer": rate(texts, own, language.code, listeners),
            "teacher": rate(texts, taught, language.code, listeners),
            "codec": rate(texts, [repeat(sound) for sound in taught], language.code, listeners),
            "heard": heard(own, language.code, listeners),
            "heard_teacher": heard(taught, language.code, listeners),
            "heard_in_two": heard(in_twos(own), language.code, listeners),
            "heard_in_two_teacher": heard(in_twos(taught), language.code, listeners),
            "alike": float(np.mean([english @ listeners.voice(sound) for sound in own])),
            "natural": float(np.mean([listeners.naturalness(sound) for sound in own])),
            "teacher_natural": float(np.mean([listeners.naturalness(sound) for sound in taught])),
        }
    means = {name: float(np.mean([one[name] for one in found.values()])) for name in found[voices[0].name]}
    return {
        "over": means["wer"] - means["teacher"],
        "natural_under": means["teacher_natural"] - means["natural"],
        "heard": means["heard"],
        "alike": min(one["alike"] for one in found.values()),
        "beside": {name: round(mean, 3) for name, mean in means.items() if name.startswith("heard_")},
        "each": {name: {key: round(value, 3) for key, value in one.items()} for name, one in found.items()},
    }


def heard(sounds: list[np.ndarray], language: str, listeners: Listeners) -> float:
    """The share of sounds in which the language is heard."""
    return sum(listeners.language(sound) == language for sound in sounds) / len(sounds)


def in_twos(sounds: list[np.ndarray]) -> list[np.ndarray]:
    """Each sound with the next: of 2 to 3 s in Spanish, some are taken for Italian, even where the teacher speaks."""
    return [np.concatenate(pair) for pair in itertools.pairwise(sounds)] or sounds


def rate(texts: list[str], sounds: list[np.ndarray], language: str, listeners: Listeners) -> float:
    """Wrong words over words."""
    wrong = [
        aligned(words(text), words(listeners.transcribe(sound, language))).errors
        for text, sound in zip(texts, sounds, strict=True)
    ]
    return sum(wrong) / sum(len(words(text)) for text in texts)
