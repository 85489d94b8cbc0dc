"""A play of 200 lines with six characters, two named, two cloned, two described: is each line in the right voice?

    pip install resemblyzer
    python benchmarks/play.py --into out

Every line is compared with sentences of each character that were spoken apart, by the speaker encoder of Resemblyzer,
which the voices were not made with; `--judge own` takes the model's own encoder. A line counts as right if its own
character is the nearest of the six.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
import soundfile

import omnitts_cli as omnitts
from omnitts_cli.audio.resample import resample

SUBJECTS = "the captain, my sister, the old teacher, our neighbour, that stranger, the doctor".split(", ")
VERBS = "has seen, will not forget, never liked, can hardly remember, wants to sell, has painted".split(", ")
OBJECTS = (
    "the house by the river, a letter from the north, the garden wall, those yellow curtains, this long road".split(
        ", "
    )
)
ENDS = "before the winter came, as far as I know, and nobody asked why, on a quiet Sunday morning".split(", ")
NAMED = {"ANNA": "clara", "BEN": "hugh"}
CLONED = {"CARA": "emily", "DAVID": "arthur"}
DESCRIBED = {"EDGAR": "a deep, slow man", "FAY": "a high, quick young woman"}
NAMES = [*NAMED, *CLONED, *DESCRIBED]
LINES = 200
LEVEL = 10 ** (-30 / 20)  # root mean square at which Resemblyzer was trained


def write_play(folder: Path) -> list[tuple[str, str]]:
    draw = random.Random(24)
    lines = []
    for _ in range(LINES):
        words = f"{draw.choice(SUBJECTS)} {draw.choice(VERBS)} {draw.choice(OBJECTS)} {draw.choice(ENDS)}."
        lines.append((draw.choice(NAMES), words[0].upper() + words[1:]))
    (folder / "play.txt").write_text("\n\n".join(f"{name}: {words}" for name, words in lines))
    return lines


def write_cast(tts: Any, folder: Path) -> None:
    members: dict[str, dict[str, str]] = {name: {"voice": voice} for name, voice in NAMED.items()}
    for name, voice in CLONED.items():
        words = "The birch canoe slid on the smooth planks, and the box was thrown beside the parked truck."
        tts.speak(words, voice=voice, seed=1).save(folder / f"{name}.wav")
        members[name] = {"ref_audio": f"{name}.wav", "ref_text": words}
    for name, words in DESCRIBED.items():
        members[name] = {"description": words}
    (folder / "cast.json").write_text(json.dumps(members, indent=1))


Encoder = Callable[[np.ndarray, int], np.ndarray]
"""Sound -> a vector of length 1."""


def judge(name: str, tts: Any) -> Encoder:
    if name == "own":
        return lambda sound, rate: unit(tts.engine.model.cloner.embedding(sound))
    from resemblyzer import VoiceEncoder

    encoder = VoiceEncoder("cpu", verbose=False)

    def encoded(sound: np.ndarray, rate: int) -> np.ndarray:
        sound = resample(sound, rate, 16_000)
        return unit(encoder.embed_utterance(sound * (LEVEL / (np.sqrt(np.mean(sound**2)) + 1e-9)).astype(np.float32)))

    return encoded


def unit(vector: np.ndarray) -> np.ndarray:
    vector = np.asarray(vector, np.float64)
    found: np.ndarray = vector / np.linalg.norm(vector)
    return found


def references(tts: Any, folder: Path, encode: Encoder) -> dict[str, np.ndarray]:
    """The mean embedding of three lines of each character that are not in the play."""
    texts = ["Nothing of this kind was ever said in the play.", "We walked over the hill and into the next town.",
             "Please bring the other chairs into the kitchen."]  # fmt: skip
    found = {}
    for name in NAMES:
        if name in NAMED:
            voice: Any = NAMED[name]
        elif name in CLONED:
            cast = json.loads((folder / "cast.json").read_text())[name]
            voice = tts.clone(folder / cast["ref_audio"], cast["ref_text"])
        else:
            voice = tts.design(DESCRIBED[name])
        clips = [tts.speak(text, voice=voice, seed=1000 + n) for n, text in enumerate(texts)]
        found[name] = unit(np.mean([encode(clip.samples, clip.sample_rate) for clip in clips], axis=0))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--into", type=Path, default=Path("play-out"))
    parser.add_argument("-m", "--model", default="tiny")
    parser.add_argument("--judge", choices=("resemblyzer", "own"), default="resemblyzer")
    given = parser.parse_args()
    folder = given.into
    folder.mkdir(parents=True, exist_ok=True)
    lines = write_play(folder)
    tts = omnitts.load(given.model)
    write_cast(tts, folder)
    began = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "omnitts_cli", "say", "-m", given.model, "-f", str(folder / "play.txt"), "--cast",
         str(folder / "cast.json"), "-o", str(folder / "play.wav"), "--subs", str(folder / "play.json"), "--work",
         str(folder / "work"), "--json", "--progress", "none"], stdout=subprocess.PIPE, check=True,
    )  # fmt: skip
    result = json.loads(done.stdout.splitlines()[-1])
    wall = time.perf_counter() - began
    rows = json.loads((folder / "play.json").read_text())["sentences"]
    in_order = [row["text"] for row in rows] == [words for _, words in lines]
    sound, rate = soundfile.read(folder / "play.wav", dtype="float32")
    encode = judge(given.judge, tts)
    known = references(tts, folder, encode)
    table = np.stack([known[name] for name in NAMES])
    own: dict[str, list[float]] = {name: [] for name in NAMES}
    other: list[float] = []
    right: dict[str, list[bool]] = {name: [] for name in NAMES}
    for (name, _), row in zip(lines, rows, strict=True):
        scores = table @ encode(sound[round(row["start"] * rate) : round(row["end"] * rate)], rate)
        at = NAMES.index(name)
        own[name].append(float(scores[at]))
        other.append(float(np.delete(scores, at).max()))
        right[name].append(int(scores.argmax()) == at)
    print(json.dumps({
        "lines": len(lines), "in_order": in_order, "audio_s": result["audio_s"], "wall_s": round(wall, 1),
        "right": {name: f"{sum(found)}/{len(found)}" for name, found in right.items()},
        "cosine": {name: round(float(np.mean(found)), 3) for name, found in own.items()},
        "nearest_other": round(float(np.mean(other)), 3), "judge": given.judge,
        "between": {f"{one} {two}": round(float(known[one] @ known[two]), 3)
                    for at, one in enumerate(NAMES) for two in NAMES[at + 1 :]},
    }, indent=1))  # fmt: skip


if __name__ == "__main__":
    main()
