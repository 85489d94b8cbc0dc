"""The judge: a model folder against every line of what it must be able to do, heard through the command alone."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch

from omnitts_cli.training.command import run, speak
from omnitts_cli.training.evaluate import Transcribe, recogniser, sentences, word_errors, words
from omnitts_cli.training.hearing import Sounding, distance, heard, pitch
from omnitts_cli.training.recipe import Recipe
from omnitts_cli.training.settled import exported_codec
from omnitts_cli.training.teacher import SAMPLE_RATE, Teacher, TeacherVoice
from omnitts_cli.weights.verify import sha256_of

PARTS = ("spoken", "codec", "runaways", "clone", "design", "speed")
BASES_REPEATED = ("rms", "slt", "awb")
UNSEEN = (
    TeacherVoice("rms", 0.87, 0.95),
    TeacherVoice("rms", 1.2, 1.1),
    TeacherVoice("slt", 0.88, 1.1),
    TeacherVoice("slt", 1.14, 0.9),
    TeacherVoice("awb", 0.9, 1.05, 110.0),
    TeacherVoice("awb", 1.15, 0.9),
    TeacherVoice("kal16", 0.9, 1.0, 85.0),
    TeacherVoice("kal16", 1.05, 0.9, 125.0),
)
"""Passing strangers are drawn from a continuum, so none of them is ever one of these."""
OPPOSITES = (("a deep voice", "a high voice"), ("a slow voice", "a fast voice"))
SECONDS_PER_LETTER, PAUSES = 0.07, 0.3  # of calm speech
AUDIBLE, HUNDREDTH = 0.01, SAMPLE_RATE // 100  # of full scale; samples
TEXTS, LONGEST_TEXT = 200, 60


@dataclass(frozen=True)
class Goal:
    """What a number must reach, and what it should; `more` says whether more is better."""

    must: float
    aim: float
    more: bool = False

    def of(self, value: float) -> dict[str, Any]:
        must, aim = ((value >= g) if self.more else (value <= g) for g in (self.must, self.aim))
        return {"value": round(value, 4), "must": self.must, "aim": self.aim, "reached": "aim" if aim else must}


GOALS = {
    "default": Goal(0.35, 0.22),
    "voices": Goal(0.45, 0.30),
    "codec": Goal(0.35, 0.27),
    "runaways": Goal(1, 0),
    "clone": Goal(0.7, 0.9, more=True),
    "design": Goal(0.9, 1.0, more=True),
    "rtf": Goal(0.35, 0.15),
    "memory": Goal(700e6, 700e6),
    "first": Goal(0.3, 0.3),
}


class Judge:
    """One method a line of the table; each takes minutes on two cores."""

    def __init__(self, model: Path, recipe: Recipe, seeds: int) -> None:
        self.model, self.recipe, self.seeds = model, recipe, seeds

    def spoken(self, transcribe: Transcribe) -> dict[str, Any]:
        """Word error rates: the first voice with all seeds, the others with one, and where the truth may lie."""
        voices = [voice.name for voice in self.recipe.voices]
        errors = {v: self._errors(v, self.seeds if v == voices[0] else 1, transcribe) for v in voices}
        rates = {voice: float(found.sum() / self._words(len(found)).sum()) for voice, found in errors.items()}
        mean = float(np.mean(list(rates.values())))
        return {
            "default": GOALS["default"].of(rates[voices[0]]) | self._interval([errors[voices[0]]]),
            "voices": GOALS["voices"].of(mean) | self._interval(list(errors.values())),
            "each": {voice: round(rate, 3) for voice, rate in rates.items()},
            "sentences": len(sentences()),
            "seeds": self.seeds,
        }

    def _errors(self, voice: str, seeds: int, transcribe: Transcribe) -> np.ndarray:
        """Wrong words of each sentence: [seeds, sentences]."""
        rows = []
        for seed in range(1, seeds + 1):
            sounds = speak(str(self.model), "say", sentences(), "-v", voice, "--seed", str(seed)).sounds
            rows.append(wrong_words(sentences(), sounds, transcribe))
        return np.array(rows)

    @staticmethod
    def _words(seeds: int) -> np.ndarray:
        return np.array([[len(words(text)) for text in sentences()]] * seeds)

    def _interval(self, errors: list[np.ndarray]) -> dict[str, float]:
        """95 % of what other sentences of this kind would have given, by drawing them again and again."""
        draw, count = np.random.default_rng(0), len(sentences())
        means = []
        for _ in range(1000):
            picked = draw.integers(0, count, count)
            rates = [e[:, picked].sum() / self._words(len(e))[:, picked].sum() for e in errors]
            means.append(np.mean(rates))
        low, high = np.percentile(means, [2.5, 97.5])
        return {"low": round(float(low), 3), "high": round(float(high), 3)}

    @torch.no_grad()
    def codec(self, teacher: Teacher, transcribe: Transcribe) -> dict[str, Any]:
        """The teacher repeated by the folder's codec, and the teacher itself."""
        codec, rates = exported_codec(self.recipe, self.model / "speech_tokenizer"), {}
        count = self._words(1).sum()
        for base in BASES_REPEATED:
            said = [teacher.speak(text, TeacherVoice(base)).sound for text in sentences()]
            repeated = [codec.decoder(codec.encoder(torch.from_numpy(s)[None]))[0].numpy() for s in said]
            pair = [sum(wrong_words(sentences(), sounds, transcribe)) / count for sounds in (said, repeated)]
            rates[base] = {"teacher": round(pair[0], 3), "codec": round(pair[1], 3)}
        return {"codec": GOALS["codec"].of(float(np.mean([r["codec"] for r in rates.values()]))), "each": rates}

    def runaways(self) -> dict[str, Any]:
        """Texts that end too late, too early, or in silence; and how many pieces the command had to say again."""
        paragraphs = [f"{text}\n" for text in texts_of_all_lengths()]
        made = speak(str(self.model), "say", paragraphs, "--split", "auto", "-b", "8", "--seed", "5")
        wrong = [text for text, sound in zip(made.texts, made.sounds, strict=True) if runs_away(text, sound)]
        return {
            "runaways": GOALS["runaways"].of(len(wrong)),
            "texts": TEXTS,
            "said_again": made.told["retries"],
            "examples": wrong[:5],
        }

    def clone(self, teacher: Teacher) -> dict[str, Any]:
        """How often the voice is nearest to its own clip, by the sound of the clip alone and with its words."""
        import soundfile  # late: where models are trained it is not needed

        texts = sentences()
        said = [texts[2 * n : 2 * n + 2] for n in range(len(UNSEEN))]
        clips = [
            np.concatenate([teacher.speak(text, voice).sound for text in two])
            for two, voice in zip(said, UNSEEN, strict=True)
        ]
        references = [heard(clip) for clip in clips]
        right: dict[str, list[bool]] = {"sound": [], "words": []}
        with TemporaryDirectory() as folder:
            for number, clip in enumerate(clips):
                path = Path(folder) / f"{number}.wav"
                soundfile.write(path, clip, SAMPLE_RATE)
                known = ["--ref-text", " ".join(said[number])]
                for way, options in (("sound", []), ("words", known)):
                    made = speak(str(self.model), "clone", texts[20:26], "-r", str(path), "--seed", "3", *options)
                    right[way] += [nearest(sound, references) == number for sound in made.sounds]
        rates = {way: round(float(np.mean(hits)), 3) for way, hits in right.items()}
        return {"clone": GOALS["clone"].of(rates["sound"]), "with_words": rates["words"], "tries": len(right["sound"])}

    def design(self, seeds: int = 10) -> dict[str, Any]:
        """Deep below high and slow behind fast, one seed against the same seed."""
        text, found = sentences()[30:32], {}
        for low, high in OPPOSITES:
            made = {words: [self._designed(words, text, seed) for seed in range(1, seeds + 1)] for words in (low, high)}
            measure: Callable[[np.ndarray], float] = pitch if "deep" in low else lambda sound: -len(sound)
            pairs = [(measure(a), measure(b)) for a, b in zip(made[low], made[high], strict=True)]
            found[f"{low.split()[1]}_{high.split()[1]}"] = sum(a < b for a, b in pairs) / seeds
        return {"design": GOALS["design"].of(min(found.values())), "seeds": seeds, **found}

    def _designed(self, description: str, text: list[str], seed: int) -> np.ndarray:
        return np.concatenate(speak(str(self.model), "design", text, "-i", description, "--seed", str(seed)).sounds)

    def speed(self) -> dict[str, Any]:
        """As a user has it, beside whatever else the machine does; memory is that of the whole process."""
        machine = ("-m", str(self.model), "-d", "cpu")
        told, _ = run(["bench", *machine, "-c", "1", "-n", "8", "--format", "json"])
        level = told["levels"][0]
        memory = speak(str(self.model), "say", sentences()[:10], "-d", "cpu", "--seed", "1").peak_memory
        return {
            "rtf": GOALS["rtf"].of(level["rtf"]["median"]),
            "first": GOALS["first"].of(level["ttfp_ms"]["median"] / 1000),
            "memory": GOALS["memory"].of(memory),
            "load": round(os.getloadavg()[0], 1),  # who else used the processor
        }


def texts_of_all_lengths() -> list[str]:
    """Of 1 to 60 words; half of them sentences one after the other, half one long sentence."""
    draw, made = random.Random(11), []
    for number in range(TEXTS):
        length = 1 + number * LONGEST_TEXT // TEXTS
        said = " ".join(" ".join(draw.sample(sentences(), 12)).split()[:length]).rstrip(".,")
        made.append((said.replace(".", ",") if number % 2 else said) + ".")
    return made


def wrong_words(texts: Sequence[str], sounds: Sequence[np.ndarray], transcribe: Transcribe) -> list[int]:
    return [word_errors(words(t), words(transcribe(s))) for t, s in zip(texts, sounds, strict=True)]


def runs_away(text: str, sound: np.ndarray) -> bool:
    """Three times as long as calm speech, a third of it, or hardly to be heard."""
    calm = PAUSES + SECONDS_PER_LETTER * len(text)
    whole = len(sound) // HUNDREDTH * HUNDREDTH
    loud = (np.abs(sound[:whole]) > AUDIBLE).reshape(-1, HUNDREDTH).any(1).sum() / 100  # seconds
    return bool(len(sound) / SAMPLE_RATE > 3 * calm + 1 or loud < calm / 3 - 0.1)


def nearest(sound: np.ndarray, references: list[Sounding]) -> int:
    """Which of the references it sounds most like."""
    return int(np.argmin([distance(heard(sound), other) for other in references]))


def judge(model: Path, recipe: Recipe, parts: Sequence[str], seeds: int, flite: Path | None, folder: Path) -> Path:
    """Each part to a file of its own, so that parts may be judged side by side; all of them joined in one."""
    judge, notes = Judge(model, recipe, seeds), folder / "judged"
    notes.mkdir(parents=True, exist_ok=True)
    ways: dict[str, Callable[[], dict[str, Any]]] = {
        "spoken": lambda: judge.spoken(recogniser()),
        "codec": lambda: judge.codec(Teacher(flite), recogniser()),
        "runaways": judge.runaways,
        "clone": lambda: judge.clone(Teacher(flite)),
        "design": judge.design,
        "speed": judge.speed,
    }
    for part in parts:
        (notes / f"{part}.json").write_text(json.dumps(ways[part](), indent=1) + "\n")
    found = {path.stem: json.loads(path.read_text()) for path in sorted(notes.glob("*.json"))}
    whole = folder / "judged.json"
    sums = {str(path.relative_to(model)): sha256_of(path) for path in sorted(model.rglob("*.safetensors"))}
    whole.write_text(json.dumps({"weights": sums, **found}, indent=1) + "\n")
    return whole
