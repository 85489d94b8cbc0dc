"""The thinker against the official library; its config, and what is refused."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from golden_set import thinker_case, thinker_folder

from omnitts_cli.errors import ModelError
from omnitts_cli.families.common.tokenizer import read_tokenizer
from omnitts_cli.families.qwen3_omni.released import config as published
from omnitts_cli.families.qwen3_omni.thinker import (
    assemble_thinker,
    made_up_thinker_config,
    read_thinker_config,
    thinker_parts,
)
from omnitts_cli.kernels import plain
from omnitts_cli.models.thinker import TextModel
from omnitts_cli.weights.checkpoint import Checkpoint
from omnitts_cli.weights.load import fill

CASES = ("text", "text_no_system", "text_history", "text_cut", "text_cut_and_one")


def thinker() -> TextModel:
    folder = thinker_folder()
    config = read_thinker_config(folder)
    parts = thinker_parts(config, plain.OPS)
    part = parts.thinker
    fill(part.module, part.names, Checkpoint.open(folder), "cpu", torch.float32, unused=part.leftover)
    return assemble_thinker("thinker", config, parts, read_tokenizer(folder, config.text_vocabulary))


@pytest.mark.parametrize("name", CASES)
@torch.no_grad()
def test_the_last_logits_of_every_question(name: str) -> None:
    golden, model = thinker_case(name), thinker().thinker
    ids, start = torch.tensor([golden.meta["prompt"] + golden.meta["answer"]]), torch.zeros(1, dtype=torch.int64)
    states = model.prefill(model.rows(ids), start, start, model.cache(1, 64), ids.shape[1])
    kept = len(golden.tensors["scores"])
    assert (model.scores(states[0])[-kept:] - golden.tensors["scores"]).abs().max() < 1e-4


def test_the_released_config_has_the_released_size() -> None:
    config = made_up_thinker_config(Path("random:omni-thinker"))
    module = thinker_parts(config).thinker.module
    count = sum(weight.numel() for weight in module.parameters())
    assert count == 30_532_646_912  # the published 31,719,205,488 less ears (647.9 M) and eyes (538.6 M)
    assert config.tokens == 151_676
    assert config.ids.stop == published()["im_end_token_id"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy whose config may be changed."""
    for name in ("config.json", "tokenizer_config.json"):
        shutil.copy(thinker_folder() / name, tmp_path)
    return tmp_path


def changed(folder: Path, change) -> Path:
    config = json.loads((folder / "config.json").read_text())
    change(config)
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def test_a_model_that_only_writes_can_answer(folder: Path) -> None:
    def silent(config: dict) -> None:
        config["enable_audio_output"] = False
        del config["talker_config"], config["code2wav_config"]

    assert read_thinker_config(folder).speaks
    assert not read_thinker_config(changed(folder, silent)).speaks


@pytest.mark.parametrize("change, said", [
    (lambda c: c.pop("thinker_config"), "cannot answer"),
    (lambda c: c["thinker_config"]["text_config"].pop("num_hidden_layers"), "has no thinker"),
    (lambda c: c["thinker_config"]["text_config"].pop("norm_topk_prob"), "norm_topk_prob: is missing"),
    (lambda c: c["thinker_config"]["text_config"].pop("head_dim"), "head_dim: is missing"),
    (lambda c: c.update(im_end_token_id=425), "token 425 is <|im_end|>"),
    (lambda c: c["thinker_config"]["text_config"].update(num_hidden_layers=200, moe_intermediate_size=2**15,
                                                           num_experts=1024), "not a model of this family"),
])  # fmt: skip
def test_configs_that_are_refused(folder: Path, change, said: str) -> None:
    with pytest.raises(ModelError, match=r"config\.json") as refused:
        read_thinker_config(changed(folder, change))
    assert said in refused.value.message


def test_stops_and_control_tokens() -> None:
    model = thinker()
    config = json.loads((thinker_folder() / "config.json").read_text())
    assert model.facts.stops == (config["im_end_token_id"], 422, config["im_start_token_id"])
    assert model.facts.tokens == 432 < model.thinker.shape.vocabulary
