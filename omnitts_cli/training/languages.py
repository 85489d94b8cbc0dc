"""The other languages: their training texts, their phonemes in the teacher's alphabet, and voices that speak them.

Texts come from a folder (`sentences.py` writes it) with a file for each language, `es.txt` and so on: one sentence a
line; and, if it is there, `es.words`: a list of words, from which sentences are made up, so that rare sounds and
neighbours of words are covered.
The sentences that `tiny` is taught with are those of the Common Voice project (CC0) and, in Spanish and Italian, those
of Debian's collections of sayings (fortunes-es, fortunes-it); the words are those of gruut-lang-* (MIT).

The teacher speaks a language with the styles of its native voices. A style has two halves: the first is the sound of
the voice, the second how it speaks: durations, pitch and loudness. A voice takes part of the first half and all of
the second from a native voice of its sex, and keeps its own pitch.
"""

from __future__ import annotations

import math
import random
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from omnitts_cli.errors import InputError
from omnitts_cli.text.european.phonemes import NASAL, phonemes
from omnitts_cli.text.language import word_lists
from omnitts_cli.text.spoken.european.reader import speller
from omnitts_cli.training.recipe import LanguagePlan
from omnitts_cli.training.teacher import PHONES, TeacherVoice
from omnitts_cli.training.texts import LONGEST, TrainingLine, plain

TEACHERS = (
    ("dz", "ʣ"), ("dʒ", "ʤ"), ("ts", "ʦ"), ("tʃ", "ʧ"), ("ss", "S"),
    ("aɪ", "I"), ("aʊ", "W"), ("eɪ", "A"), ("oʊ", "O"), ("əʊ", "Q"), ("ɔɪ", "Y"), (NASAL, "\u0303"),
)  # fmt: skip
"""Sounds that the teacher's alphabet has one sign for, as its own reader of texts writes them."""
KNOWN = re.compile(f"[ ,.!?ˈˌː\u0303{''.join(PHONES[1:])}]+")
LETTERS = {
    "es": "áéíóúüñ", "fr": "àâæçéèêëîïôœùûüÿ", "it": "àèéìíîòóù", "pt": "áâãàçéêíóôõúü",
}  # fmt: skip
"""Beyond a to z."""
FEWEST = 3  # letters of a sentence
HERTZ = {
    "af_alloy": 135, "af_aoede": 176, "af_bella": 188, "af_heart": 188, "af_jessica": 200, "af_kore": 147,
    "af_nicole": 142, "af_nova": 152, "af_river": 176, "af_sarah": 183, "af_sky": 154, "am_adam": 109, "am_echo": 102,
    "am_eric": 143, "am_fenrir": 129, "am_liam": 115, "am_michael": 105, "am_onyx": 86, "am_puck": 112, "am_santa": 157,
    "bf_alice": 209, "bf_emma": 176, "bf_isabella": 201, "bf_lily": 168, "bm_daniel": 119, "bm_fable": 113,
    "bm_george": 137, "bm_lewis": 95, "ef_dora": 168, "em_alex": 125, "em_santa": 126, "ff_siwis": 199, "if_sara": 215,
    "im_nicola": 95, "pf_dora": 170, "pm_alex": 127, "pm_santa": 130,
}  # fmt: skip
"""Median F0 of the teacher's voices, over six sentences of their language."""
Mix = tuple[tuple[str, float], ...]


def in_teachers_alphabet(sounds: str) -> str:
    for several, one in TEACHERS:
        sounds = sounds.replace(several, one)
    return sounds


def line_of(text: str, language: str) -> TrainingLine | None:
    """A sentence with its phonemes; None if the teacher has no sign for one of them."""
    sounds = phonemes(text, language)
    said = in_teachers_alphabet(sounds)
    return TrainingLine(text, said, "", language, sounds) if KNOWN.fullmatch(said) else None


def collect(folder: Path, language: str, made_up: int, seed: int, avoid: Iterable[str] = ()) -> list[TrainingLine]:
    """Every usable sentence of a language and `made_up` new ones, in random order, without duplicates."""
    draw, source = random.Random(f"{seed} {language}"), folder / f"{language}.txt"
    try:
        written = source.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise InputError(f"{source} cannot be read", cause=error.strerror) from None
    found = {plain(text): text for one in written for text in sentences(one, language)}
    common = [word.strip(",.!?").lower() for text in found.values() for word in text.split()]
    listed = folder / f"{language}.words"
    words = listed.read_text(encoding="utf-8").split() if listed.exists() else common
    usable = re.compile(f"[a-z{LETTERS[language]}]{{2,}}")
    words = [word for word in words if usable.fullmatch(word)]
    small = word_lists(language)["small"]
    for _ in range(made_up):
        text = invented(draw, small, common, words)
        found[plain(text)] = text
    for text in avoid:
        found.pop(plain(text), None)
    texts = list(found.values())
    draw.shuffle(texts)
    return [line for text in texts if (line := line_of(text, language))]


def sentences(written: str, language: str) -> Iterator[str]:
    """The sentences of a text in words, as the model will read them."""
    spoken = speller(language)(written.replace("’", "'").replace("…", "."))
    flowing = re.sub(r"\s+", " ", re.sub(r"[;:()«»“”\"—–―─]+|\.\.+", ", ", spoken))
    allowed = re.compile(f"[A-Za-z{LETTERS[language]}{LETTERS[language].upper()} ,.!?¿¡'-]+")
    for part in re.split(r"(?<=[.!?]) ", flowing):
        text = re.sub(r"([,.!?]) *(?=[,.!?])", "", re.sub(r" +([,.!?])", r"\1", part)).strip(" -,'.")
        text = text.replace("¿ ", "¿").replace("¡ ", "¡")
        if allowed.fullmatch(text) and len(text) <= LONGEST and sum(c.isalpha() for c in text) >= FEWEST:
            first = next(n for n, c in enumerate(text) if c.isalpha())
            text = text[:first] + text[first].upper() + text[first + 1 :]
            yield text if text[-1] in "!?" else f"{text}."


def invented(draw: random.Random, small: list[str], common: list[str], words: list[str]) -> str:
    """A random sentence of small, common and rare words; short ones teach how words sound."""
    length = draw.choice((1, 1, 2, 2, 3, 3, 4, 4, 5, 6, 7, 8, 10, 12))
    chosen = [
        draw.choice(small if kind < 0.3 and length > 2 else common if kind < 0.6 else words)
        for kind in (draw.random() for _ in range(length))
    ]
    if length > 6 and draw.random() < 0.4:
        chosen[draw.randrange(2, length - 2)] += ","
    text = " ".join(word for word in chosen if word)[: LONGEST - 1].strip(" ,") or small[0]
    return text[0].upper() + text[1:] + draw.choice("......?!")


def voice_in(voice: TeacherVoice, language: LanguagePlan, sound: float | None = None) -> TeacherVoice:
    """The voice as a speaker of that language. `sound`: the share of the native voice in the sound [the recipe's]."""
    woman = voice.woman > 0.5
    native, tract = (language.women, voice.tract) if woman else (language.men, voice.tract * language.men_tract)
    share = language.sound if sound is None else sound
    parts = (
        *((name, part * (1 - share)) for name, part in voice.mix),
        *((name, part * share) for name, part in native),
    )
    mix = tuple((name, part) for name, part in parts if part)
    pitch = voice.pitch * hertz(voice.mix) / hertz(native)
    return replace(voice, mix=mix, manner=native, pitch=pitch, tract=tract)


def hertz(mix: Mix) -> float:
    """About the F0 of a mixture."""
    return math.exp(sum(share * math.log(HERTZ[name]) for name, share in mix))
