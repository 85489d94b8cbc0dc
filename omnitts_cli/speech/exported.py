"""A model folder in the released layout that speaks a tuned voice as one of its named voices.

The model's own files stay as they are. Its other voices are kept; the new one takes a free row of the table of group 0.
"""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from omnitts_cli import files
from omnitts_cli.audio.outlet import make_folder
from omnitts_cli.audio.target import put
from omnitts_cli.errors import InputError, OutputError, VoiceError
from omnitts_cli.parse import json_object
from omnitts_cli.voices import Adapter
from omnitts_cli.weights.checkpoint import Checkpoint
from omnitts_cli.weights.merged import MergedCheckpoint

if TYPE_CHECKING:
    from torch import Tensor

FIRST_ROW = 3000  # that the published trainer gives to a new voice
TABLE = "talker.model.codec_embedding.weight"
ENCODER = "speaker_encoder"  # what a model with named voices leaves out
WEIGHTS = "model*.safetensors*"


def write_model(
    base: Path,
    target: Path,
    name: str,
    vector: np.ndarray,
    readme: str,
    adapter: Adapter | None = None,
    learned: "Mapping[str, Tensor] | None" = None,
) -> None:
    """Writes the folder completely or not at all. `adapter`: merged into the weights. `learned`: tensors that replace
    those of the same names."""
    from safetensors.torch import save_file

    if target.exists():
        raise InputError(f"{target} already exists", hint="choose another name")
    config = dict(json_object(files.read(base / "config.json", files.LARGE)))
    stored = Checkpoint.open(base)
    if TABLE not in stored.names():
        raise VoiceError("this model has no table of voices", hint="--format peft")
    row = named_in(config, name.lower())
    source = stored if adapter is None else MergedCheckpoint.of(stored, adapter)
    make_folder(target.parent)
    unfinished = target.with_name(f".{target.name}.new")
    shutil.rmtree(unfinished, ignore_errors=True)
    try:
        shutil.copytree(base, unfinished, ignore=lambda place, names: weights_in(base, Path(place), names))
        tensors = {}
        for called in stored.names():
            if called.startswith(f"{ENCODER}.") and f"{ENCODER}_config" not in config:
                continue
            tensors[called] = source.tensor(called)
            if learned and called in learned:
                tensors[called] = learned[called].to("cpu", tensors[called].dtype).contiguous()
        import torch

        tensors[TABLE][row] = torch.from_numpy(vector.astype(np.float32)).to(tensors[TABLE].dtype)
        save_file(tensors, unfinished / "model.safetensors", metadata={"format": "pt"})
        put(unfinished / "config.json", (json.dumps(config, indent=2) + "\n").encode())
        put(unfinished / "README.md", readme.encode())
        unfinished.rename(target)
    except OSError as error:
        raise OutputError(
            f"cannot write {target}", cause=error.strerror or str(error), hint="free some space"
        ) from None
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def weights_in(base: Path, place: Path, names: list[str]) -> list[str]:
    """What is written anew instead of being copied."""
    return shutil.ignore_patterns(WEIGHTS)(str(place), names) if place == base else []  # type: ignore[return-value]


def named_in(config: dict[str, Any], name: str) -> int:
    """Adds a voice to a config; its row."""
    talker = config["talker_config"] = dict(config["talker_config"])
    known, dialects = dict(talker.get("spk_id") or {}), dict(talker.get("spk_is_dialect") or {})
    if name in {one.lower() for one in known}:
        raise InputError(f"the model has a voice '{name}' already", hint="omnitts voices rename NAME NEW")
    used = {*known.values(), *(talker.get("codec_language_id") or {}).values()}
    used |= {value for key, value in talker.items() if key.endswith("_id") and isinstance(value, int)}
    rows, codes = talker["vocab_size"], talker["code_predictor_config"]["vocab_size"]
    row = next(one for one in (*range(FIRST_ROW, rows), *range(rows - 1, codes - 1, -1)) if one not in used)
    talker["spk_id"], talker["spk_is_dialect"] = known | {name: row}, dialects | {name: False}
    if config.get("tts_model_type") == "base":
        config["tts_model_type"] = "custom_voice"
        config.pop(f"{ENCODER}_config", None)
    return row
