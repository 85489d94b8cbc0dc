"""What a request settles before anything is computed."""

from __future__ import annotations

import pytest

from omnitts_cli.request import COLDEST, Sampling

MODEL = Sampling(0.9, 50, 1.0, 1.05, 0.8, 40, 0.9)


def test_what_is_not_said_is_the_models_own() -> None:
    assert Sampling().over(MODEL) == MODEL
    assert Sampling(top_k=0, predictor_top_p=0.5).over(MODEL) == Sampling(0.9, 0, 1.0, 1.05, 0.8, 40, 0.5)


@pytest.mark.parametrize("next_to_nothing", [1e-45, 1e-38, COLDEST / 2])
def test_a_temperature_close_to_zero_is_greedy(next_to_nothing: float) -> None:
    cold = Sampling(temperature=next_to_nothing, predictor_temperature=next_to_nothing)
    for spoken in (cold.over(MODEL), Sampling().over(cold)):
        assert spoken.temperature == spoken.predictor_temperature == 0.0


def test_the_coldest_temperature_is_left_alone() -> None:
    assert Sampling(temperature=COLDEST).over(MODEL).temperature == COLDEST
