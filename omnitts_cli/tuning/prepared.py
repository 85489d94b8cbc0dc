"""What is learned from: the codes of each clip, and the vector of its speaker.

Clips are encoded one by one, as the last frame of a clip depends on its padding. A folder keeps the results, named
after the samples and the model that encoded them: a second run encodes nothing.
"""

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from omnitts_cli import files
from omnitts_cli.audio.outlet import make_folder
from omnitts_cli.audio.target import put
from omnitts_cli.models.roles import Cloner
from omnitts_cli.tuning.recordings import SpokenClip, mended

LARGEST = 4 << 20  # bytes of a kept clip


@dataclass(frozen=True, eq=False)
class PreparedClip:
    """A clip as codes. The copies are the same speech, delayed by parts of a frame: other codes for the same words."""

    text: str
    copies: tuple[np.ndarray, ...]  # [T, G] each
    vector: np.ndarray  # [H]
    seconds: float
    speaker: str = ""  # where there are several


def prepare(
    clips: Iterable[SpokenClip],
    level: float,
    cloner: Cloner,
    frame: int,
    copies: int,
    folder: Path,
    model_sum: str,
    look: Callable[[int], None],
) -> list[PreparedClip]:
    """`frame`: samples per frame. `look` is called with the number of clips that are ready."""
    make_folder(folder, private=True)
    found = []
    for number, clip in enumerate(clips):
        look(number)
        key = hashlib.sha256(f"{model_sum} {clip.digest} {clip.begin} {clip.end} {level:.1f} {copies}".encode())
        path = folder / f"{key.hexdigest()[:32]}.safetensors"
        tensors = kept(path)
        if tensors is None:
            sound = mended(clip, level)
            tensors = {"vector": cloner.embedding(sound)}
            for copy in range(copies + 1):
                delayed = np.pad(sound, (copy * frame // (copies + 1), 0))
                tensors[f"codes.{copy}"] = cloner.codes(delayed).astype(np.int16)
            put(path, save(tensors), private=True)
        codes = tuple(tensors[f"codes.{copy}"].astype(np.int64) for copy in range(copies + 1))
        found.append(PreparedClip(clip.text, codes, tensors["vector"], clip.seconds, clip.speaker))
    return found


def kept(path: Path) -> dict[str, np.ndarray] | None:
    """The tensors of a kept clip; None if there are none that can be used."""
    try:
        return dict(load(files.read(path, LARGEST)))
    except (OSError, SafetensorError, ValueError):
        return None
