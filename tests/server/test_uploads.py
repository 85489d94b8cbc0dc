"""Voices over HTTP: saved from a clip, a voice file or a description, spoken, deleted."""

import base64
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from serving import Running
from wire import Answer, multipart

from omnitts_cli.speech import voice_files


@pytest.fixture(autouse=True)
def folder(server: Running, tmp_path: Path) -> Iterator[Path]:
    """An empty folder of saved voices."""
    voice_files.use_folder(str(tmp_path / "voices"))
    server.state.saved.changed()
    yield tmp_path / "voices"
    voice_files._chosen.clear()


def post(server: Running, **parts: Any) -> Answer:
    """A form. Bytes are files."""
    files = [(name, "a.wav", value) for name, value in parts.items() if isinstance(value, bytes)]
    body, kind = multipart([(name, value) for name, value in parts.items() if isinstance(value, str)], files)
    return server.request("POST", "/v1/audio/voices", body, {"Content-Type": kind})


def test_a_clip_becomes_a_voice_that_speaks_until_it_is_deleted(server: Running, clip: bytes, folder: Path) -> None:
    answer = post(server, audio_sample=clip, name="mary", consent="Mary, today", ref_text="hello my friend")
    assert answer.status == 200, answer.body
    assert answer.json["voice"]["name"] == "mary" and answer.json["voice"]["consent"] == "Mary, today"
    listed = server.request("GET", "/v1/audio/voices").json
    assert "mary" in [voice["id"] for voice in listed["voices"]]
    assert listed["uploaded_voices"][0]["ref_text"] == "hello my friend"
    assert answer.json["voice"]["mime_type"] == listed["uploaded_voices"][0]["mime_type"] == "audio/wav"
    assert answer.json["voice"]["file_size"] == listed["uploaded_voices"][0]["file_size"] == len(clip)
    spoken = server.speech("Hello.", voice="mary")
    url = "data:audio/wav;base64," + base64.b64encode(clip).decode()
    assert spoken.status == 200 and spoken.headers["x-voice"] == "mary"
    assert spoken.body == server.speech("Hello.", ref_audio=url, ref_text="hello my friend").body
    assert spoken.body != server.speech("Hello.").body
    assert clip[200:400] not in b"".join(path.read_bytes() for path in folder.iterdir())  # the clip is not kept
    assert server.request("DELETE", "/v1/audio/voices/mary").json["success"]
    assert server.request("DELETE", "/v1/audio/voices/mary").status == 404
    assert server.speech("Hello.", voice="mary").status == 404


def test_a_voice_file_and_a_description_become_voices(server: Running, clip: bytes, folder: Path) -> None:
    assert post(server, audio_sample=clip, name="one", consent="yes").status == 200
    data = (folder / "one.voice").read_bytes()
    assert post(server, voice_file=data, name="two").status == 200
    assert server.speech("Hi.", voice="one").body == server.speech("Hi.", voice="two").body
    assert post(server, design="a deep voice", seed="3", name="three").status == 200
    assert server.speech("Hi.", voice="three").status == 200
    blend = server.speech("Hi.", voice="one:60,three:40")
    assert blend.status == 200 and blend.headers["x-voice"] == "one:60,three:40"


def test_the_values_of_an_embedding_become_a_voice(server: Running) -> None:
    hidden = next(iter(server.state.models.loaded)).speech.facts.hidden
    values = [0.1 * (n % 7) for n in range(hidden)]
    answer = post(server, speaker_embedding=json.dumps(values), name="mine", consent="yes")
    assert answer.status == 200, answer.body
    listed = server.request("GET", "/v1/audio/voices").json["uploaded_voices"]
    for entry in (answer.json["voice"], listed[0]):
        assert (entry["name"], entry["embedding_source"], entry["embedding_dim"]) == ("mine", "direct", hidden)
    spoken = server.speech("Hello.", voice="mine")
    assert spoken.status == 200 and spoken.body == server.speech("Hello.", speaker_embedding=values).body
    assert spoken.body == server.speech("Hello.", speaker="mine", task_type="Base", x_vector_only_mode=False).body


MARY = {"name": "mary", "consent": "yes"}


@pytest.mark.parametrize("parts", [
    {"name": "mary"}, {**MARY, "consent": " "}, {**MARY, "consent": "x" * 501},
    {**MARY, "audio_sample": b"not a sound"}, {**MARY, "audio_sample": "text"}, {**MARY, "other": b"RIFF"},
    {**MARY, "speaker_embedding": "[0.1, 0.2]"}, {**MARY, "speaker_embedding": "[NaN]"},
    {**MARY, "speaker_embedding": "[[["}, {**MARY, "speaker_embedding": "{}"},
    {**MARY, "speaker_embedding": "[1]", "voice_file": b"x"}, {"name": "mary", "speaker_embedding": "[1]"},
])  # fmt: skip
def test_what_cannot_be_a_voice_is_refused(server: Running, clip: bytes, folder: Path, parts: dict[str, Any]) -> None:
    sources = {"audio_sample", "voice_file", "other", "speaker_embedding"}
    given = parts if sources & set(parts) else {"audio_sample": clip, **parts}
    assert post(server, **given).status == 400
    assert not folder.exists() or not list(folder.iterdir())


def test_uploads_can_be_switched_off(serve: Any, clip: bytes) -> None:
    running = serve(allow_upload="off")
    assert post(running, audio_sample=clip, name="mary", consent="yes").status == 403
    assert running.request("DELETE", "/v1/audio/voices/mary").status == 403


def test_a_full_disk_is_507(server: Running, clip: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    assert post(server, audio_sample=clip, name="mary", consent="yes").status == 507
