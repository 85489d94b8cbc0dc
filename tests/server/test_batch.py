"""The batch endpoint: each item is the sound of the single endpoint, and a wrong one stops no other."""

import base64
from typing import Any

import pytest
from patience import eventually, first_sound_only
from serving import Running

from omnitts_cli.server import state as server_state

PATH = "/v1/audio/speech/batch"
LONG = {"ignore_eos": True, "max_new_tokens": 1400}


def test_items_are_what_single_requests_give(server: Running) -> None:
    items = [{"input": "One sentence."}, {"input": "Another one.", "voice": "ben", "response_format": "flac"}]
    answer = server.request("POST", PATH, {"items": items, "seed": 7, "response_format": "pcm"}).json
    assert (answer["total"], answer["succeeded"], answer["failed"]) == (2, 2, 0)
    singles = [
        server.speech("One sentence.", stream=False).body,
        server.speech("Another one.", voice="ben", response_format="flac", stream=False).body,
    ]
    assert [base64.b64decode(one["audio_data"]) for one in answer["results"]] == singles
    first = answer["results"][0]
    assert first["media_type"] == "audio/pcm" and first["seed"] == 7 and first["finish_reason"] == "end"
    assert first["usage"]["output_tokens"] * 640 * 2 == len(singles[0])


def test_a_wrong_item_stops_no_other(server: Running) -> None:
    items = [{"input": ""}, {"input": "Good.", "voice": "nobody"}, 3, {"input": "Good."}]
    answer = server.request("POST", PATH, {"items": items}).json
    assert [one["status"] for one in answer["results"]] == ["error", "error", "error", "success"]
    assert "nobody" in answer["results"][1]["error"] and answer["failed"] == 3


def test_the_number_of_items_is_limited(server: Running) -> None:
    for items in ([], [{"input": "a"}] * 33, "a", {}, None):
        answer = server.request("POST", PATH, {"items": items})
        assert answer.status == 400 and answer.json["error"]["param"] == "items"


def test_items_have_notices_and_times(server: Running) -> None:
    items = [{"input": "Hello. [pause:90s] Bye.", "speed": 4}, {"input": "One word.", "timestamps": "word"}]
    first, second = server.request("POST", PATH, {"items": items, "seed": 7, "response_format": "pcm"}).json["results"]
    assert first["notices"] == ["[pause:90s] is cut to 60 s, the longest pause"] and "sentences" not in first
    assert second["notices"] == [] and [one["text"] for one in second["sentences"][0]["words"]] == ["One", "word."]


def test_a_batch_that_takes_too_long_is_503(serve: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_state, "SWEEP_S", 0.02)
    running = serve(request_timeout=0.1)
    engine = running.state.models.all[0].tts.engine.engine
    with first_sound_only(engine):
        answer = running.request("POST", PATH, {"items": [{"input": "Hello.", **LONG}]})
    assert answer.status == 503 and answer.json["error"]["code"] == "request_timeout"
    eventually(lambda: not engine.busy and not running.state.calls)
