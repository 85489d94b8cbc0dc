"""Check an untrusted model folder before it is read. Nothing in it is ever executed or unpickled."""

import re
from pathlib import Path

from omnitts_cli.errors import ModelError
from omnitts_cli.weights.header import shown

# Formats that are, or may contain, pickled Python objects.
UNSAFE_SUFFIXES = (".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle", ".npy", ".npz", ".joblib", ".nemo")
SMALL_FILE_LIMIT = 64 * 2**20  # for every file except the weights; the largest real one is 11 MB

_RESERVED = re.compile(r"(con|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³]|conin\$|conout\$)(\..*)?", re.IGNORECASE)
_NOT_ON_WINDOWS = re.compile(r'[<>:"|?*\\\x00-\x1f]|[. ]$')


def check_folder(folder: Path) -> Path:
    """The resolved folder, or a ModelError that says what is wrong with it."""
    try:
        real = folder.expanduser().resolve(strict=True)
        if not real.is_dir():
            raise ModelError(f"model '{shown(folder, 400)}' is not a folder", hint=_LAYOUT)
        entries = [*real.iterdir()]
        codec = real / "speech_tokenizer"
        if codec.is_dir():
            entries += codec.iterdir()
        _check_content(real, {entry.name for entry in entries if entry.parent == real})
        for entry in entries:
            _check_entry(entry, real)
    except ModelError:
        raise
    except (OSError, RuntimeError, ValueError) as error:  # RuntimeError: no home folder; ValueError: a NUL in the name
        raise ModelError(f"model folder '{shown(folder, 400)}' cannot be read", cause=_reason(error)) from None
    return real


_LAYOUT = "a model folder holds config.json, model.safetensors and speech_tokenizer/"


def _reason(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or shown(error)


def _check_entry(entry: Path, folder: Path) -> None:
    name = f"{shown(folder, 400)} holds '{shown(entry.relative_to(folder))}'"
    if _RESERVED.fullmatch(entry.name) or _NOT_ON_WINDOWS.search(entry.name):
        raise ModelError(name, cause="this file name is not allowed on every system", hint="remove or rename it")
    if entry.is_symlink() and not entry.resolve().is_relative_to(_allowed_root(folder)):
        raise ModelError(name, cause="it is a link to a place outside the folder", hint="replace the link by the file")
    if entry.suffix in (".json", ".txt") and entry.is_file() and entry.stat().st_size > SMALL_FILE_LIMIT:
        raise ModelError(name, cause=f"it has {entry.stat().st_size:,} bytes; the limit is {SMALL_FILE_LIMIT:,}")


def _allowed_root(folder: Path) -> Path:
    """Where links may point: inside the folder; in the Hub cache, also to the blobs beside the snapshot."""
    if folder.parent.name == "snapshots" and folder.parent.parent.name.startswith("models--"):
        return folder.parents[2]
    return folder


def _check_content(folder: Path, names: set[str]) -> None:
    if "config.json" in names and any(name.endswith(".safetensors") for name in names):
        return
    unsafe = sorted(name for name in names if name.lower().endswith(UNSAFE_SUFFIXES))
    if unsafe and not any(name.endswith(".safetensors") for name in names):
        raise ModelError(
            f"{shown(folder, 400)} holds its weights as {shown(unsafe[0])}, which can run code when opened",
            hint="only safetensors weights are read: ask the author for model.safetensors",
        )
    missing = "model.safetensors" if "config.json" in names else "config.json"
    raise ModelError(f"{shown(folder, 400)} is not a model folder", cause=f"{missing} is missing", hint=_LAYOUT)
