"""Saved voices: the `.voice` file and the folder of saved voices. Safetensors only; nothing is ever unpickled.

A file holds the speaker embedding and, if there is a transcript, the clip's codes. A voice of our own model also has
the gains that bring its spectrum to the clip's, and keeps its clip, from which a later version of that model can make
the voice again. JSON in the header records the source, the model and the consent. A tuned voice has format 2: with an
adapter, and fields about how it was learned.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omnitts_cli import files
from omnitts_cli.errors import InputError, ModelError, UsageError, VoiceError
from omnitts_cli.parse import ParseError, json_object
from omnitts_cli.weights.header import read_header

if TYPE_CHECKING:  # listing voices must not import numpy
    import numpy as np

    from omnitts_cli.voices import Adapter, Cloned

FORMAT, TUNED_FORMAT = 1, 2
SUFFIX = ".voice"
NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}", re.ASCII)
PORTS = "com1 com2 com3 com4 com5 com6 com7 com8 com9 lpt1 lpt2 lpt3 lpt4 lpt5 lpt6 lpt7 lpt8 lpt9"
RESERVED = {"con", "prn", "aux", "nul", *PORTS.split()}
LARGEST_BYTES = 32 * 2**20
LARGEST_TUNED = 512 * 2**20
WIDEST, LONGEST_FRAMES, MOST_GROUPS = 65_536, 750, 64  # 60 s of frames; clips are cut to 30 s
LARGEST_CLIP = 2**21  # more than 30 s at 24 kHz in 16 bits, even where FLAC saves nothing
LARGEST_HEADER = 256 << 10
BANDS, LOUDEST_GAIN = 21, 40.0  # of the spectrum; dB

TYPES = {"embedding": "F32", "codes": "I64", "clip": "U8", "gains": "F32"}

# Header fields. All are text; all but the first two may be missing.
FIELDS = ("model", "revision", "language", "made", "clip_sha256", "consent", "licence", "source", "mime_type",
          "file_size")  # fmt: skip
TUNED_FIELDS = ("rank", "alpha", "adapter_sha256", "clips", "seconds", "data_sha256", "losses", "verdict")
"""More of them, in the file of a tuned voice: the sums are of the adapter's numbers and of the recordings."""


@dataclass(frozen=True, eq=False)
class SavedVoice:
    """A voice, its name and its header fields (FIELDS)."""

    name: str
    voice: Cloned
    about: dict[str, str] = field(default_factory=dict)
    clip: bytes | None = None  # FLAC
    adapter: Adapter | None = None  # of a tuned voice


_chosen: list[Path] = []


def use_folder(path: str) -> None:
    """Keeps saved voices in this folder instead of the user's, in this process."""
    _chosen[:] = [Path(path).expanduser()]


def folder() -> Path:
    """Where saved voices are."""
    if _chosen:
        return _chosen[0]
    import platformdirs

    return Path(platformdirs.user_data_dir("omnitts", appauthor=False)) / "voices"


def check_name(name: str) -> str:
    """Checks that a name is a valid file name on every system, and not a path."""
    if not NAME.fullmatch(name) or name.split(".")[0] in RESERVED or name.endswith("."):
        raise UsageError(
            f"'{name[:80]}' is not a valid voice name",
            hint="use lower-case letters, digits, dots and dashes; begin with a letter or digit; at most 64",
        )
    return name


def names() -> list[str]:
    """The saved voices."""
    found = (path.stem for path in folder().glob(f"*{SUFFIX}") if path.is_file())
    return sorted(name for name in found if NAME.fullmatch(name))


def find(name: str, also: Sequence[str] = ()) -> Path:
    """The file of a saved voice; `also` are other names for suggestions."""
    path = folder() / f"{check_name(name)}{SUFFIX}"
    if not path.is_file():
        close = difflib.get_close_matches(name, [*names(), *also], 1)
        hint = f"did you mean '{close[0]}'? All voices: omnitts voices list" if close else "omnitts voices list"
        raise VoiceError(f"voice '{name}' not found", hint=hint)
    return path


def load(name: str) -> SavedVoice:
    """The saved voice of this name."""
    return read(find(name))


def save(voice: SavedVoice, *, replace: bool = False) -> Path:
    """Saves a voice under its name."""
    from omnitts_cli.audio.outlet import make_folder

    path = folder() / f"{check_name(voice.name)}{SUFFIX}"
    make_folder(path.parent, "XDG_DATA_HOME=DIR   keeps voices elsewhere")
    try:
        write(voice, path, new=not replace)
    except FileExistsError:
        raise exists(voice.name) from None
    return path


def check_free(name: str) -> None:
    """Checks that a voice can be saved under a name, before anything is loaded."""
    if check_name(name) in names():
        raise exists(name)


def exists(name: str) -> InputError:
    """The error for a name that is taken."""
    return InputError(f"voice '{name}' already exists", hint=f"omnitts voices rm {name}   or choose another name")


def to_bytes(voice: SavedVoice) -> bytes:
    """The bytes of its voice file."""
    import numpy as np
    from safetensors.numpy import save as packed

    tensors = {"embedding": np.ascontiguousarray(voice.voice.embedding, np.float32)}
    if voice.voice.codes is not None:
        tensors["codes"] = np.ascontiguousarray(voice.voice.codes, np.int64)
    if voice.voice.gains is not None:
        tensors["gains"] = np.ascontiguousarray(voice.voice.gains, np.float32)
    if voice.clip is not None and len(voice.clip) <= LARGEST_CLIP:
        tensors["clip"] = np.frombuffer(voice.clip, np.uint8)
    tuned = voice.adapter is not None
    about = {"format": TUNED_FORMAT if tuned else FORMAT, "name": voice.name, **voice.about}
    if voice.voice.transcript is not None:
        about["transcript"] = voice.voice.transcript
    if voice.adapter is not None:
        return tuned_bytes(voice.adapter, tensors, about)
    return packed(tensors, {"voice": json.dumps(about, ensure_ascii=False)})


def adapter_files() -> Any:
    """The module for adapters in files, which imports numpy."""
    from omnitts_cli.speech import adapters

    return adapters


def tuned_bytes(adapter: Adapter, tensors: Mapping[str, np.ndarray], about: dict[str, Any]) -> bytes:
    """The bytes of the file of a tuned voice."""
    adapters = adapter_files()
    adapter = adapters.rounded(adapter)
    rank, scale = adapters.rank_and_scale(adapter)
    about |= {"rank": str(rank), "alpha": adapters.alpha_of(rank, scale), "adapter_sha256": adapter.sha256}
    plain = {name: (TYPES[name], values) for name, values in tensors.items()}
    header = {"voice": json.dumps(about, ensure_ascii=False)}
    return adapters.safetensors_of(plain | adapters.packed(adapter), header)


def write(voice: SavedVoice, path: Path, *, new: bool = False) -> None:
    """Writes the file, completely or not at all. `new`: FileExistsError if the name is taken by then."""
    from omnitts_cli.audio.target import put

    put(path, to_bytes(voice), new=new)


def read(path: Path) -> SavedVoice:
    """The voice in a file, or an InputError that says what is wrong with it."""
    check_file(path)
    try:
        if format_of(path) == TUNED_FORMAT:
            return read_tuned(path)
        if (size := path.stat().st_size) > LARGEST_BYTES:
            raise wrong(path, f"it has {size:,} bytes")
        return of_bytes(files.read(path, LARGEST_BYTES), path)
    except OSError as error:
        raise wrong(path, str(error)) from None


def of_bytes(data: bytes, path: Path = Path("voice")) -> SavedVoice:
    """The voice in the bytes of a voice file; `path` is its name in messages."""
    from safetensors import SafetensorError
    from safetensors.numpy import load as unpacked

    if not 8 < len(data) <= LARGEST_BYTES:
        raise wrong(path, f"it has {len(data):,} bytes")
    try:
        about, _ = header_of(data, path)
        tensors = unpacked(data)
    except (SafetensorError, ValueError, TypeError, KeyError, AttributeError, MemoryError) as error:
        raise wrong(path, str(error) or "its header is damaged") from None
    voice = as_voice(path, tensors, about.pop("transcript", None))
    clip = tensors["clip"].tobytes() if "clip" in tensors else None
    return SavedVoice(about.pop("name", path.stem), voice, about, clip)


def format_of(path: Path) -> object:
    """The format that the header of a file names; None where it does not."""
    with path.open("rb") as file:
        data = file.read(8 + LARGEST_HEADER)
    try:
        header = json_object(data[8 : 8 + int.from_bytes(data[:8], "little")])
        return json_object(header["__metadata__"]["voice"])["format"]
    except (ParseError, LookupError, TypeError):
        return None


def read_tuned(path: Path) -> SavedVoice:
    """A tuned voice. Everything in the header is checked before a tensor is read."""
    import numpy as np

    adapters = adapter_files()
    try:
        header = read_header(path)
        about = parsed(path, header.metadata.get("voice"), (TUNED_FORMAT,))
        plain = {name: one for name, one in header.tensors.items() if not name.startswith(adapters.PREFIX)}
        check_shapes(path, {name: list(one.shape) for name, one in plain.items()})
        if any(one.dtype != TYPES[name] for name, one in plain.items()):
            raise wrong(path, "its embedding, codes or clip have another type")
        pairs = adapters.checked(adapters.named(header.tensors.items()))
        scale = adapters.checked_scale(float(about["alpha"]) / int(about["rank"]))
        adapter = adapters.read(header, pairs, dict.fromkeys(pairs, scale))
    except (adapters.Misfit, ModelError, LookupError, ValueError, ZeroDivisionError) as error:
        why = error.cause or error.message if isinstance(error, ModelError) else str(error)
        raise wrong(path, why) from None
    if adapter.sha256 != about.get("adapter_sha256"):
        raise wrong(path, "the numbers of its adapter do not have the sum that its header names")
    kinds = {"F32": np.float32, "I64": np.int64, "U8": np.uint8}
    tensors = {name: np.frombuffer(adapters.data_of(header, one), kinds[one.dtype]).reshape(one.shape)
               for name, one in plain.items()}  # fmt: skip
    voice = as_voice(path, tensors, about.pop("transcript", None))
    clip = tensors["clip"].tobytes() if "clip" in tensors else None
    return SavedVoice(about.pop("name", path.stem), voice, about, clip, adapter)


def header_of(data: bytes, path: Path, formats: Sequence[int] = (FORMAT,)) -> tuple[dict[str, str], int]:
    """The fields in the beginning of a voice file with the transcript, and the length of the embedding; its shapes are
    checked."""
    length = int.from_bytes(data[:8], "little")
    if length > LARGEST_HEADER:
        raise wrong(path, f"its header has {length:,} bytes")
    header = json_object(data[8 : 8 + length])
    about = parsed(path, header.pop("__metadata__", {}).get("voice"), formats)
    tuned = "adapter_sha256" in about
    shapes = {name: tensor["shape"] for name, tensor in header.items() if not (tuned and name.startswith("lora."))}
    check_shapes(path, shapes)
    return about, shapes["embedding"][0]


def about(path: Path) -> dict[str, str]:
    """The fields of a voice file, its transcript and the length of its embedding, without its tensors: for lists."""
    try:
        with path.open("rb") as file:
            found, length = header_of(file.read(8 + LARGEST_HEADER), path, (FORMAT, TUNED_FORMAT))
            return {**found, "embedding_dim": str(length)}
    except OSError as error:
        raise wrong(path, str(error)) from None
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise wrong(path, str(error) or "its header is damaged") from None


def check_file(path: Path) -> None:
    """Raise InputError for what cannot be a voice file."""
    if not path.exists():
        near = difflib.get_close_matches(path.name, [one.name for one in path.parent.glob(f"*{SUFFIX}")], 1)
        hint = f"did you mean {path.with_name(near[0])}?" if near else f"-v {path.stem}   if you mean the saved voice"
        known = near or path.stem in names()
        raise InputError(f"voice file {path} does not exist", hint=hint if known else "check the path")
    if not path.is_file():
        raise InputError(f"voice file {path} is not a regular file", hint="check the path")
    if not 8 < path.stat().st_size <= LARGEST_TUNED:
        raise wrong(path, f"it has {path.stat().st_size:,} bytes")


def parsed(path: Path, text: str | None, formats: Sequence[int]) -> dict[str, str]:
    """The header fields, checked."""
    try:
        about = json_object(text or "")
    except ParseError:
        raise wrong(path, "its header does not describe a voice") from None
    number = about.pop("format", None)
    if number not in formats:
        raise wrong(path, f"its format is not {' or '.join(map(str, formats))}")
    known = {"name", "transcript", *FIELDS, *(TUNED_FIELDS if number == TUNED_FORMAT else ())}
    if set(about) - known or not all(isinstance(value, str) for value in about.values()):
        raise wrong(path, "its header has unknown fields")
    return about


def check_shapes(path: Path, shapes: dict[str, list[int]]) -> None:
    """Refuses bad shapes before anything is allocated."""
    if not {"embedding"} <= set(shapes) <= {*TYPES}:
        raise wrong(path, "it does not hold an embedding, or holds something else")
    if len(shapes["embedding"]) != 1 or not 0 < shapes["embedding"][0] <= WIDEST:
        raise wrong(path, f"its embedding has shape {shapes['embedding']}")
    codes = shapes.get("codes", [1, 1])
    if len(codes) != 2 or not (0 < codes[0] <= LONGEST_FRAMES and 0 < codes[1] <= MOST_GROUPS):
        raise wrong(path, f"its codes have shape {codes}")
    if shapes.get("gains", [BANDS]) != [BANDS]:
        raise wrong(path, f"its gains have shape {shapes['gains']}")
    clip = shapes.get("clip", [1])
    if len(clip) != 1 or not 0 < clip[0] <= LARGEST_CLIP:
        raise wrong(path, f"its clip has shape {clip}")


def as_voice(path: Path, tensors: dict[str, np.ndarray], transcript: str | None) -> Cloned:
    """The tensors of a voice file as a voice."""
    import numpy as np

    from omnitts_cli.voices import Cloned

    embedding, codes = tensors["embedding"], tensors.get("codes")
    if embedding.dtype != np.float32 or not np.isfinite(embedding).all():
        raise wrong(path, "its embedding is not finite float32")
    if codes is not None and (codes.dtype != np.int64 or codes.min() < 0):
        raise wrong(path, "its codes are not frames of int64")
    if "clip" in tensors and tensors["clip"].dtype != np.uint8:
        raise wrong(path, "its clip does not consist of bytes")
    if (codes is None) != (transcript is None):
        raise wrong(path, "it has codes without a transcript, or the reverse")
    gains = tensors.get("gains")
    if gains is not None and (gains.dtype != np.float32 or not (np.abs(gains) <= LOUDEST_GAIN).all()):
        raise wrong(path, f"its gains are not float32 of at most {LOUDEST_GAIN:g} dB")
    return Cloned(embedding, codes, transcript, gains)


def wrong(path: Path, why: str) -> InputError:
    """The error for a voice file that cannot be used."""
    return InputError(f"cannot use voice file {path}", cause=why[:200], hint="omnitts voices save   makes it again")


def blend(parts: Sequence[tuple[SavedVoice, float]], name: str) -> SavedVoice:
    """Blends voices: the weighted mean of their embeddings. Codes and transcripts cannot be blended."""
    import numpy as np

    from omnitts_cli.voices import Cloned

    if tuned := next((part.name for part, _ in parts if part.adapter is not None), None):
        raise InputError(f"voice '{tuned}' is tuned and cannot be blended", hint="blend voices that were cloned")
    if len(parts) < 2:
        raise InputError("a blend needs at least two voices", hint="omnitts voices blend NAME henry:60 clara:40")
    widths = {part.voice.embedding.size for part, _ in parts}
    models = {part.about.get("model", "") for part, _ in parts}
    if len(widths) > 1 or len(models) > 1:
        raise InputError("voices of different models cannot be blended", cause=", ".join(sorted(models)))
    sums = {part.about["revision"]: part.name for part, _ in parts if "revision" in part.about}
    if len(sums) > 1:
        cause = ", ".join(f"{part}: {total[:12]}…" for total, part in sums.items())
        hint = "omnitts voices renew NAME   makes a voice again for the version that is installed"
        raise InputError("voices of different versions of a model cannot be blended", cause=cause, hint=hint)
    total = sum(weight for _, weight in parts)
    vector = sum(part.voice.embedding * np.float32(weight / total) for part, weight in parts)
    filtered = [part.voice.gains * np.float32(weight / total) for part, weight in parts if part.voice.gains is not None]
    gains = np.asarray(sum(filtered), np.float32) if filtered else None
    source = " ".join(f"{part.name}:{weight:g}" for part, weight in parts)
    about = {key: value for key, value in parts[0][0].about.items() if key in ("model", "revision", "language")}
    return SavedVoice(
        name, Cloned(np.asarray(vector, np.float32), gains=gains), {**about, "source": f"blend of {source}"}
    )


def is_blend(name: str) -> bool:
    """Whether a name describes a blend of voices."""
    return ":" in name or "," in name


def load_parts(
    parts: Sequence[tuple[str, float]], own: Callable[[str], SavedVoice | None] = lambda name: None
) -> list[tuple[SavedVoice, float]]:
    """The voices of a blend: saved ones, or the model's own, which `own` looks up."""
    saved, found = names(), []
    for name, weight in parts:
        voice = load(name) if name in saved else own(name)
        if voice is None:
            close = difflib.get_close_matches(name, saved, 1)
            raise VoiceError(
                f"voice '{name[:80]}' cannot be blended: not a saved voice, nor one of a model that clones",
                cause="saved: " + (", ".join(saved) or "none"),
                hint=f"did you mean '{close[0]}'?" if close else "omnitts voices list",
            )
        found.append((voice, weight))
    return found


def model_of(about: Mapping[str, str], name: str) -> str | None:
    """The model that a voice was made with, if it may be opened for it.

    A voice file may come from anyone, so it never causes a download, except of a released model.
    """
    model = about.get("model")
    if not model or not model.startswith("hf:"):
        return model
    from omnitts_cli.weights.find import here
    from omnitts_cli.weights.names import HubName

    if isinstance(here(model), HubName):
        raise VoiceError(
            f"voice '{name}' needs the model {model[:120]}, which is not on this machine",
            cause="a voice file may come from anyone, so it cannot start a download",
            hint=f"-m {model[:120]}   if you trust it",
        )
    return model


def parse_blend(text: str) -> list[tuple[str, float]]:
    """`a:60,b:40` as names and weights."""
    parts, items = [], text.replace(",", " ").split()
    for item in items:
        name, colon, weight = item.rpartition(":")
        number = re.fullmatch(r"\d{1,6}(\.\d{1,6})?", weight, re.ASCII)
        if not colon or not number or float(weight) <= 0:
            halves = ",".join(f"{one.partition(':')[0]}:50" for one in items[:2])
            raise UsageError(f"'{item[:80]}' is not NAME:WEIGHT with a weight above 0", hint=halves[:80])
        parts.append((name, float(weight)))
    return parts
