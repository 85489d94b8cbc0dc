"""Compares systems on the same sentences: a table in Markdown, and a page of spectrograms."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from omnitts_cli.bench.acoustics import pitch, power, tallest_tone
from omnitts_cli.bench.evaluate import sentences, words
from omnitts_cli.devices.cpu import CPUDevice
from omnitts_cli.errors import InputError, OmniError
from omnitts_cli.fleet.verify import aligned
from omnitts_cli.speech.tts import load
from omnitts_cli.training import kokoro
from omnitts_cli.training.judge import interval, phonemes, spoken_texts, word_counts
from omnitts_cli.training.listeners import Listeners
from omnitts_cli.training.recipe import Recipe
from omnitts_cli.training.spoken import speak
from omnitts_cli.training.teacher import SAMPLE_RATE, Teacher

CLIPPED = 0.999
SHOWN, LOUDEST, RANGE = 3, 30, 90  # sentences on the page; decibels
COLOURS = 48  # of the picture, to keep it small
Sounds = list[np.ndarray]


@dataclass(frozen=True)
class System:
    """The sounds of one system, one for each sentence: mono float32 at 24 kHz."""

    name: str
    sounds: Sounds


def systems(named: Sequence[str], recipe: Recipe, voice: str | None) -> list[System]:
    """The systems of arguments NAME=FOLDER: a folder of 000.wav, 001.wav ..., a model folder, or the teacher's
    folder."""
    pairs = [pair.partition("=") for pair in named]
    if bad := next((pair for pair in pairs if not (pair[0] and pair[2])), None):
        raise InputError(f"{''.join(bad)!r} is not NAME=FOLDER", hint="--sounds hibari=DIR ours=DIR")
    return [System(name, _sounds(Path(folder), recipe, voice)) for name, _, folder in pairs]


def _sounds(folder: Path, recipe: Recipe, voice: str | None) -> Sounds:
    texts, voice = spoken_texts(), voice or recipe.voices[0].name
    if (folder / kokoro.WEIGHTS).exists():
        teacher = Teacher(folder, CPUDevice(1))
        made = next((v.made for v in recipe.voices if v.name == voice), recipe.voices[0].made)
        said = [teacher.speak([line], [made])[0].sound for line in phonemes(texts)]
        return [sound.astype(np.float32) / 32768 for sound in said]
    if (folder / "config.json").exists():
        return speak(load(str(folder)), texts, voice=voice, seed=1).sounds
    return [_recorded(folder / f"{number:03d}.wav") for number in range(len(texts))]


def _recorded(path: Path) -> np.ndarray:
    from soundfile import LibsndfileError, read

    try:
        sound, rate = read(path, dtype="float32")
    except LibsndfileError as error:
        raise InputError(f"{path} cannot be read", cause=str(error), hint="one WAV file a sentence") from None
    if rate != SAMPLE_RATE or sound.ndim > 1:
        raise InputError(f"{path} is not mono at {SAMPLE_RATE} Hz", hint=f"sox {path} -c 1 -r {SAMPLE_RATE} OUT.wav")
    return np.asarray(sound)


def compare(found: Sequence[System], listeners: Listeners, folder: Path) -> None:
    """Writes compared.json, and compared.md for a model card."""
    measured = {system.name: measure(system, found[0], listeners) for system in found}
    (folder / "compared.json").write_text(json.dumps(measured, indent=1) + "\n")
    (folder / "compared.md").write_text(markdown(measured))


def measure(system: System, first: System, listeners: Listeners) -> dict[str, float]:
    """The figures of one system. `first`: the system with whose voice it is compared."""
    texts, harvard = spoken_texts(), len(sentences())
    counts = word_counts(texts)
    said = zip(texts, system.sounds, strict=True)
    errors = np.array([aligned(words(t), words(listeners.transcribe(s))).errors for t, s in said])
    between = interval(texts, [errors[None]])
    marks = np.array([listeners.naturalness(sound) for sound in system.sounds])
    pairs = zip(system.sounds, first.sounds, strict=True)
    likeness = [float(listeners.voice(one) @ listeners.voice(other)) for one, other in pairs]
    hertz, above = tallest_tone(system.sounds)
    seconds = sum(len(sound) for sound in system.sounds) / SAMPLE_RATE
    return {
        "wer": float(errors.sum() / counts.sum()),
        "wer_low": between["low"],
        "wer_high": between["high"],
        "wer_harvard": float(errors[:harvard].sum() / counts[:harvard].sum()),
        "wer_harder": float(errors[harvard:].sum() / counts[harvard:].sum()),
        "natural": float(marks.mean()),
        "natural_error": float(marks.std() / len(marks) ** 0.5),
        "likeness": float(np.mean(likeness)),
        "pitch": float(np.nanmedian([pitch(sound) for sound in system.sounds])),
        "words_a_second": float(counts.sum() / seconds),
        "tone": hertz,
        "tone_above": above,
        "clipped": float(sum((np.abs(sound) > CLIPPED).sum() for sound in system.sounds)),
    }


def markdown(measured: dict[str, dict[str, float]]) -> str:
    """The table, with a column for each system."""
    rows = {
        f"WER, {len(spoken_texts())} sentences (95 %)": "{wer:.3f} ({wer_low:.3f} to {wer_high:.3f})",
        "WER, Harvard / harder sentences": "{wer_harvard:.3f} / {wer_harder:.3f}",
        "Distill-MOS (standard error)": "{natural:.2f} ({natural_error:.2f})",
        f"speaker cosine to {next(iter(measured))}": "{likeness:.2f}",
        "median pitch, Hz": "{pitch:.0f}",
        "words a second": "{words_a_second:.2f}",
        "tallest tone above 3 kHz": "{tone:.0f} Hz, {tone_above:.1f} dB",
        "clipped samples": "{clipped:.0f}",
    }
    lines = [f"| | {' | '.join(measured)} |", "|---|" + "---:|" * len(measured)]
    lines += [f"| {what} | {' | '.join(f.format(**one) for one in measured.values())} |" for what, f in rows.items()]
    return "\n".join(lines) + "\n"


def page(found: Sequence[System], picture: Path) -> None:
    """Draws spectrograms of the first sentences: a row for each sentence, a column for each system."""
    try:
        import matplotlib
    except ImportError:
        raise OmniError("a picture needs matplotlib", hint="pip install matplotlib") from None
    matplotlib.use("Agg")  # to a file, without a window
    from matplotlib import pyplot
    from PIL import Image  # matplotlib needs it too

    shape = min(SHOWN, len(found[0].sounds)), len(found)
    figure, panels = pyplot.subplots(
        *shape, figsize=(4 * shape[1], 2.4 * shape[0]), layout="constrained", squeeze=False
    )
    for row, line in enumerate(panels):
        for panel, system in zip(line, found, strict=True):
            decibels = 10 * np.log10(power(system.sounds[row]).T + 1e-12)
            extent = (0, len(system.sounds[row]) / SAMPLE_RATE, 0, SAMPLE_RATE / 2000)
            limits = {"vmin": LOUDEST - RANGE, "vmax": LOUDEST}
            panel.imshow(decibels, aspect="auto", origin="lower", extent=extent, cmap="magma", **limits)
            panel.set(title=system.name if row == 0 else "", ylabel="kHz" if system is found[0] else "")
        line[0].set_xlabel(f"{spoken_texts()[row][:50]} (seconds)", fontsize="small")
    figure.savefig(picture, dpi=80)
    pyplot.close(figure)
    with Image.open(picture) as drawn:
        fewer = drawn.convert("RGB").quantize(COLOURS)
    fewer.save(picture, optimize=True)
