"""Presets: every shipped file loads, and what is wrong in a file is named."""

import os
from pathlib import Path

import pytest

from omnitts_cli.errors import SettingsError, UsageError
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


@pytest.mark.parametrize(("line", "hint"), [
    ("batchsize = 4", "did you mean 'batch-size'?"), ("temprature = 0.5", "did you mean 'temperature'?"),
    ("batch_size = 4", "did you mean 'batch-size'?"), ("qqqqqqqq = 1", "sentence-gap"),
])  # fmt: skip
def test_an_unknown_key_names_the_nearest_or_lists_all(tmp_path: Path, line: str, hint: str) -> None:
    with pytest.raises(SettingsError, match="unknown key") as caught:
        presets.read(written(tmp_path, line))
    assert hint in str(caught.value.hint)


@pytest.mark.parametrize("line", [
    "batch-size = 0", "batch-size = 1.5", "batch-size = true", "temperature = nan", "temperature = inf",
    "temperature = -1", "top-p = 1.5", 'speed = "fast"', "safe = 1", 'format = "aac"', 'model = ""',
    "sample-rate = 100", "about = 3",
])  # fmt: skip
def test_a_wrong_value_is_named_with_what_is_accepted(tmp_path: Path, line: str) -> None:
    with pytest.raises(SettingsError, match=line.split()[0]):
        presets.read(written(tmp_path, line))


@pytest.mark.parametrize(
    "content",
    [b"a = ", b"a = 1\na = 2", b"[[[", b"\xff\xfe\x00", b"[" + b".".join([b"a"] * 30_000) + b"]", b"#" * 70_000],
    ids=["half", "twice", "open", "no text", "parts", "large"],
)
def test_a_file_that_cannot_be_settings_is_refused_in_words(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_bytes(content)
    for read in (presets.read, settings_file.read):
        with pytest.raises(SettingsError, match=r"mine\.toml") as caught:
            read(path)
        assert len(caught.value.message) < 400


def test_a_missing_preset_names_the_nearest() -> None:
    with pytest.raises(UsageError) as caught:
        presets.load("studoi")
    assert caught.value.hint == "did you mean 'studio'?"


@pytest.mark.parametrize("name", ["../fast", "/etc/passwd", "", ".", "fast.toml"])
def test_a_name_is_never_a_path(name: str) -> None:
    with pytest.raises(UsageError):
        presets.load(name)


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
