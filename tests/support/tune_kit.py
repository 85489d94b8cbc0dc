"""The golden data of tuning, and its examples as ours."""

import atexit
import functools
import json
import os
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from golden_set import HERE
from safetensors.torch import load_file
from torch import Tensor
from tune_recipe import PLANS, TEXTS, abridged, adapter, build, scale_of

from omnitts_cli.devices.cpu import CPUDevice
from omnitts_cli.families.common.parts import Language
from omnitts_cli.families.common.tokenizer import read_tokenizer
from omnitts_cli.families.qwen3_tts.config import Config, read_config
from omnitts_cli.families.qwen3_tts.modules import parts
from omnitts_cli.families.qwen3_tts.prompt import Qwen3Prompter
from omnitts_cli.models.prompts import Place
from omnitts_cli.models.sources import Names
from omnitts_cli.request import Request, TextMode
from omnitts_cli.tuning.loss import PaddedBatch, SpokenText
from omnitts_cli.tuning.prepared import PreparedClip
from omnitts_cli.tuning.trainer import Ids, LearningPlan, Trainer
from omnitts_cli.voices import Adapter, Cloned, Pair
from omnitts_cli.weights.checkpoint import Checkpoint
from omnitts_cli.weights.load import fill


@functools.cache
def _folders() -> Path:
    root = Path(tempfile.mkdtemp(prefix="tune-"))
    atexit.register(shutil.rmtree, root, ignore_errors=True)
    return root


@functools.cache
def folder(size: str) -> Path:
    """The checkpoint of a size ("large", "small"), built when first asked for. Do not write into it."""
    return build(size, seed(size), _folders() / size)


def seed(size: str) -> int:
    return int(json.loads((_golden() / f"{size}.json").read_text())["seed"])


def _golden() -> Path:
    """The committed data, or whole tensors of any seed, as `make_tune.py` writes them."""
    return Path(os.environ.get("OMNITTS_TUNE_GOLDEN_DIR") or HERE / "tune")


@dataclass(frozen=True, eq=False)
class Golden:
    """What the official modules compute."""

    tensors: dict[str, Tensor]
    names: list[str]  # of the tensors that are abridged

    @staticmethod
    @functools.cache
    def of(size: str) -> "Golden":
        path = _golden() / f"{size}.json"
        return Golden(load_file(path.with_suffix(".safetensors")), json.loads(path.read_text())["abridged"])

    def error(self, name: str, ours: Tensor) -> float:
        """The largest difference from the tensor `name`, relative to its largest value; of an abridged one to its
        norm. Of weights after steps, the norm of the difference: AdamW moves a number whose gradient is rounding noise
        by a whole step."""
        if name in self.names:
            theirs, mine = self.tensors["abridged"][self.names.index(name)], abridged(name, ours)
            return float((mine - theirs).abs().max() / (theirs[0] or 1.0))
        theirs, mine = self.tensors[name].double(), ours.detach().double()
        assert theirs.shape == mine.shape
        if "after." in name:
            return float((mine - theirs).norm() / theirs.norm())
        return float((mine - theirs).abs().max() / (theirs.abs().max() or 1.0))


@dataclass(frozen=True, eq=False)
class Case:
    """A checkpoint, not prepared for inference, and the examples."""

    language: Language
    names: Names
    config: Config
    folder: Path
    examples: list[SpokenText]

    def batch(self, examples: list[SpokenText] | None = None) -> PaddedBatch:
        return PaddedBatch.of(
            self.examples if examples is None else examples, self.config.text.pad, self.config.control.end
        )


def case(size: str) -> Case:
    """A fresh one: its weights may be changed."""
    config, golden = read_config(folder(size)), Golden.of(size)
    part = parts(config, cloning=False).language
    fill(part.module, part.names, Checkpoint.open(folder(size)), "cpu", torch.float32, unused=part.leftover)
    language = part.module
    assert isinstance(language, Language)
    tokenizer = read_tokenizer(folder(size), config.text_vocabulary)
    prompter = Qwen3Prompter(config, tokenizer, language.text, language.embedder, torch.as_tensor)
    voice = Cloned(golden.tensors["speaker"].numpy())
    drafts = [prompter.draft(Request(text, voice, text_mode="whole")) for text in TEXTS]
    codes = [golden.tensors[f"codes.{n}"].long().numpy() for n in range(len(TEXTS))]
    examples = [SpokenText(*pair) for pair in zip(drafts, codes, strict=True)]
    return Case(language.requires_grad_(False), part.names, config, folder(size), examples)


def golden_adapter(size: str, which: str) -> Adapter:
    """One of the two adapters of a size."""
    names = Checkpoint.open(folder(size)).names()
    plan = PLANS[which]
    made = adapter({n: shape for n, (_, shape) in names.items() if len(shape) == 2}, plan, seed(size) + len(which))
    modules = dict.fromkeys(name.rsplit(".lora_", 1)[0] for name in made)
    return Adapter({
        name: Pair(made[f"{name}.lora_A"].numpy(), made[f"{name}.lora_B"].numpy(), scale_of(plan)) for name in modules
    })  # fmt: skip


def prompter(case: Case, place: Place = torch.as_tensor) -> Qwen3Prompter:
    """Writes prompts for the model of a case."""
    tokenizer = read_tokenizer(case.folder, case.config.text_vocabulary)
    return Qwen3Prompter(case.config, tokenizer, case.language.text, case.language.embedder, place)


def request(case: Case, text: str, mode: TextMode) -> Request:
    """A request in the voice of the case."""
    embedding = case.examples[0].draft.embedding
    assert embedding is not None
    return Request(text, Cloned(embedding), text_mode=mode)


PLAN = LearningPlan(rank=2, alpha=4.0, rate=5e-3, vector_rate=1e-2, epochs=4, step_s=1.5, gain=-1.0, seed=3)


def trainer(
    plan: LearningPlan = PLAN, device: Any = None, half: bool = False, speakers: Sequence[str] = ("",)
) -> Trainer:
    """`half`: the model has bfloat16 weights. The clips are those of the speakers in turn."""
    given, device = case("small"), device or CPUDevice(1)
    given.language.to(device.torch_device)
    if half:
        given.language.bfloat16()
    clips = []
    for number, one in enumerate(given.examples):
        vector = one.draft.embedding
        assert vector is not None
        who = speakers[number % len(speakers)]
        codes = one.codes, np.roll(one.codes, 1, 0)
        clips.append(PreparedClip(TEXTS[number], codes, vector + 0.1 * number, len(one.codes) / 12.5, who))
    ids = Ids(given.config.text.pad, given.config.control.end, "english")
    return Trainer(
        given.language, given.names, prompter(given, device.to_device), ids, [*clips, *clips[:2]], clips[2:], device,
        plan,
    )  # fmt: skip
