"""Roles: the classes of a family have every method that the engine calls, with its arguments."""

import inspect
from typing import Any

import pytest

from omnitts_cli.errors import InputError
from omnitts_cli.families.toy import toy
from omnitts_cli.models import roles
from omnitts_cli.models.prompts import TooEarly
from omnitts_cli.models.shapes import Facts


def test_the_frame_rate_follows_from_the_samples() -> None:
    facts = Facts(16, 2048, 3072, 2150, 2048, 24_000, 1920, 32_768)
    assert facts.frame_rate == 12.5 and facts.missing_samples == 0 and facts.least_frames == 2


def test_too_early_is_bad_input_that_more_text_cures() -> None:
    assert issubclass(TooEarly, InputError)


@pytest.mark.parametrize(("role", "filled"), [
    ("Talker", "talker"), ("Predictor", "predictor"), ("FrameEmbedder", "embedder"), ("Codec", "codec"),
    ("Prompter", "prompter"), ("Cloner", "cloner"),
])  # fmt: skip
def test_a_model_fills_each_role(role: str, filled: str) -> None:
    """Every method of the role is there and takes what the engine gives."""
    protocol, part = getattr(roles, role), getattr(toy(), filled)
    methods = {name: f for name, f in vars(protocol).items() if inspect.isfunction(f) and not name.startswith("_")}
    assert methods
    for name, wanted in methods.items():
        asked = list(inspect.signature(wanted).parameters)[1:]
        given: Any = inspect.signature(getattr(part, name)).parameters
        needed = [n for n, p in given.items() if p.default is p.empty and p.kind is not p.VAR_KEYWORD]
        assert asked[: len(needed)] == needed, f"{role}.{name}"
        assert set(asked) <= set(given), f"{role}.{name}"
