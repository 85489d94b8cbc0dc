"""Adapters in files: the tensors of a tuned voice, and folders in the format of PEFT. Every file is hostile input.

Names, types and shapes are checked from the header, before memory is taken for a tensor. A voice file keeps an adapter
in bfloat16.
"""

import json
import math
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from omnitts_cli import files
from omnitts_cli.audio.outlet import make_folder
from omnitts_cli.audio.target import put
from omnitts_cli.errors import InputError, ModelError
from omnitts_cli.parse import json_object
from omnitts_cli.voices import Adapter, Pair
from omnitts_cli.weights.header import Header, TensorEntry, read_header, shown

PREFIX = "lora."  # of the tensors in a voice file
MODULE = re.compile(r"talker\.[a-z0-9_]+(\.[a-z0-9_]+){0,15}", re.ASCII)
HIGHEST_RANK, WIDEST, MOST_PAIRS = 256, 65_536, 4096
LARGEST_SCALE = 1e4
KINDS = {"BF16": "<u2", "F16": "<f2", "F32": "<f4"}
PEFT_CONFIG, PEFT_WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
PEFT_VECTOR = "speaker_embedding.safetensors"
VECTOR = "target_speaker_embedding"
PLAIN: dict[str, tuple[Any, ...]] = {
    "peft_type": ("LORA",), "use_dora": (False, None), "bias": ("none", None), "lora_bias": (False, None),
    "fan_in_fan_out": (False, None), "modules_to_save": (None, []), "layer_replication": (None, []),
    "use_qalora": (False, None), "megatron_config": (None,), "trainable_token_indices": (None,),
    "target_parameters": (None, []),
}  # fmt: skip
"""Values of adapter_config.json that mean plain LoRA. With any other value, B A alone would not be the adapter."""


CARD = """\
An adapter that teaches a text-to-speech model the voice of a person. Speech made with it is synthetic: say so where it
is heard, and use it only as the person has agreed to."""


class Misfit(Exception):
    """What is wrong with an adapter."""


def rounded(adapter: Adapter) -> Adapter:
    """The adapter as a voice file keeps it: one scale for all pairs, numbers in bfloat16."""
    rank, scale = rank_and_scale(adapter)
    scale = float(alpha_of(rank, scale)) / rank  # as it is read back
    pairs = {}
    for name, pair in adapter.pairs.items():
        b = pair.b * np.float32(pair.scale / scale)
        pairs[name] = Pair(from_bf16(to_bf16(pair.a)), from_bf16(to_bf16(b)), scale)
    return Adapter(pairs)


def rank_and_scale(adapter: Adapter) -> tuple[int, float]:
    """The largest rank, and the scale of the first pair."""
    pairs = list(adapter.pairs.values())
    return max(len(pair.a) for pair in pairs), pairs[0].scale


def alpha_of(rank: int, scale: float) -> str:
    """alpha in the header of a voice file."""
    return f"{scale * rank:.9g}"


def to_bf16(values: np.ndarray) -> np.ndarray:
    """Rounded to even, as uint16."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    return ((bits + np.uint32(0x7FFF) + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def from_bf16(bits: np.ndarray) -> np.ndarray:
    """Returns float32."""
    return (bits.astype(np.uint32) << 16).view(np.float32)


def packed(adapter: Adapter) -> dict[str, tuple[str, np.ndarray]]:
    """The tensors of a voice file: type and bits by name. The adapter is a rounded one."""
    made = {}
    for name, pair in adapter.pairs.items():
        made[f"{PREFIX}{name}.lora_A"] = ("BF16", to_bf16(pair.a))
        made[f"{PREFIX}{name}.lora_B"] = ("BF16", to_bf16(pair.b))
    return made


def safetensors_of(tensors: Mapping[str, tuple[str, np.ndarray]], metadata: Mapping[str, str]) -> bytes:
    """The bytes of a safetensors file; the library's own writer for NumPy has no bfloat16."""
    header: dict[str, Any] = {"__metadata__": dict(metadata)}
    at = 0
    for name, (kind, values) in tensors.items():
        header[name] = {"dtype": kind, "shape": list(values.shape), "data_offsets": [at, at + values.nbytes]}
        at += values.nbytes
    head = json.dumps(header, ensure_ascii=False).encode()
    head += b" " * (-len(head) % 8)
    data = [np.ascontiguousarray(values).tobytes() for _, values in tensors.values()]
    return b"".join([len(head).to_bytes(8, "little"), head, *data])


# ---- reading


def checked(entries: Mapping[str, TensorEntry]) -> dict[str, tuple[TensorEntry, TensorEntry]]:
    """The A and B of each module, from names such as MODULE.lora_A. Raises Misfit."""
    if not entries:
        raise Misfit("it has no tensors of an adapter")
    if len(entries) > 2 * MOST_PAIRS:
        raise Misfit(f"it has {len(entries):,} tensors; at most {2 * MOST_PAIRS:,} are read")
    found: dict[str, dict[str, TensorEntry]] = {}
    for name, entry in entries.items():
        module, _, part = name.rpartition(".")
        if part not in ("lora_A", "lora_B") or not MODULE.fullmatch(module):
            raise Misfit(f"tensor '{shown(name)}' is not a part of a LoRA adapter of the talker")
        if entry.dtype not in KINDS or len(entry.shape) != 2 or not all(0 < size <= WIDEST for size in entry.shape):
            raise Misfit(f"tensor '{shown(name)}' is {entry.dtype} {list(entry.shape)}")
        found.setdefault(module, {})[part] = entry
    pairs = {}
    for module, parts in found.items():
        if len(parts) != 2:
            raise Misfit(f"of '{shown(module)}' there is only {next(iter(parts))}")
        a, b = parts["lora_A"], parts["lora_B"]
        if a.shape[0] != b.shape[1] or a.shape[0] > HIGHEST_RANK:
            raise Misfit(
                f"'{shown(module)}' has the ranks {a.shape[0]} and {b.shape[1]}; at most {HIGHEST_RANK}, equal"
            )
        pairs[module] = (a, b)
    return pairs


def read(header: Header, pairs: Mapping[str, tuple[TensorEntry, TensorEntry]], scales: Mapping[str, float]) -> Adapter:
    """The adapter whose tensors have been checked. Raises Misfit for numbers that cannot be used."""
    made = {}
    for module, parts in pairs.items():
        a, b = (values(header, entry) for entry in parts)
        if not (np.isfinite(a).all() and np.isfinite(b).all()):
            raise Misfit(f"'{shown(module)}' holds numbers that are not finite")
        made[module] = Pair(a, b, checked_scale(scales[module]))
    return Adapter(made)


def checked_scale(scale: float) -> float:
    """Returns the same number, if it can be one. Raises Misfit."""
    if not (math.isfinite(scale) and 0 <= abs(scale) <= LARGEST_SCALE):
        raise Misfit(f"its scale is {scale:g}")
    return float(scale)


def values(header: Header, entry: TensorEntry) -> np.ndarray:
    """A tensor of a file as float32, in its shape."""
    found = np.frombuffer(data_of(header, entry), KINDS[entry.dtype]).reshape(entry.shape)
    return from_bf16(found) if entry.dtype == "BF16" else found.astype(np.float32)


def data_of(header: Header, entry: TensorEntry) -> bytes:
    """The bytes of a tensor."""
    with header.path.open("rb") as file:
        file.seek(entry.begin)
        data = file.read(entry.size_bytes)
    if len(data) < entry.size_bytes:
        raise Misfit("it became shorter while it was read")
    return data


# ---- folders in the format of PEFT


def write_peft(folder: Path, adapter: Adapter, vector: np.ndarray, readme: str) -> None:
    """The adapter, the speaker's vector and a card."""
    make_folder(folder)
    rank, scale = rank_and_scale(adapter)
    others = {name: len(pair.a) for name, pair in adapter.pairs.items() if len(pair.a) != rank}
    config: dict[str, Any] = {
        "peft_type": "LORA", "task_type": None, "base_model_name_or_path": "", "inference_mode": True, "r": rank,
        "lora_alpha": scale * rank, "lora_dropout": 0.0, "bias": "none", "use_rslora": False, "use_dora": False,
        "fan_in_fan_out": False, "modules_to_save": None, "rank_pattern": others,
        "alpha_pattern": {name: scale * one for name, one in others.items()}, "target_modules": sorted(adapter.pairs),
    }  # fmt: skip
    tensors = {}
    for name, pair in adapter.pairs.items():
        tensors[f"base_model.model.{name}.lora_A.weight"] = ("F32", pair.a)
        tensors[f"base_model.model.{name}.lora_B.weight"] = ("F32", pair.b)
    put(folder / PEFT_WEIGHTS, safetensors_of(tensors, {"format": "pt"}))
    put(folder / PEFT_VECTOR, safetensors_of({VECTOR: ("F32", vector.astype(np.float32))}, {"format": "pt"}))
    put(folder / "README.md", readme.encode())
    put(folder / PEFT_CONFIG, (json.dumps(config, indent=2) + "\n").encode())


def card(name: str, about: Mapping[str, str]) -> str:
    """A model card: where the voice comes from. Hubs refuse one that does not name the model."""
    front = {"base_model": about.get("model", ""), "license": about.get("licence", "other"), "library_name": "peft"}
    lines = [
        "---",
        *(f"{key}: {json.dumps(value)}" for key, value in front.items()),
        "tags: [text-to-speech]",
        "---",
        "",
    ]
    lines += [
        f"# {name}",
        "",
        CARD,
        "",
        "| | |",
        "|---|---|",
        *(f"| {key} | {value} |" for key, value in about.items()),
    ]
    return "\n".join(lines) + "\n"


def read_peft(folder: Path) -> tuple[Adapter, np.ndarray]:
    """The adapter and the speaker's vector of a folder; InputError if it cannot be used."""
    try:
        config = json_object(files.read(folder / PEFT_CONFIG, files.LARGE))
        refuse_others(config)
        header = read_header(folder / PEFT_WEIGHTS)
        pairs = checked({module_name(name): entry for name, entry in header.tensors.items()})
        scales = {module: scale_of(config, module, a.shape[0]) for module, (a, _) in pairs.items()}
        return read(header, pairs, scales), vector_of(folder / PEFT_VECTOR)
    except (Misfit, ModelError, OSError, ValueError, RecursionError) as error:
        cause = error.cause or error.message if isinstance(error, ModelError) else str(error)
        raise InputError(
            f"cannot use the adapter in {shown(folder, 400)}", cause=shown(cause, 300),
            hint=f"it needs {PEFT_CONFIG}, {PEFT_WEIGHTS} and {PEFT_VECTOR}",
        ) from None  # fmt: skip


def refuse_others(config: Mapping[str, Any]) -> None:
    """Raises Misfit for what is not plain LoRA."""
    for key, allowed in PLAIN.items():
        if (given := config.get(key, allowed[0])) not in allowed:
            raise Misfit(f"{PEFT_CONFIG}: {key} = {shown(given, 40)} is not plain LoRA")


def module_name(name: str) -> str:
    """The name of a tensor without what PEFT and wrappers put around it. The whole model or its talker was wrapped."""
    name = name.replace(".default.", ".").removesuffix(".weight")
    for prefix in ("base_model.model.", "module."):
        name = name.removeprefix(prefix)
    return name if name.startswith("talker.") else f"talker.{name}"


def scale_of(config: Mapping[str, Any], module: str, rank: int) -> float:
    """alpha / rank, or with rslora alpha / sqrt(rank). A pattern is the end of a module's name, not an expression."""
    patterns: Any = config.get("alpha_pattern") or {}
    if not isinstance(patterns, dict):
        raise Misfit(f"{PEFT_CONFIG}: alpha_pattern is not a table")
    ends = (value for end, value in patterns.items() if f".{module}".endswith(f".{end}"))
    alpha = next(ends, config.get("lora_alpha"))
    if not isinstance(alpha, int | float) or isinstance(alpha, bool):
        raise Misfit(f"{PEFT_CONFIG}: lora_alpha = {shown(alpha, 40)} is not a number")
    return alpha / (math.sqrt(rank) if config.get("use_rslora") else rank)


def vector_of(path: Path) -> np.ndarray:
    """The speaker's vector [H]."""
    header = read_header(path)
    entry = header.tensors.get(VECTOR)
    if entry is None or entry.dtype not in KINDS or len(entry.shape) != 1 or not 0 < entry.shape[0] <= WIDEST:
        raise Misfit(f"{PEFT_VECTOR} has no vector '{VECTOR}'")
    found = values(header, entry)
    if not np.isfinite(found).all():
        raise Misfit(f"{PEFT_VECTOR} holds numbers that are not finite")
    return found


def named(entries: Iterable[tuple[str, TensorEntry]]) -> dict[str, TensorEntry]:
    """The adapter's tensors of a voice file, without the prefix."""
    return {name.removeprefix(PREFIX): entry for name, entry in entries if name.startswith(PREFIX)}
