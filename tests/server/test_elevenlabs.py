"""ElevenLabs' shape over HTTP."""

import io
from typing import Any

import pytest
import soundfile
from serving import Running, samples_of_say

from omnitts_cli.server.guard import digest

PATH = "/v1/text-to-speech/{}{}"


def ask(server: Running, path: str = PATH.format("default", ""), query: str = "", **fields: Any) -> Any:
    return server.request("POST", f"{path}{query}", {"text": "Hello there.", "seed": 7, **fields})


def test_a_text_is_spoken_in_the_format_of_the_query(server: Running) -> None:
    for stream in ("", "/stream"):
        path = PATH.format("default", stream)
        assert ask(server, path, "?output_format=pcm_8000").body == samples_of_say("Hello there.")
        mp3 = ask(server, path)
        assert mp3.status == 200 and mp3.headers["content-type"] == "audio/mpeg"
        assert mp3.headers["x-sample-rate"] == "44100" and ("content-length" in mp3.headers) == (not stream)
        wav, rate = soundfile.read(io.BytesIO(ask(server, path, "?output_format=wav_16000").body))
        assert rate == 16_000 and wav.size > 1000
    assert ask(server, output_format="pcm_8000").headers["content-type"] == "audio/pcm"


def test_its_fields_have_their_effect(server: Running) -> None:
    usual = ask(server, query="?output_format=pcm_8000")
    fast = ask(server, query="?output_format=pcm_8000", voice_settings={"speed": 2.0, "stability": 0.5},
               model_id="eleven_multilingual_v2", language_code="en", previous_text="Before.")  # fmt: skip
    assert fast.status == 200 and len(fast.body) == pytest.approx(len(usual.body) / 2, abs=4)
    assert {"voice_settings.stability", "previous_text"} <= set(fast.headers["x-ignored-fields"].split(", "))


def test_the_voices_have_its_names_and_speak(server: Running) -> None:
    voices = server.request("GET", "/v1/voices").json["voices"]
    assert [voice["voice_id"] for voice in voices] == [
        voice["id"] for voice in server.request("GET", "/v1/audio/voices").json["data"]
    ]
    assert voices and all(voice["name"] and voice["category"] == "premade" for voice in voices)
    assert ask(server, PATH.format(voices[-1]["voice_id"], "")).headers["x-voice"] == voices[-1]["name"]


@pytest.mark.parametrize(
    ("path", "query", "fields", "status", "param"),
    [("nobody", "", {}, 404, "voice_id"), ("default", "?output_format=ulaw_8000", {}, 400, "output_format"),
     ("default", "", {"text": None}, 400, "input"), ("default", "", {"model_id": "eleventh"}, 404, "model_id"),
     ("default", "", {"voice_settings": {"speed": 9}}, 400, "voice_settings")],
)  # fmt: skip
def test_errors_name_the_field(
    server: Running, path: str, query: str, fields: dict[str, Any], status: int, param: str
) -> None:
    answer = ask(server, PATH.format(path, ""), query, **fields)
    assert answer.status == status and answer.json["error"]["param"] == param


def test_the_key_may_be_in_its_header(serve: Any) -> None:
    running = serve(keys={digest("secret"): "me"})
    for key, status in (("secret", 200), ("wrong", 401), ("", 401)):
        assert running.request("GET", "/v1/voices", headers={"xi-api-key": key}).status == status
    both = {"Authorization": "Bearer secret", "xi-api-key": "wrong"}
    assert running.request("GET", "/v1/voices", headers=both).status == 200
