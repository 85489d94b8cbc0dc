"""A server speaks the tuned voices of its operator, each through a model of its own, within a budget."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import tune_kit
from patience import eventually
from tune_kit import Golden

from omnitts_cli.audio.pcm import to_int16
from omnitts_cli.server import voices
from omnitts_cli.speech import tts, voice_files
from omnitts_cli.speech.voice_files import SavedVoice
from omnitts_cli.voices import Cloned

SHORT = {"max_new_tokens": 6, "temperature": 0.0, "retries": 0}


@pytest.fixture
def model(home: Path) -> str:
    """The tiny golden model, and three saved voices of it: one, two and three. Two of them share an adapter."""
    name = str(tune_kit.folder("small"))
    voice = Cloned(Golden.of("small").tensors["speaker"].numpy())
    one, two = (tune_kit.golden_adapter("small", which) for which in ("one", "two"))
    other = replace(voice, embedding=-voice.embedding)
    saved = [("one", voice, one), ("two", voice, two), ("three", other, two), ("plain", voice, None)]
    for called, who, adapter in saved:
        voice_files.save(SavedVoice(called, who, {"model": name, "consent": "Anna, today"}, None, adapter))
    return name


def said(model: str, name: str) -> bytes:
    """The sound of `omnitts say -v NAME`."""
    with tts.load(model, voice=name, threads=1, slots=4, device="cpu") as opened:
        clip = opened.speak("hello world", seed=7, temperature=0.0, max_frames=6, retries=0)
        return to_int16(clip.samples).tobytes()


def test_a_tuned_voice_is_loaded_on_use_and_the_idlest_makes_room(serve: Any, model: str) -> None:
    running = serve(models=(model,), tuned_voices=1)
    found = {name: running.speech("hello world", voice=name, **SHORT) for name in ("one", "plain", "two", "three")}
    assert {answer.status for answer in found.values()} == {200}, found["one"].body[:300]
    assert len({answer.body for answer in found.values()}) == 4
    assert all(answer.body == said(model, name) for name, answer in found.items())
    (kept,) = running.state.models.tuned  # two and three share it
    assert kept.voice.name == "two" and kept.state == "ready" and len(running.state.models.all) == 1
    assert [one for one in running.lines if one.startswith("unloading") and "one" in one]
    names = {one["name"] for one in running.request("GET", "/v1/audio/voices").json["data"]}
    assert {"one", "two", "three", "plain"} <= names
    kept.active += 1
    assert running.speech("hello world", voice="one", **SHORT).json["error"]["code"] == "model_busy"
    kept.active -= 1
    assert running.speech("hello world", voice="one", **SHORT).body == found["one"].body


def test_an_engine_of_a_tuned_voice_that_broke_or_idled_comes_back(serve: Any, model: str) -> None:
    running = serve(models=(model,), idle_unload=0.5)
    first = running.speech("hello world", voice="one", **SHORT)
    eventually(lambda: not running.state.models.tuned)
    assert running.speech("hello world", voice="one", **SHORT).body == first.body


def test_a_voice_of_a_model_that_is_not_served_is_400(serve: Any, model: str) -> None:
    running = serve()
    answer = running.speech(voice="one")
    assert answer.status == 400 and answer.json["error"]["param"] == "voice" and "-m" in answer.json["error"]["message"]
    none = serve(models=(model,), tuned_voices=0)
    assert none.speech(voice="one").status == 400 and none.speech("hello", voice="plain", **SHORT).status == 200


def test_clients_cannot_upload_a_tuned_voice(serve: Any, model: str) -> None:
    running = serve(models=(model,))
    data = (voice_files.folder() / "one.voice").read_bytes()
    body = b"\r\n".join([
        b"--X", b'Content-Disposition: form-data; name="name"', b"", b"mine",
        b"--X", b'Content-Disposition: form-data; name="voice_file"; filename="v"', b"", data, b"--X--", b"",
    ])  # fmt: skip
    answer = running.request("POST", "/v1/audio/voices", body, {"Content-Type": "multipart/form-data; boundary=X"})
    assert answer.status == 400 and "mine" not in voice_files.names()


def test_adapters_in_memory_are_limited(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    saved = voices.Saved()
    assert [saved.tuned(name) for name in ("one", "plain")] == [True, False]
    one = saved.load("one")
    assert one.adapter is not None and saved.load("one") is one and saved.tuned("one")
    monkeypatch.setattr(voices, "MOST_ADAPTER_BYTES", one.adapter.nbytes)
    assert saved.load("two").adapter is not None
    assert saved.load("one") is not one
