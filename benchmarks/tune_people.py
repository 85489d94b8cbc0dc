"""A folder of a person's recordings with every defect that `omnitts tune` looks for, from prompts of Asterisk.

    python benchmarks/tune_people.py SOUNDS TEXTS OTHER.g722 OUT
    omnitts tune OUT --name allison --transcribe --dry-run --json

SOUNDS: en_US_f_Allison of Debian's asterisk-core-sounds-en-g722 (Allison Smith, CC BY-SA 3.0, 16 kHz), with the .wav
files of asterisk-core-sounds-en-wav (8 kHz) beside them. TEXTS: core-sounds-en.txt of the same source package.
OTHER: a prompt of another person, as of asterisk-core-sounds-it-g722. It prints what it made. PyAV decodes G.722.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import soundfile

RATE = 16_000
SECONDS = 330.0  # of clips without a defect
SHORTEST_S, LONGEST_S = 1.6, 15.0


Prompt = tuple[np.ndarray, str, str]
"""Sound, words, name."""
One, Several = Callable[[], Prompt], Callable[[float], list[Prompt]]


def decoded(path: Path) -> np.ndarray:
    import av

    with av.open(str(path), format="g722") as file:
        parts = [frame.to_ndarray().ravel() for frame in file.decode(audio=0)]
    return np.concatenate(parts).astype(np.float32) / 32768


def texts_of(path: Path) -> dict[str, str]:
    """What each prompt says. Sounds and fragments are left out."""
    found = {}
    for line in path.read_text().splitlines():
        name, _, text = line.partition(":")
        if not line.startswith(";") and text.strip() and not set("[]<>()#*") & set(text):
            found[name.removesuffix(".wav")] = text.replace("...", "").strip()
    return found


class Folder:
    """Writes clips with their texts."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir(parents=True)

    def add(self, name: str, sound: np.ndarray, text: str | bytes | None, rate: int = RATE) -> None:
        soundfile.write(self.path / f"{name}.wav", sound, rate, subtype="PCM_16")
        if text is not None:
            data = text.encode() if isinstance(text, str) else text
            (self.path / f"{name}.txt").write_bytes(data)


def main(sounds: Path, texts: Path, other: Path, out: Path) -> None:
    said, chance, folder = texts_of(texts), np.random.default_rng(0), Folder(out)
    clips = {name: decoded(sounds / f"{name}.g722") for name in said if (sounds / f"{name}.g722").is_file()}
    usable = [name for name, sound in clips.items() if SHORTEST_S <= sound.size / RATE <= LONGEST_S]
    usable = [name for name in usable if 5 <= sum(map(str.isalpha, said[name])) * RATE / clips[name].size <= 22]
    chance.shuffle(usable)
    ends = np.cumsum([clips[name].size / RATE for name in usable])
    good = int(np.searchsorted(ends, SECONDS)) + 1
    for name in usable[:good]:
        folder.add(name.replace("/", "-"), clips[name], said[name])
    spare = iter(usable[good:])

    def one() -> Prompt:
        name = next(spare)
        return clips[name], said[name], name

    def several(least_s: float) -> list[Prompt]:
        found = [one()]
        while sum(sound.size for sound, _, _ in found) < least_s * RATE:
            found.append(one())
        return found

    useless(folder, one, several)
    doubtful(folder, one, several, sounds, other, chance)
    print(json.dumps({"good": good, "seconds": round(float(ends[good - 1]), 1)}))


def useless(folder: Folder, one: One, several: Several) -> None:
    """What is left out."""
    out = folder.path
    sound, text, _ = one()
    folder.add("silent", np.zeros(3 * RATE, np.float32), text)
    folder.add("short", sound[: RATE // 2], text[:5])
    joined = several(25)
    folder.add("long", np.concatenate([one for one, _, _ in joined]), " ".join(text for _, text, _ in joined))
    sound, text, _ = one()
    folder.add("clipped", np.clip(20 * sound, -1, 1), text)
    (out / "damaged.wav").write_bytes(b"RIFF" + bytes(40))
    (out / "damaged.txt").write_text(text)
    for number in range(2):
        folder.add(f"untold{number}", one()[0], None)
    folder.add("empty", one()[0], "  ")
    folder.add("latin", one()[0], "caf\xe9 is not UTF-8".encode("latin-1"))
    sound, text, _ = one()
    folder.add("misfit", sound, f"{text} " * 8)
    folder.add("other-words", *exchanged(one(), one()))
    sound, text, _ = one()
    folder.add("some-words", sound, wrongly(text))
    sound, text, _ = one()
    for number in range(2):
        folder.add(f"again{number}", sound, f"{text} {'and' * number}".strip())
    for number in range(5):
        folder.add(f"same{number}", sound * (0.9 - 0.1 * number), text)


def doubtful(
    folder: Folder, one: One, several: Several, sounds: Path, other: Path, chance: np.random.Generator
) -> None:  # fmt: skip
    """What is mended, or used with a warning."""
    sound, text, _ = one()
    folder.add("stereo", np.repeat(np.stack([sound, sound * 0.8], 1), 3, 0), text, 48_000)
    _, text, name = one()
    while not (sounds / f"{name}.wav").is_file():
        _, text, name = one()
    folder.add("telephone", *soundfile.read(sounds / f"{name}.wav", dtype="float32")[:1], text, 8000)
    sound, text, _ = one()
    level = float(np.sqrt(np.mean(np.square(sound))))
    folder.add("noisy", sound + 0.5 * level * chance.standard_normal(sound.size).astype(np.float32), text)
    first, second = one(), one()
    pause = np.zeros(5 * RATE // 2, np.float32)
    folder.add("pause", np.concatenate([first[0], pause, second[0]]), f"{first[1]} {second[1]}")
    sound, text, _ = one()
    folder.add("quiet", 0.05 * sound, text)
    sound, text, _ = one()
    folder.add("edges", np.pad(sound, (2 * RATE, 3 * RATE)), text)
    folder.add("somebody", decoded(other)[: 4 * RATE], None)
    joined, at, lines = several(30), 0.0, ["WEBVTT", ""]
    for sound, text, _ in joined:
        lines += [f"{clock(at)} --> {clock(at + sound.size / RATE)}", text, ""]
        at += sound.size / RATE
    folder.add("subtitled", np.concatenate([one for one, _, _ in joined]), None)
    (folder.path / "subtitled.vtt").write_text("\n".join(lines))


def exchanged(one: Prompt, other: Prompt) -> tuple[np.ndarray, str]:
    """A clip with words of its own length from elsewhere."""
    words = (other[1].split() * 20)[: len(one[1].split())]
    return one[0], " ".join(words)


def wrongly(text: str) -> str:
    """The text with a third of its words exchanged."""
    return " ".join("marble" if number % 3 == 1 else word for number, word in enumerate(text.split()))


def clock(seconds: float) -> str:
    return f"00:{int(seconds) // 60:02}:{seconds % 60:06.3f}"


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
