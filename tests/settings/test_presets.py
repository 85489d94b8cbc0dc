"""Presets: every shipped file loads, and what is wrong in a file is named."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from omnitts_cli.errors import OmniError, SettingsError, UsageError
from omnitts_cli.settings import file as settings_file
from omnitts_cli.settings import presets


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "mine.toml"
    path.write_text(text, "utf-8")
    return path


def test_the_shipped_presets_are_these() -> None:
    assert presets.names() == ["audiobook", "batch", "fast", "live", "studio"]


@pytest.mark.parametrize("name", presets.names())
def test_every_shipped_preset_loads_and_decides_something(name: str) -> None:
    preset = presets.load(name)
    assert preset.name == name
    assert preset.about
    assert preset.values


def test_a_choice_may_be_spelled_as_it_may_be_typed(tmp_path: Path) -> None:
    assert presets.read(written(tmp_path, 'language = "German"\nformat = "FLAC"')).values == {
        "language": "de",
        "format": "flac",
    }


def test_only_what_is_given_is_decided(tmp_path: Path) -> None:
    assert presets.read(written(tmp_path, 'top-k = 0\nmodel = "tiny"')).values == {"model": "tiny", "top_k": 0}


@pytest.mark.parametrize(
    ("line", "hint"),
    [("batchsize = 4", "batch-size"), ("temprature = 0.5", "temperature"), ("batch_size = 4", "batch-size")],
)
def test_an_unknown_key_names_the_nearest(tmp_path: Path, line: str, hint: str) -> None:
    with pytest.raises(SettingsError, match="unknown key") as caught:
        presets.read(written(tmp_path, line))
    assert caught.value.hint == f"did you mean '{hint}'?"


def test_a_key_near_nothing_lists_all(tmp_path: Path) -> None:
    with pytest.raises(SettingsError) as caught:
        presets.read(written(tmp_path, "qqqqqqqq = 1"))
    assert "sentence-gap" in str(caught.value.hint)


@pytest.mark.parametrize(
    "line",
    [
        "batch-size = 0", "batch-size = 1.5", "batch-size = true", "temperature = nan", "temperature = inf",
        "temperature = -1", "top-p = 1.5", 'speed = "fast"', "safe = 1", 'format = "aac"', 'model = ""',
        "sample-rate = 100", "about = 3",
    ],
)  # fmt: skip
def test_a_wrong_value_is_named_with_what_is_accepted(tmp_path: Path, line: str) -> None:
    with pytest.raises(SettingsError, match=line.split()[0]):
        presets.read(written(tmp_path, line))


@pytest.mark.parametrize("text", ["a = ", "a = 1\na = 2", "[[["])
def test_a_file_that_is_not_toml_is_our_error(tmp_path: Path, text: str) -> None:
    with pytest.raises(SettingsError, match=r"mine\.toml"):
        presets.read(written(tmp_path, text))


def test_bytes_that_are_not_text_are_our_error(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(OmniError):
        presets.read(path)


def test_a_missing_preset_names_the_nearest() -> None:
    with pytest.raises(UsageError) as caught:
        presets.load("studoi")
    assert caught.value.hint == "did you mean 'studio'?"


@pytest.mark.parametrize("name", ["../fast", "/etc/passwd", "", ".", "fast.toml"])
def test_a_name_is_never_a_path(name: str) -> None:
    with pytest.raises(UsageError):
        presets.load(name)


@pytest.mark.parametrize("content", ["[" + ".".join(["a"] * 30_000) + "]", "#" * 70_000], ids=["parts", "large"])
def test_hostile_settings_are_refused_in_words(content: str, tmp_path: Path) -> None:
    path = tmp_path / "omnitts.toml"
    path.write_text(content)
    for read in (presets.read, settings_file.read):
        with pytest.raises(SettingsError) as error:
            read(path)
        assert len(error.value.message) < 400


@pytest.mark.timeout(30)
@pytest.mark.parametrize("kind", ["pipe", "device", "folder"])
def test_settings_that_are_no_file_are_refused_without_waiting(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "omnitts.toml"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    else:
        path.mkdir()
    with pytest.raises(SettingsError, match="cannot read"):
        settings_file.read(path)
