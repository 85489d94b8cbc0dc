"""Config: what is read in either spelling, what was released, and what is refused instead of assumed."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from golden_set import omni_folder
from json_paths import put

from omnitts_cli.errors import ModelError
from omnitts_cli.families.common.fields import Fields
from omnitts_cli.families.qwen3_omni import released
from omnitts_cli.families.qwen3_omni.config import Config, config_of
from omnitts_cli.families.qwen3_omni.family import parts
from omnitts_cli.request import Sampling


@pytest.fixture(scope="module")
def stored() -> dict[str, Any]:
    return json.loads((omni_folder() / "config.json").read_text())


def read(top: dict[str, Any], **generation: Any) -> Config:
    return config_of(Fields(Path("config.json"), top), Fields(Path("generation_config.json"), generation))


def test_the_released_sizes() -> None:
    config = read(released.config())
    pieces = parts(config)
    talker, predictor = (getattr(pieces.language.module, part) for part in ("talker", "predictor"))

    def count(module: Any) -> int:
        return sum(weight.numel() for weight in module.parameters())

    layers = count(talker.stack) - config.talker.stack.hidden
    assert round(layers / 1e6, 1) == 3164.1
    # the predictor of the release, with its fifteen tables, which are the frame embedder's here
    assert round((count(predictor) + 15 * 2048 * 1024) / 1e6, 1) == 141.6
    assert round(count(pieces.decoder.module) / 1e6, 1) == 216.0
    assert count(pieces.language.module.text) - 152_064 * 2048 == 2048 * 2048 + 2048 + 2048 * 1024 + 1024


def test_the_released_facts() -> None:
    config = read(released.config())
    facts = config.facts
    assert (facts.groups, facts.codes, facts.vocabulary, facts.end_code, facts.hidden) == (16, 2048, 3072, 2150, 1024)
    sound = facts.samples_per_frame, facts.missing_samples, facts.frame_rate, facts.least_frames
    assert sound == (1920, 555, 12.5, 0)
    assert {name: speaker.id for name, speaker in config.speakers.items()} == {
        "ethan": 2302,
        "chelsie": 2301,
        "aiden": 2303,
    }
    experts = config.talker.stack.experts
    assert (experts.count, experts.chosen, experts.inner, experts.shared) == (128, 6, 384, 768)
    assert experts.renormalised


def test_sampling_is_the_talkers_and_the_predictors_own(stored: dict[str, Any]) -> None:
    own = Sampling(0.9, 50, 1.0, 1.05, 1.0, 50, 0.8)
    assert read(stored).sampling == own
    assert read(stored, talker_temperature=0.5, talker_top_k=7).sampling.temperature == 0.5


def test_both_spellings_are_one(stored: dict[str, Any]) -> None:
    newer = copy.deepcopy(stored)
    talker = newer["talker_config"]["text_config"]
    talker["num_local_experts"] = talker.pop("num_experts")
    for part in (talker, newer["talker_config"]["code_predictor_config"], newer["code2wav_config"]):
        part["rope_parameters"] = {"rope_type": "default", "rope_theta": part.pop("rope_theta")}
        part.pop("rope_scaling", None)
    assert read(newer) == read(stored)


@pytest.mark.parametrize(
    ("path", "value", "says"),
    [
        ("enable_audio_output", False, "cannot speak"),
        ("enable_audio_output", False, "-m omni"),  # a thinker is no damaged file
        ("talker_config", ..., "cannot speak"),
        ("code2wav_config", None, "cannot speak"),
        ("model_type", "qwen3_omni", "qwen3_omni_moe"),
        ("talker_config.text_config.shared_expert_intermediate_size", ..., "is missing"),
        ("talker_config.text_config.norm_topk_prob", ..., "is missing"),
        ("talker_config.text_config.num_experts", ..., "num_experts: is missing"),
        ("talker_config.text_config.head_dim", ..., "is missing"),
        ("talker_config.text_config.num_experts_per_tok", 9, "from 1 to 8"),
        ("talker_config.text_config.mlp_only_layers", [1], "not supported"),
        ("talker_config.text_config.rope_scaling.rope_type", "yarn", "not supported"),
        ("talker_config.codec_eos_token_id", 4198, "from 64 to 1087"),
        ("talker_config.code_predictor_config.num_code_groups", 32, "does not agree"),
        ("talker_config.code_predictor_config.hidden_size", 64, "not that of the talker"),
        ("talker_config.thinker_hidden_size", 65, "does not agree"),
        ("talker_config.speaker_id", {}, "names no speaker"),
        ("thinker_config.text_config.vocab_size", 2**40, "whole number"),
        ("code2wav_config.num_quantizers", 8, "does not agree"),
        ("code2wav_config.num_attention_heads", 3, "does not agree"),
        ("code2wav_config.decoder_dim", 40, "halved"),
        ("code2wav_config.upsample_rates", [8, 5, 4, 3000], "whole numbers"),
        ("im_start_token_id", 10**6, "whole number"),
    ],
)
def test_what_is_wrong_is_refused(stored: dict[str, Any], path: str, value: object, says: str) -> None:
    with pytest.raises(ModelError) as caught:
        read(put(stored, path, value))
    assert says in f"{caught.value.message} {caught.value.hint}"
