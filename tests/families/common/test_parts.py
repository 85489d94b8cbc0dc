"""Shape of a stack: both spellings of the rotation, and experts in the place of the MLP."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from omnitts_cli.errors import ModelError
from omnitts_cli.families.common.fields import Fields, stack_shape
from omnitts_cli.models.shapes import ExpertShape

STACK = {
    "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 16, "rms_norm_eps": 1e-6, "rope_theta": 1e6,
}  # fmt: skip


def fields(**more: Any) -> Fields:
    return Fields(Path("config.json"), STACK | more, "talker_config")


def test_both_spellings_of_the_rotation_say_the_same() -> None:
    newer = {"rope_type": "default", "rope_theta": 1e6, "mrope_section": [24, 20, 20]}
    older = {"type": "default", "mrope_section": [24, 20, 20]}
    assert stack_shape(fields()).rope_theta == 1e6
    assert stack_shape(fields()) == stack_shape(fields(rope_scaling=older))
    assert stack_shape(fields()) == stack_shape(fields(rope_parameters=newer, rope_theta=None))


@pytest.mark.parametrize("key", ["rope_scaling", "rope_parameters"])
def test_a_rotation_of_another_kind_is_refused(key: str) -> None:
    with pytest.raises(ModelError, match=f"talker_config.{key}.rope_type: 'yarn' is not supported"):
        stack_shape(fields(**{key: {"rope_type": "yarn", "rope_theta": 1e6}}))


def test_experts_stand_in_the_place_of_the_mlp() -> None:
    experts = ExpertShape(count=8, chosen=2, inner=16, shared=16, renormalised=True)
    shape = stack_shape(fields(intermediate_size=None), experts)
    assert shape.experts == experts and shape.inner == 0
    with pytest.raises(ModelError, match="intermediate_size: is missing"):
        stack_shape(fields(intermediate_size=None))
