"""--transcribe: the words of a clip by whichever recogniser is installed."""

import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import soundfile
from command import Omnitts
from sounds import speech

from omnitts_cli.errors import InputError, ModelError, Notice, UsageError
from omnitts_cli.speech import transcribe

NOTICES: list[Notice] = []
SOUND = np.zeros(48_000, np.float32)


def whisper(monkeypatch: pytest.MonkeyPatch, words: str = "", broken: bool = False) -> None:
    """A faster_whisper that finds these words in any sound."""

    def model(size: str, **options: Any) -> Any:
        if broken:
            raise RuntimeError("no network\nand more")
        parts = [SimpleNamespace(text=f" {word}") for word in words.split()]
        return SimpleNamespace(transcribe=lambda sound: (iter(parts), None))

    module = ModuleType("faster_whisper")
    module.WhisperModel = model  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "faster_whisper", module)


def test_without_a_recogniser_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "faster_whisper", None)
    monkeypatch.setitem(sys.modules, "pocketsphinx", None)
    with pytest.raises(UsageError) as raised:
        transcribe.transcribe(SOUND, 24_000, offline=False, tell=NOTICES.append)
    assert "pip install faster-whisper" in str(raised.value.hint)


def test_words_are_printed_and_none_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    whisper(monkeypatch, "what was said")
    assert transcribe.transcribe(SOUND, 24_000, offline=False, tell=NOTICES.append) == "what was said"
    assert "transcript of the clip: what was said" in NOTICES[-1].message
    whisper(monkeypatch)
    with pytest.raises(InputError, match="no words"):
        transcribe.transcribe(SOUND, 24_000, offline=False, tell=NOTICES.append)
    whisper(monkeypatch, broken=True)
    with pytest.raises(ModelError) as raised:
        transcribe.transcribe(SOUND, 24_000, offline=True, tell=NOTICES.append)
    assert raised.value.cause == "no network"


@pytest.mark.parametrize(
    ("name", "offline", "cause", "hint"),
    [
        ("nodir/x", True, "it is not on this machine, and --offline allows no download", "--asr-model FOLDER"),
        ("bass", True, "it is neither a folder nor a size: tiny, base, small", "--asr-model base"),
        ("/no/such/folder", True, "no such folder", "--asr-model base"),
    ],
)
def test_a_model_that_is_not_there(name: str, offline: bool, cause: str, hint: str) -> None:
    """By faster-whisper itself, without a network."""
    pytest.importorskip("faster_whisper")
    with pytest.raises(ModelError, match=name) as raised:
        transcribe.Whisper(name, offline=offline)
    assert str(raised.value.cause).startswith(cause) and raised.value.hint == hint


@pytest.mark.skipif(shutil.which("flite") is None, reason="flite is not installed")
def test_whisper_is_used_unasked_only_if_it_is_here(monkeypatch: pytest.MonkeyPatch) -> None:
    whisper(monkeypatch, "one two")
    found = transcribe.recogniser_here()
    assert found is not None and found(SOUND).split() == ["one", "two"]
    whisper(monkeypatch, broken=True)  # installed, and its model is not
    assert transcribe.recogniser_here() is None
    monkeypatch.setitem(sys.modules, "faster_whisper", None)
    assert transcribe.recogniser_here() is None


def test_pocketsphinx_hears_english(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("pocketsphinx")
    monkeypatch.setitem(sys.modules, "faster_whisper", None)
    said = "Glue the sheet to the dark blue background."
    subprocess.run(["flite", "-voice", "rms", "-t", said, "-o", str(tmp_path / "a.wav")], check=True)
    sound, rate = soundfile.read(tmp_path / "a.wav", dtype="float32")
    assert "dark blue background" in transcribe.transcribe(sound, rate, offline=True, tell=NOTICES.append)


def test_clone_takes_the_transcript(omnitts: Omnitts, monkeypatch: pytest.MonkeyPatch) -> None:
    soundfile.write("clip.wav", speech(4.0), 24_000)
    whisper(monkeypatch, "these are the words of it, more or less, all of them")
    clone = ["clone", "-m", "random:toy", "--max-frames", "6", "-r", "clip.wav", "-o", "a.wav", "--transcribe"]
    done = omnitts(*clone, "--save-voice", "me", "Hello there.").ended(0)
    assert "no --ref-text" not in done.err
    assert omnitts("voices", "show", "me", "--json").json["transcript"].startswith("these are the words")
    assert omnitts(*clone, "--ref-text", "words", "Hello.").code == 2
    assert Path("a.wav").exists()
