"""The golden reference set: its tiny checkpoints and its cases.

The committed set holds recipes and trimmed cases; both are filled in once per process. A full set, as
`tests/golden/make_golden.py` writes it, takes its place when OMNITTS_GOLDEN_DIR names one. The second family
has a set of its own, from `tests/golden/make_omni.py`, with OMNITTS_OMNI_GOLDEN_DIR for another seed's;
so have questions and answers, from `make_thinker.py`, with OMNITTS_THINKER_GOLDEN_DIR.
"""

import atexit
import functools
import json
import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import omni_recipe
from recipe import build_checkpoint
from safetensors.torch import load_file, save_file
from torch import Tensor
from trim import expand

HERE = Path(__file__).parents[1] / "golden"


@dataclass(frozen=True)
class Case:
    """One golden case: what was asked (`meta`), and what the official package did (`tensors`)."""

    name: str  # "custom_voice/english_nonstream"
    meta: dict[str, Any]
    tensors: dict[str, Tensor]

    def same(self, key: str, whole: Tensor) -> Tensor:
        """The part of `whole` that the set kept of `key`; everything where it was not trimmed."""
        axis, start, stop = self.meta.get("kept", {}).get(key, (0, 0, whole.shape[0]))
        return whole.narrow(axis, start, min(stop, whole.shape[axis]) - start)


@functools.cache
def golden() -> Path:
    """A folder with `cases/<checkpoint>/<case>.{json,safetensors}` and, once asked for, `checkpoints/<name>/`."""
    root = Path(tempfile.mkdtemp(prefix="golden-"))
    atexit.register(shutil.rmtree, root, ignore_errors=True)
    full = os.environ.get("OMNITTS_GOLDEN_DIR")
    if full:
        (root / "cases").symlink_to(Path(full).resolve() / "golden")
        (root / "checkpoints").symlink_to(Path(full).resolve() / "checkpoints")
    else:
        expand(HERE / "cases", root / "cases")
        (root / "checkpoints").mkdir()
    return root


def checkpoint(name: str) -> Path:
    """The folder of a tiny checkpoint in the released layout, built when first asked for. Do not write into it."""
    path = golden() / "checkpoints" / name
    return path if path.exists() else build_checkpoint(HERE / "checkpoints" / name, path)


def case(name: str) -> Case:
    """A case by its name, such as "base/xvector_stream"."""
    return _case(name, golden() / "cases" / name)


def omni_golden() -> Path:
    """`recipe/` and `cases/` of the second family."""
    return Path(os.environ.get("OMNITTS_OMNI_GOLDEN_DIR") or HERE / "omni")


@functools.cache
def omni_folder() -> Path:
    """Its tiny folder in the released layout, weights in numbered parts. Do not write into it."""
    return omni_recipe.build(omni_golden() / "recipe", golden() / "omni")


def omni_case(name: str) -> Case:
    """A case of it by its name, such as "say"."""
    return _case(name, omni_golden() / "cases" / name)


def thinker_golden() -> Path:
    """`recipe/` and `cases/` of the second family whole, with its thinker and ears."""
    return Path(os.environ.get("OMNITTS_THINKER_GOLDEN_DIR") or HERE / "thinker")


@functools.cache
def thinker_folder() -> Path:
    """A tiny folder of everything but eyes. Do not write into it."""
    return omni_recipe.build(thinker_golden() / "recipe", golden() / "thinker")


def thinker_case(name: str) -> Case:
    """A question of it and its answer, by name, such as "text_history"."""
    return _case(name, thinker_golden() / "cases" / name)


def silent_folder(folder: Path) -> Path:
    """A copy of it whose answers are all empty."""
    shutil.copytree(thinker_folder(), folder)
    stop = json.loads((folder / "config.json").read_text())["im_end_token_id"]
    for path in folder.glob("*.safetensors"):
        tensors = load_file(path)
        if "thinker.model.norm.weight" in tensors:
            tensors["thinker.model.norm.weight"].zero_()  # all logits are 0, and the first token wins
            save_file(tensors, path)
    config = json.loads((folder / "config.json").read_text())
    added = json.loads((folder / "tokenizer_config.json").read_text())
    words = added["added_tokens_decoder"]
    words["0"] = {**words.pop(str(stop))}
    config["im_end_token_id"] = 0
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "tokenizer_config.json").write_text(json.dumps(added))
    return folder


def _case(name: str, path: Path) -> Case:
    return Case(name, json.loads(path.with_suffix(".json").read_text()), load_file(path.with_suffix(".safetensors")))
