"""Measures a model folder against the goals of `GOALS`. It speaks through the Python API only."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from omnitts_cli.audio.magic import is_recording
from omnitts_cli.audio.read import read_sound
from omnitts_cli.bench.acoustics import pitch
from omnitts_cli.bench.campaign import Shape
from omnitts_cli.bench.evaluate import harder, sentences, words
from omnitts_cli.bench.job import BenchJob, BenchTexts, BenchVoice
from omnitts_cli.devices.cpu import CPUDevice
from omnitts_cli.errors import InputError
from omnitts_cli.fleet.verify import aligned
from omnitts_cli.settings.engine import EngineSettings
from omnitts_cli.speech.clip import Clip
from omnitts_cli.speech.tts import load
from omnitts_cli.text.american.sentence import reader
from omnitts_cli.text.spell_out import plain_letters
from omnitts_cli.training.books import usage
from omnitts_cli.training.described import DESCRIPTIONS
from omnitts_cli.training.judge_languages import judge_language
from omnitts_cli.training.listeners import Installed, Listeners
from omnitts_cli.training.recipe import Recipe
from omnitts_cli.training.shapes import TinyCodec
from omnitts_cli.training.spoken import peak_memory, speak
from omnitts_cli.training.stage_results import exported_codec
from omnitts_cli.training.teacher import SAMPLE_RATE, SAMPLES_PER_FRAME, Teacher, TeacherSpeech, TeacherVoice
from omnitts_cli.weights.sums import sha256_of

PARTS = ("spoken", "codec", "runaways", "clone", "people", "design", "speed", "languages")
REPEATED = ("henry", "clara", "edith")
"""Named voices whose teacher clips the codec encodes and decodes."""
FEW = 4  # sentences that the teacher speaks together
BOOKS = 16  # sentences from which the use of the codebooks is measured
UNSEEN = tuple(
    TeacherVoice(((one, share), (other, 1 - share)), pitch, pace)
    for one, other, share, pitch, pace in (
        ("af_alloy", "af_kore", 0.6, 1.0, 1.0),
        ("af_aoede", "bf_alice", 0.55, 0.9, 1.05),
        ("af_jessica", "af_nova", 0.5, 1.1, 0.95),
        ("af_river", "bf_lily", 0.65, 0.95, 1.1),
        ("af_sky", "af_bella", 0.5, 1.05, 0.9),
        ("bf_isabella", "bf_emma", 0.7, 1.0, 1.0),
        ("af_nicole", "af_heart", 0.35, 0.95, 1.0),
        ("bf_alice", "af_sarah", 0.4, 1.15, 1.0),
        ("am_adam", "am_echo", 0.5, 1.0, 1.0),
        ("am_eric", "bm_daniel", 0.6, 0.9, 0.95),
        ("am_liam", "am_puck", 0.65, 1.1, 1.1),
        ("am_onyx", "am_fenrir", 0.7, 0.92, 1.0),
        ("bm_fable", "bm_lewis", 0.6, 1.0, 1.05),
        ("bm_george", "am_michael", 0.5, 1.08, 0.95),
        ("am_santa", "am_adam", 0.3, 1.0, 1.1),
        ("bm_lewis", "am_liam", 0.55, 1.15, 1.0),
    )
)
"""Speakers to clone. Training draws its speakers from a continuum, so it never meets exactly these."""
SECONDS_PER_LETTER, PAUSES = 0.07, 0.3  # of calm speech; seconds of pauses
SOMEONE_ELSE = 5.0  # semitones between the pitch of a clone and that of its clip: another sex, or an octave
AUDIBLE, HUNDREDTH = 0.01, SAMPLE_RATE // 100  # of full scale; samples
TEXTS, LONGEST_TEXT = 300, 80
Read = Callable[[list[str]], list[str]]
"""Sentences -> phonemes in the teacher's alphabet."""


@dataclass(frozen=True)
class Goal:
    """A required value and one to aim for; `more`: higher is better."""

    must: float
    aim: float
    more: bool = False

    def of(self, value: float) -> dict[str, Any]:
        return {"value": round(value, 4), "must": self.must, "aim": self.aim, "reached": self.reached(value)}

    def reached(self, value: float) -> Literal["aim", "must", "neither"]:
        if self._meets(value, self.aim):
            return "aim"
        return "must" if self._meets(value, self.must) else "neither"

    def _meets(self, value: float, limit: float) -> bool:
        return value >= limit if self.more else value <= limit


GOALS = {
    "default": Goal(0.055, 0.035),
    "voices": Goal(0.08, 0.05),
    "natural": Goal(4.0, 4.4, more=True),
    "natural_voices": Goal(3.8, 4.2, more=True),
    "codec": Goal(0.07, 0.045),
    "codec_natural": Goal(4.0, 4.3, more=True),
    "codec_alike": Goal(0.88, 0.94, more=True),
    "runaways": Goal(1, 0),
    "clone": Goal(0.85, 0.97, more=True),
    "people": Goal(0.70, 0.78, more=True),
    "people_codec": Goal(0.85, 0.90, more=True),
    "people_wrong": Goal(1, 0),
    "design": Goal(0.9, 1.0, more=True),
    "over": Goal(0.05, 0.025),
    "natural_under": Goal(0.35, 0.2),
    "heard": Goal(0.97, 0.99, more=True),
    "alike": Goal(0.75, 0.85, more=True),
    "rtf": Goal(0.25, 0.08),
    "memory": Goal(600e6, 400e6),
    "first": Goal(0.04, 0.02),
}


@dataclass(frozen=True)
class Heard:
    """What was understood of the same texts with each seed, and how natural they are on average."""

    texts: list[str]
    understood: list[list[str]]
    natural: float

    def errors(self) -> np.ndarray:
        """Wrong words of each text, [seeds, texts]."""
        return np.array([
            [aligned(words(text), words(heard)).errors for text, heard in zip(self.texts, row, strict=True)]
            for row in self.understood
        ])  # fmt: skip

    def misheard(self) -> list[tuple[int, str, str]]:
        """Seed, text, and what was understood in place of it."""
        return [
            (seed, text, heard.strip())
            for seed, row in enumerate(self.understood, 1)
            for text, heard in zip(self.texts, row, strict=True)
            if words(text) != words(heard)
        ]


class Judge:
    """One method for each part of the judgement; each takes minutes on two cores."""

    def __init__(self, model: Path, recipe: Recipe, seeds: int) -> None:
        self.model, self.recipe, self.seeds = model, recipe, seeds

    @cached_property
    def tts(self) -> Any:
        """The model, loaded when it is first needed."""
        return load(str(self.model))

    def spoken(self, listeners: Listeners) -> dict[str, Any]:
        """Word error rates and naturalness, with confidence intervals: the first voice with all seeds, the others with
        one."""
        voices, texts = [voice.name for voice in self.recipe.voices], spoken_texts()
        found = {v: self._heard(v, texts, self.seeds if v == voices[0] else 1, listeners) for v in voices}
        errors = {voice: heard.errors() for voice, heard in found.items()}
        rates = {voice: rate(texts, wrong) for voice, wrong in errors.items()}
        natural = {voice: heard.natural for voice, heard in found.items()}
        return {
            "default": GOALS["default"].of(rates[voices[0]]) | interval(texts, [errors[voices[0]]]),
            "voices": GOALS["voices"].of(float(np.mean(list(rates.values())))) | interval(texts, list(errors.values())),
            "natural": GOALS["natural"].of(natural[voices[0]]),
            "natural_voices": GOALS["natural_voices"].of(float(np.mean(list(natural.values())))),
            "each": {voice: [round(rates[voice], 3), round(natural[voice], 2)] for voice in voices},
            "harvard": {voice: self._harvard(found) for voice, found in errors.items()},
            "sentences": len(spoken_texts()),
            "seeds": self.seeds,
        }

    @staticmethod
    def _harvard(errors: np.ndarray) -> float:
        """The rate of the Harvard sentences alone: in the others a recogniser guesses unclear words from context."""
        return round(rate(sentences(), errors[:, : len(sentences())]), 3)

    def own(self, voice: str, texts: list[str], listeners: Listeners) -> tuple[dict[str, Any], Heard]:
        """One voice with all seeds on sentences of the user's: its word error rate and how natural it is. A sentence
        that is too long to be spoken in one piece counts as several."""
        heard = self._heard(voice, texts, self.seeds, listeners)
        errors = heard.errors()
        found = {
            "voice": voice,
            "sentences": len(heard.texts),
            "words": int(word_counts(heard.texts).sum()),
            "seeds": self.seeds,
            "errors": errors.sum(1).tolist(),  # of each seed
            "wer": round(rate(heard.texts, errors), 4),
            **interval(heard.texts, [errors]),
            "natural": round(heard.natural, 3),
        }
        return found, heard

    def _heard(self, voice: str, texts: list[str], seeds: int, listeners: Listeners) -> Heard:
        pieces, understood, marks = texts, [], []
        for seed in range(1, seeds + 1):
            made = speak(self.tts, texts, voice=voice, seed=seed)
            pieces = made.texts  # the same with every seed
            understood.append([listeners.transcribe(sound) for sound in made.sounds])
            marks += [listeners.naturalness(sound) for sound in made.sounds]
        return Heard(pieces, understood, float(np.mean(marks)))

    @torch.no_grad()
    def codec(self, teacher: Teacher, phonemes: Read, listeners: Listeners) -> dict[str, Any]:
        """The teacher's clips, before and after the codec: word errors, naturalness, similarity of the two voices, and
        the use of the codebooks."""
        codec = exported_codec(self.recipe, self.model / "speech_tokenizer")
        found: dict[str, dict[str, Any]] = {}
        count = word_counts(spoken_texts()).sum()
        for voice in (v for v in self.recipe.voices if v.name in REPEATED):
            said = [s.sound.astype(np.float32) / 32768 for s in _all(teacher, phonemes(spoken_texts()), voice.made)]
            repeated = [copy(codec, s) for s in said]
            pairs = zip(said, repeated, strict=True)
            found[voice.name] = {
                "wer": [sum(wrong_words(spoken_texts(), s, listeners.transcribe)) / count for s in (said, repeated)],
                "natural": [float(np.mean([listeners.naturalness(x) for x in s])) for s in (said, repeated)],
                "alike": float(np.mean([listeners.voice(a) @ listeners.voice(b) for a, b in pairs])),
                "books": usage(codec, said[:BOOKS]),
            }
        means = {
            "codec": np.mean([one["wer"][1] for one in found.values()]),
            "codec_natural": np.mean([one["natural"][1] for one in found.values()]),
            "codec_alike": np.mean([one["alike"] for one in found.values()]),
        }
        return {name: GOALS[name].of(float(mean)) for name, mean in means.items()} | {"each": found}

    def runaways(self) -> dict[str, Any]:
        """How many texts run too long, too short or silent; and how many pieces the engine had to retry."""
        paragraphs = [f"{text}\n" for text in texts_of_all_lengths()]
        made = speak(self.tts, paragraphs, split="auto", seed=5)
        wrong = [text for text, sound in zip(made.texts, made.sounds, strict=True) if runs_away(text, sound)]
        return {
            "runaways": GOALS["runaways"].of(len(wrong)),
            "texts": TEXTS,
            "said_again": made.retries,
            "examples": wrong[:5],
        }

    def clone(self, teacher: Teacher, phonemes: Read, listeners: Listeners) -> dict[str, Any]:
        """How often a clone is nearest to another clip of its speaker, from the clip alone and with its transcript."""
        texts = sentences()
        said = [texts[2 * n : 2 * n + 2] for n in range(len(UNSEEN))]
        clips = [
            np.concatenate([s.sound for s in _all(teacher, phonemes(two), voice)])
            for two, voice in zip(said, UNSEEN, strict=True)
        ]
        others = [_all(teacher, phonemes(texts[-1:]), voice)[0].sound for voice in UNSEEN]
        known_voices = [listeners.voice(other.astype(np.float32) / 32768) for other in others]
        right: dict[str, list[bool]] = {"sound": [], "words": []}
        lines = texts[40:43]
        for number, clip in enumerate(clips):
            recorded = Clip(clip.astype(np.float32) / 32768, SAMPLE_RATE, seed=0)
            for way, transcript in (("sound", None), ("words", " ".join(said[number]))):
                made = speak(self.tts, lines, voice=self.tts.clone(recorded, transcript), seed=3)
                right[way] += [nearest(listeners.voice(s), known_voices) == number for s in made.sounds]
        rates = {way: round(float(np.mean(hits)), 3) for way, hits in right.items()}
        return {"clone": GOALS["clone"].of(rates["sound"]), "with_words": rates["words"], "tries": len(right["sound"])}

    @torch.no_grad()
    def people(self, folder: Path, listeners: Listeners) -> dict[str, Any]:
        """Clips of people and their clones: similarity of the voices, the same of the clip's own copy by the codec, and
        how many clones have the pitch of someone else."""
        codec, texts, found = exported_codec(self.recipe, self.model / "speech_tokenizer"), sentences()[43:46], {}
        for path in sorted(path for path in folder.iterdir() if is_recording(path)):
            clip = read_sound(path).sound
            padded = np.pad(clip, (0, -len(clip) % SAMPLES_PER_FRAME))
            own = copy(codec, padded)
            voice = self.tts.clone(Clip(clip, SAMPLE_RATE, seed=0))
            made = speak(self.tts, texts, voice=voice, seed=3).sounds
            person = listeners.voice(clip)
            off = 12 * np.log2(pitch(np.concatenate(made)) / pitch(clip))
            found[path.stem] = {
                "clone": round(float(np.mean([person @ listeners.voice(sound) for sound in made])), 3),
                "codec": round(float(person @ listeners.voice(own)), 3),
                "hertz": round(pitch(clip)),
                "off": round(float(off), 1),  # semitones
            }
        if not found:
            raise InputError(f"{folder} has no clips")
        return {
            "people": GOALS["people"].of(float(np.mean([one["clone"] for one in found.values()]))),
            "codec": GOALS["people_codec"].of(float(np.mean([one["codec"] for one in found.values()]))),
            "wrong": GOALS["people_wrong"].of(sum(abs(one["off"]) > SOMEONE_ELSE for one in found.values())),
            "each": found,
        }

    def design(self, seeds: int = 20) -> dict[str, Any]:
        """How many seeds obey each of ten descriptions."""
        text, numbers = sentences()[30:32], range(1, seeds + 1)
        made = {(d.words, seed): self._designed(d.words, text, seed) for d in DESCRIPTIONS for seed in numbers}
        found = {
            d.words: sum(d.obeyed(*made[d.words, seed], made[d.plain or d.words, seed][1]) for seed in numbers)
            for d in DESCRIPTIONS
        }
        return {"design": GOALS["design"].of(min(found.values()) / seeds), "seeds": seeds, "obeyed": found}

    def _designed(self, description: str, text: list[str], seed: int) -> tuple[float, float]:
        """Hz and seconds."""
        sound = np.concatenate(speak(self.tts, text, voice=self.tts.design(description), seed=seed).sounds)
        return pitch(sound), len(sound) / SAMPLE_RATE

    def languages(self, teacher: Teacher, listeners: Listeners) -> dict[str, Any]:
        """Every other language: words and naturalness beside the teacher's, the language heard, and the lowest
        likeness of a voice to itself in English. `beside`: how often it is heard in the teacher's sentences, and in two
        sentences joined."""
        found, codec = {}, exported_codec(self.recipe, self.model / "speech_tokenizer")
        for language in self.recipe.languages:
            judged = judge_language(language, self.recipe.voices, self.tts, teacher, partial(copy, codec), listeners)
            more = {name: judged.pop(name) for name in ("beside", "each")}
            found[language.code] = {name: GOALS[name].of(value) for name, value in judged.items()} | more
        return found

    def speed(self) -> dict[str, Any]:
        """Speed of one request at a time, beside whatever else this machine does (`load`); peak memory of the
        process."""
        settings = EngineSettings(device="cpu", slots=1)
        job = BenchJob(
            str(self.model), settings, Shape(levels=(1,), requests=8), BenchVoice(), BenchTexts(), command="judge"
        )
        level = job.run(lambda level: None, lambda report: None).levels[0]
        assert level.rtf["median"] is not None and level.ttfp_ms["median"] is not None
        memory = peak_memory(str(self.model), sentences()[:10])
        return {
            "rtf": GOALS["rtf"].of(level.rtf["median"]),
            "first": GOALS["first"].of(level.ttfp_ms["median"] / 1000),
            "memory": GOALS["memory"].of(memory),
            "load": round(os.getloadavg()[0], 1),  # of the whole machine
        }


@torch.no_grad()
def copy(codec: TinyCodec, sound: np.ndarray) -> np.ndarray:
    """What the codec makes of a sound of whole frames."""
    made: np.ndarray = codec.decoder(codec.encoder(torch.from_numpy(sound)[None]))[0].numpy()
    return made


def texts_of_all_lengths() -> list[str]:
    """Texts of 1 to 80 words. Every other one joins its sentences into one with commas."""
    draw, made = random.Random(11), []
    for number in range(TEXTS):
        length = 1 + number * LONGEST_TEXT // TEXTS
        said = " ".join(" ".join(draw.sample(sentences(), 12)).split()[:length]).rstrip(".,")
        made.append((said.replace(".", ",") if number % 2 else said) + ".")
    return made


def word_counts(texts: Sequence[str]) -> np.ndarray:
    return np.array([len(words(text)) for text in texts])


def rate(texts: Sequence[str], errors: np.ndarray) -> float:
    """Wrong words of all seeds, [seeds, sentences], over words."""
    return float(errors.sum() / (len(errors) * word_counts(texts).sum()))


def interval(texts: Sequence[str], errors: list[np.ndarray]) -> dict[str, float]:
    """A 95 % bootstrap interval over sentences. `errors`: of each voice, [seeds, sentences]."""
    draw, counts = np.random.default_rng(0), word_counts(texts)
    means = []
    for _ in range(1000):
        picked = draw.integers(0, len(texts), len(texts))
        means.append(np.mean([e[:, picked].sum() / (len(e) * counts[picked].sum()) for e in errors]))
    low, high = np.percentile(means, [2.5, 97.5])
    return {"low": round(float(low), 3), "high": round(float(high), 3)}


def wrong_words(
    texts: Sequence[str], sounds: Sequence[np.ndarray], transcribe: Callable[[np.ndarray], str]
) -> list[int]:
    return [aligned(words(t), words(transcribe(s))).errors for t, s in zip(texts, sounds, strict=True)]


def runs_away(text: str, sound: np.ndarray) -> bool:
    """Three times as long as calm speech, a third of it, or hardly audible."""
    calm = PAUSES + SECONDS_PER_LETTER * len(text)
    whole = len(sound) // HUNDREDTH * HUNDREDTH
    loud = (np.abs(sound[:whole]) > AUDIBLE).reshape(-1, HUNDREDTH).any(1).sum() / 100  # seconds
    return bool(len(sound) / SAMPLE_RATE > 3 * calm + 1 or loud < calm / 3 - 0.1)


def nearest(voice: np.ndarray, others: list[np.ndarray]) -> int:
    """The index of the most similar voice."""
    return int(np.argmax([voice @ other for other in others]))


def spoken_texts() -> list[str]:
    """All sentences that are judged, Harvard sentences first."""
    return [*sentences(), *harder()]


def _all(teacher: Teacher, lines: list[str], voice: TeacherVoice) -> list[TeacherSpeech]:
    """A few at a time: on a CPU, eight together take 1.4 times as long as two groups of four, and need more memory."""
    few = [lines[at : at + FEW] for at in range(0, len(lines), FEW)]
    return [spoken for some in few for spoken in teacher.speak(some, [voice] * len(some))]


def judge(
    model: Path,
    recipe: Recipe,
    parts: Sequence[str],
    seeds: int,
    kokoro: Path,
    whisper: Path | None,
    people: Path | None,
    folder: Path,
) -> Path:
    """Writes each part to a file of its own, so that processes can share the parts, then judged.json with all."""
    judge, notes, listeners = Judge(model, recipe, seeds), folder / "judged", Installed(whisper)
    notes.mkdir(parents=True, exist_ok=True)
    cpu = CPUDevice(1)
    ways: dict[str, Callable[[], dict[str, Any]]] = {
        "spoken": lambda: judge.spoken(listeners),
        "codec": lambda: judge.codec(Teacher(kokoro, cpu), phonemes, listeners),
        "runaways": judge.runaways,
        "clone": lambda: judge.clone(Teacher(kokoro, cpu), phonemes, listeners),
        "people": lambda: judge.people(_given(people), listeners),
        "design": judge.design,
        "languages": lambda: judge.languages(Teacher(kokoro, cpu), listeners),
        "speed": judge.speed,
    }
    for part in parts:
        (notes / f"{part}.json").write_text(json.dumps(ways[part](), indent=1) + "\n")
    found = {path.stem: json.loads(path.read_text()) for path in sorted(notes.glob("*.json"))}
    whole = folder / "judged.json"
    sums = {str(path.relative_to(model)): sha256_of(path) for path in sorted(model.rglob("*.safetensors"))}
    whole.write_text(json.dumps({"weights": sums, **found}, indent=1) + "\n")
    return whole


def _given(people: Path | None) -> Path:
    if people is None or not people.is_dir():
        raise InputError("the part `people` needs a folder of clips", hint="--people FOLDER")
    return people


def judge_texts(
    model: Path, recipe: Recipe, file: Path, voice: str | None, seeds: int, whisper: Path | None, folder: Path
) -> dict[str, Any]:
    """Judges one voice on the sentences of a file, one per line. Writes judged_texts.json and misheard.tsv."""
    try:
        texts = [line for line in file.read_text(encoding="utf-8").splitlines() if words(line)]
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{file} cannot be read", cause=str(error)) from None
    if not texts:
        raise InputError(f"{file} has no sentences", hint="one sentence per line")
    found, heard = Judge(model, recipe, seeds).own(voice or recipe.voices[0].name, texts, Installed(whisper))
    found = {"texts": file.name, "sha256": sha256_of(file), **found}
    (folder / "judged_texts.json").write_text(json.dumps(found, indent=1) + "\n")
    lines = ["\t".join(map(str, one)) + "\n" for one in heard.misheard()]
    (folder / "misheard.tsv").write_text("".join(lines), encoding="utf-8")
    return found


def phonemes(texts: list[str]) -> list[str]:
    """In the teacher's alphabet, as the package reads them: training's G2P lacks some words of the harder sentences."""
    return [reader().spoken(plain_letters(text)).strip() for text in texts]
