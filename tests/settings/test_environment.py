"""Settings: strict, frozen, and the only reader of the environment."""

import dataclasses
import math
from typing import Any

import pytest

from omnitts_cli.errors import SettingsError
from omnitts_cli.settings import environment
from omnitts_cli.settings.engine import EngineSettings


def test_every_field_has_a_rule_and_the_defaults_keep_it() -> None:
    assert set(EngineSettings.rules) == {field.name for field in dataclasses.fields(EngineSettings)}
    assert EngineSettings() == EngineSettings.of({}, "nothing")


def test_a_table_of_values() -> None:
    made = EngineSettings.of({"slots": 8, "dtype": "bf16", "capture": False}, "preset fast")
    assert (made.slots, made.dtype, made.capture, made.device) == (8, "bf16", False, "auto")


def test_an_unknown_key_names_the_nearest_one() -> None:
    with pytest.raises(SettingsError) as raised:
        EngineSettings.of({"slot": 8}, "engine.toml")
    assert "engine.toml" in raised.value.message and "'slot'" in raised.value.message
    assert raised.value.hint == "did you mean 'slots'?"


@pytest.mark.parametrize(("key", "value"), [
    ("slots", 0), ("slots", True), ("slots", 2.0), ("slots", "8"), ("slots", 10**30), ("dtype", "int3"),
    ("dtype", None), ("device", ""), ("seconds", math.nan), ("seconds", math.inf), ("seconds", -1), ("chunk", 101),
    ("capture", "yes"), ("offline", 1),
])  # fmt: skip
def test_a_wrong_value_is_named(key: str, value: Any) -> None:
    with pytest.raises(SettingsError, match=key):
        EngineSettings.of({key: value}, "somewhere")


def test_settings_cannot_be_changed_in_place() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        EngineSettings().slots = 3  # type: ignore[misc]


def test_the_environment_without_its_prefix(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMNITTS_VOICE", "ann")
    monkeypatch.setenv("OMNITTS_LANG", "")
    monkeypatch.setenv("NOT_OMNITTS_VOICE", "ben")
    assert environment.ours()["voice"] == "ann"
    assert "lang" not in environment.ours()
    assert environment.variable("OMNITTS_LANG") is None
    assert environment.variable("OMNITTS_VOICE") == "ann"


def test_threads_sleep_while_they_wait_unless_the_user_says_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_WAIT_POLICY", "ACTIVE")
    environment.before_torch()
    assert environment.variable("OMP_WAIT_POLICY") == "ACTIVE"
    monkeypatch.delenv("OMP_WAIT_POLICY")
    environment.before_torch()
    assert environment.variable("OMP_WAIT_POLICY") == "PASSIVE"
