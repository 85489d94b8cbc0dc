"""Roles: the classes of a family have every method that is called, with its arguments."""

import inspect
from typing import Any

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


def test_a_model_fills_the_role_of_a_cloner() -> None:
    """Every method of the role is there and takes what callers give."""
    protocol, part = roles.Cloner, toy().cloner
    methods = {name: f for name, f in vars(protocol).items() if inspect.isfunction(f) and not name.startswith("_")}
    assert methods
    for name, wanted in methods.items():
        asked = list(inspect.signature(wanted).parameters)[1:]
        given: Any = inspect.signature(getattr(part, name)).parameters
        needed = [n for n, p in given.items() if p.default is p.empty and p.kind is not p.VAR_KEYWORD]
        assert asked[: len(needed)] == needed, name
        assert set(asked) <= set(given), name
