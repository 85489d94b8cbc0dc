"""Trains omnitts_cli/speech/sounds.npz, the network that finds words in speech, on speech of flite.

    python benchmarks/word_sounds.py book.txt --into sounds.npz      # the book of benchmarks/word_times.py; needs flite

950 sentences in five voices, each once, with its own pitch, pace, spectral tilt and noise. flite says which sound
each frame belongs to.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import soundfile
import soxr
import torch
from torch import Tensor, nn
from torch.nn import functional
from word_times import FLITE, OF_A_VOICE, TRAINED, Phone, flite, sentences, stretch_of

from omnitts_cli.speech.letters import CLASSES, FRICATIVE, FRONT, LIQUID, NASAL, SIBILANT, SILENCE, STOP, VOWEL
from omnitts_cli.speech.words import BANDS, CONTEXT, HOP_S, RATE, spectrum

PHONES = {
    SILENCE: "pau", FRONT: "iy ih ey y", VOWEL: "aa ae ah ao aw ax ay eh ow oy uh uw", NASAL: "m n ng en em",
    LIQUID: "l r w er el axr", SIBILANT: "s z sh zh ch jh", FRICATIVE: "f v th dh hh hv", STOP: "p t k b d g dx",
}  # fmt: skip
CLASS = {phone: number for number, phones in PHONES.items() for phone in phones.split()}
UNKNOWN = 255
HIDDEN, BATCH, LEARNING_RATE = 96, 2048, 3e-3
LOUDNESS = 0.3  # deviation of the level of a frame


def changed(sound: np.ndarray, draw: np.random.Generator) -> tuple[np.ndarray, float]:
    """Another pitch and pace, tilt, noise and level; and how much longer it is."""
    faster = draw.uniform(0.85, 1.18)
    other = soxr.resample(sound, RATE, RATE / faster)
    tilt = draw.uniform(-0.5, 0.5)
    other = np.concatenate([other[:1], other[1:] + tilt * other[:-1]]).astype(np.float32)
    noise = draw.normal(size=len(other)).astype(np.float32)
    other = other + noise * 10 ** draw.uniform(-5, -2.2) * np.abs(other).max()
    return (other * 10 ** draw.uniform(-1, 0)).astype(np.float32), 1 / faster


def labels(phones: list[Phone], frames: int, longer: float) -> np.ndarray:
    """The class of each frame."""
    times, found, start = np.arange(frames) * HOP_S, np.full(frames, UNKNOWN, np.uint8), 0.0
    for name, end in phones:
        found[(times >= start * longer) & (times < end * longer)] = CLASS.get(name, VOWEL)
        start = end
    return found


def material(book: Path, each: int) -> tuple[Tensor, Tensor, list[int]]:
    """Frames [T, BANDS], their classes [T], and the length of each sentence."""
    known, draw = sentences(book), np.random.default_rng(5)
    mels, classes = [], []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "flite.wav"
        for turn, voice in enumerate(FLITE):
            for number in range(each):
                phones = flite(known[turn * OF_A_VOICE + number], voice, path, stretch_of(number, voice))
                sound, rate = soundfile.read(path, dtype="float32")
                sound, longer = changed(sound if rate == RATE else soxr.resample(sound, rate, RATE), draw)
                mels.append(spectrum(sound).astype(np.float16))
                classes.append(labels(phones, len(mels[-1]), longer))
    lengths = [len(mel) for mel in mels]
    return torch.from_numpy(np.concatenate(mels)).float(), torch.from_numpy(np.concatenate(classes)).long(), lengths


def train(mels: Tensor, classes: Tensor, lengths: list[int], epochs: float) -> dict[str, np.ndarray]:
    torch.manual_seed(0)
    counts = torch.tensor(lengths)
    ends = counts.cumsum(0)
    first, last = (ends - counts).repeat_interleave(counts), (ends - 1).repeat_interleave(counts)
    known = torch.nonzero(classes != UNKNOWN).squeeze(1)
    around = torch.arange(-CONTEXT, CONTEXT + 1)
    width = BANDS * len(around)
    net = nn.Sequential(
        nn.Linear(width, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, len(CLASSES))
    )
    optimiser = torch.optim.AdamW(net.parameters(), 2e-3, weight_decay=1e-3)
    steps = int(len(known) * epochs / BATCH)
    pace = torch.optim.lr_scheduler.OneCycleLR(optimiser, LEARNING_RATE, total_steps=steps)
    right = 0.0
    for step in range(steps):
        at = known[torch.randint(0, len(known), (BATCH,))]
        places = torch.maximum(torch.minimum(at[:, None] + around, last[at][:, None]), first[at][:, None])
        frames = mels[places].reshape(BATCH, -1) + torch.randn(BATCH, 1) * LOUDNESS
        scores = net(frames)
        loss = functional.cross_entropy(scores, classes[at], label_smoothing=0.05)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        pace.step()
        right += 0.05 * ((scores.argmax(1) == classes[at]).float().mean().item() - right)
        if step % 100 == 99 or step == steps - 1:
            print(f"step {step + 1} of {steps}: {right:.3f} of the frames right", flush=True)
    prior = torch.bincount(classes[known], minlength=len(CLASSES)).float()
    return {
        **{f"p{n}": weight.detach().numpy().astype(np.float16) for n, weight in enumerate(net.parameters())},
        "prior": (prior / prior.sum()).numpy(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("book", type=Path)
    parser.add_argument("--into", type=Path, default=Path("sounds.npz"))
    parser.add_argument("--sentences", type=int, default=TRAINED, help="of each voice")
    parser.add_argument("--epochs", type=float, default=6.0)
    given = parser.parse_args()
    if not 0 < given.sentences <= TRAINED:
        parser.error(f"--sentences is 1 to {TRAINED}; the rest is for benchmarks/word_times.py")
    weights: dict[str, Any] = train(*material(given.book, given.sentences), given.epochs)
    np.savez(given.into, **weights)


if __name__ == "__main__":
    main()
