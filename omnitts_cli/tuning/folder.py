"""The folder of a run: where it is, the picture of its curves, and its removal."""

import shutil
from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from omnitts_cli import files
from omnitts_cli.audio.target import put
from omnitts_cli.errors import InputError, UsageError
from omnitts_cli.fleet.disk import LOCK, Lock
from omnitts_cli.parse import ParseError, json_object
from omnitts_cli.speech import voice_files
from omnitts_cli.tuning.picture import Panel, svg

CURVES, PICTURE, CARD, TRANSCRIPTS = "curves.jsonl", "curves.svg", "README.md", "transcripts.json"
PREPARED, UNPACKED = "prepared", "unpacked"
FOLDERS = (PREPARED, UNPACKED, "samples", "epochs", "model", "tensorboard")
MARKS = (CURVES, TRANSCRIPTS, PREPARED, UNPACKED)
"""One of them is in the folder of every run."""
MOST_CURVES = 64 << 20  # bytes


def runs() -> Path:
    """Where runs are kept."""
    return voice_files.folder().parent / "tune"


def is_run(folder: Path) -> bool:
    """Whether a run has kept something there."""
    return any((folder / name).exists() for name in MARKS)


def check_own(folder: Path) -> None:
    """Raises InputError if the folder has files, but not of a run: they could be lost."""
    others = [path for path in folder.iterdir() if path.name != LOCK] if folder.is_dir() else []
    if others and not is_run(folder):  # a run that ended before it kept anything leaves its lock
        raise InputError(f"{folder} has other files", hint="-O a new folder, which the run has for itself")


def removed(place: str) -> Path:
    """Removes a run, which is the name of a voice or a folder, and returns its folder. What is not of the run stays."""
    folder = Path(place) if Path(place).is_dir() else runs() / voice_files.check_name(place)
    if not is_run(folder):
        raise InputError(f"{folder} is not the folder of a run", hint=f"runs are in {runs()}")
    lock = Lock(folder, str(folder))
    try:
        for name in FOLDERS:
            if not (folder / name).is_symlink():
                shutil.rmtree(folder / name, ignore_errors=True)
        for path in [*(folder / name for name in (CURVES, PICTURE, CARD, TRANSCRIPTS)), *folder.glob("state.*")]:
            path.unlink(missing_ok=True)
    finally:
        lock.release()
    (folder / LOCK).unlink(missing_ok=True)
    if not any(folder.iterdir()):
        folder.rmdir()
    return folder


def read_curves(path: Path) -> list[dict[str, Any]]:
    """The lines of the journal; those that were cut off by a kill are left out."""
    found = []
    for line in files.read(path, MOST_CURVES).decode("utf-8", "replace").splitlines():
        try:
            found.append(dict(json_object(line)))
        except ParseError:
            continue
    return found


def draw(folder: Path) -> None:
    """Draws the losses of each step and those on the held-out clips beside the journal."""
    try:
        lines = read_curves(folder / CURVES)
    except OSError:
        return
    steps, held = points(lines)
    if len(steps) + len(held) > 1:
        put(folder / PICTURE, svg([Panel("", "steps", {"steps": steps, "held-out clips": held})]).encode())


def check_tensorboard() -> None:
    """Raises UsageError where TensorBoard is not installed."""
    if find_spec("tensorboard") is None:
        raise UsageError("--tensorboard needs tensorboard, which is not installed", hint="pip install tensorboard")


def write_events(folder: Path) -> None:
    """Both curves for TensorBoard, written anew: a run that was killed has made some steps twice."""
    from torch.utils.tensorboard.writer import SummaryWriter

    target = folder / "tensorboard"
    shutil.rmtree(target, ignore_errors=True)
    steps, held = points(read_curves(folder / CURVES))
    with SummaryWriter(str(target)) as writer:
        for name, curve in (("steps", steps), ("held-out", held)):
            for step, loss in curve:
                writer.add_scalar(f"loss/{name}", loss, int(step))


def points(lines: Iterable[Mapping[str, Any]]) -> tuple[list[tuple[float, float]], list[tuple[float, float]]]:
    """(step, loss) of the steps, and of the held-out clips. Of a step that was made twice, the last one."""
    steps, held, at = dict[float, float](), dict[float, float](), 0.0
    for line in lines:
        if "first" in line and "rest" in line and "step" in line:
            at = float(line["step"])
            steps[at] = float(line["first"]) + 0.3 * float(line["rest"])
        elif "held" in line:
            held[0.0 if not line.get("epoch") else at] = float(line["held"])
    return sorted(steps.items()), sorted(held.items())
