"""POST /v1/audio/speech: the sound of `omnitts say` in every form, and what its fields do."""

import asyncio
import base64
import io
import json
import subprocess
import threading
import wave
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import soundfile
from patience import LONG_S, eventually
from serving import Running, samples_of_say, start
from wire import Answer

from omnitts_cli.server.encode import Encoding
from omnitts_cli.speech import speaking

TEXT = "Hello there, this is a test. Here is another sentence!\n\nAnd a paragraph."


@pytest.fixture(scope="module")
def said() -> bytes:
    return samples_of_say(TEXT)


def test_all_ways_give_the_samples_of_say(server: Running, said: bytes) -> None:
    streamed = server.speech(TEXT)
    assert streamed.status == 200 and "transfer-encoding" in streamed.headers
    assert streamed.body == said
    whole = server.speech(TEXT, stream=False)
    assert whole.body == said and whole.headers["content-length"] == str(len(said))
    assert whole.headers["x-finish-reason"] == "end"
    parsed = server.speech(TEXT, stream_format="sse").events
    assert b"".join(base64.b64decode(one["audio"]) for one in parsed[:-1]) == said
    assert parsed[-1]["type"] == "speech.audio.done" and parsed[-1]["seed"] == 7


def decoded(body: bytes) -> np.ndarray:
    """The samples as ffmpeg reads them."""
    command = ["ffmpeg", "-v", "error", "-i", "-", "-f", "s16le", "-"]
    return np.frombuffer(subprocess.run(command, input=body, capture_output=True, check=True).stdout, np.int16)


def test_opus_comes_while_it_is_made() -> None:
    async def sizes() -> list[int]:
        encoding = Encoding("opus", 24_000, None)
        return [len(await encoding.feed(np.full(1920, 0.1, np.float32))) for _ in range(25)]  # frames of 80 ms

    assert sum(size > 0 for size in asyncio.run(sizes())) > 20


def test_the_headers_tell_about_the_answer(server: Running) -> None:
    answer = server.speech("Hello.", voice="nova", nonsense=1)
    assert answer.headers["x-voice"] == "ben" and answer.headers["x-seed"] == "7"
    assert answer.headers["x-model"] == "random:toy" and answer.headers["x-ignored-fields"] == "nonsense"
    assert float(answer.headers["x-first-sound-ms"]) > 0


def test_an_error_about_a_language_names_the_field_that_shows_it() -> None:
    with start(("tiny",)) as server:
        for fields, param in (
            ({"input": "Привет, как дела?"}, "input"),
            ({"input": "Привет", "language": "en"}, "input"),
            ({"input": "Guten Tag.", "language": "de"}, "language"),
        ):
            answer = server.request("POST", "/v1/audio/speech", fields)
            assert (answer.status, answer.json["error"]["param"]) == (400, param), answer.json
            assert server.request("POST", "/v1/audio/speech", {**fields, "stream": False}).json == answer.json


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"speed": "2"}, 'speed = "2" is not a number from 0.25 to 4'),
        ({"response_format": "m4a"}, 'response_format = "m4a" is not one of mp3, wav,'),
        ({"stream": "yes"}, 'stream = "yes" is not true or false'),
        ({"task_type": ["x"] * 99}, 'task_type = ["x", "x", '),
        ({"input": None}, "input is missing"),
    ],
)
def test_wrong_values_are_in_the_message(server: Running, fields: dict[str, object], words: str) -> None:
    message = server.request("POST", "/v1/audio/speech", {"input": "Hello.", **fields}).json["error"]["message"]
    assert message.startswith(words) and len(message) < 200


def test_speed_and_sample_rate_change_the_length(server: Running, said: bytes) -> None:
    slow = len(server.speech(TEXT, speed=0.25).body) / len(said)
    assert 3.5 < slow < 4.5
    twice = server.speech(TEXT, sample_rate=16_000)
    assert twice.headers["x-sample-rate"] == "16000" and len(twice.body) == 2 * len(said)


def test_loudness_needs_the_whole_sound_and_a_streamed_wav_has_no_length(server: Running) -> None:
    assert server.speech(TEXT, loudness=-20, stream=True).status == 400
    assert "content-length" in server.speech(TEXT, loudness=-20).headers
    head = server.speech("Hi.", response_format="wav").body[:44]
    assert head[4:8] == head[40:44] == b"\xff" * 4, "as OpenAI sends it"


def last_event(answer: Answer) -> dict[str, Any]:
    """The event that ends a stream of server-sent events."""
    found = answer.events
    assert found[-1]["type"] == "speech.audio.done", found[-1]
    return dict(found[-1])


def test_words_have_times_where_there_is_a_place_for_them(server: Running, said: bytes) -> None:
    sentences = last_event(server.speech(TEXT, stream_format="sse", timestamps="sentence"))["sentences"]
    answer = server.speech(TEXT, stream_format="sse", timestamps="word")
    timed = last_event(answer)["sentences"]
    assert [{name: one[name] for name in ("text", "start_time", "end_time")} for one in timed] == sentences
    for one in timed:
        assert " ".join(word["text"] for word in one["words"]) == one["text"]
        times = [one["start_time"], *(word[name] for word in one["words"] for name in ("start_time", "end_time"))]
        assert times == sorted(times) and times[-1] <= one["end_time"] <= len(said) / 2 / 8000 + 0.001
    events = answer.events
    assert b"".join(base64.b64decode(one["audio"]) for one in events[:-1]) == said
    answer = server.speech(TEXT, timestamps="word")
    assert answer.body == said and answer.headers["x-ignored-fields"] == "timestamps"
    assert "x-ignored-fields" not in server.speech(TEXT, timestamps="none").headers


SSML = "<speak>Hello there. <prosody rate='slow'>Good day.</prosody></speak>"
TAGS = "the text: the words in <prosody> are spoken, the tags have no effect"


def test_notices_about_the_text_are_in_the_answer_and_in_the_log(server: Running) -> None:
    for stream in (True, False):
        answer = server.speech(SSML, input_format="ssml", stream=stream)
        assert answer.headers["x-notices"] == TAGS
        line = f"{answer.headers['x-request-id']} notice: {TAGS}"
        eventually(lambda line=line: line in server.lines)  # the log follows the answer
    assert last_event(server.speech(SSML, input_format="ssml", stream_format="sse"))["notices"] == [TAGS]
    assert "x-notices" not in server.speech(TEXT).headers
    assert last_event(server.speech(TEXT, stream_format="sse"))["notices"] == []
    cut = server.speech("Hello. [pause:90s]\u4f60 Bye.", max_new_tokens=2, speed=4, stream=False, normalize=False)
    assert cut.headers["x-notices"].startswith("[pause:90s] is cut to 60 s, the longest pause; sentence ")


# -- what clients of other servers send


@pytest.fixture
def url(clip: bytes) -> str:
    return "data:audio/wav;base64," + base64.b64encode(clip).decode()


def test_instructions_to_a_voice_without_styles_are_ignored_and_told(server: Running, url: str) -> None:
    plain = server.speech("Hello.", ref_audio=url)
    answer = server.speech("Hello.", ref_audio=url, instructions="softly")
    assert answer.status == 200 and answer.body == plain.body
    assert answer.headers["x-ignored-fields"] == "instructions" and "instructions" in answer.headers["x-notices"]
    last = server.speech("Hello.", ref_audio=url, instructions="softly", stream=True).events[-1]
    assert last["ignored_fields"] == ["instructions"] and "instructions" in last["notices"][0]
    item = {"input": "Hello.", "ref_audio": url, "instructions": "softly"}
    result = server.request("POST", "/v1/audio/speech/batch", {"items": [item]}).json["results"][0]
    assert result["ignored_fields"] == ["instructions"] and result["error"] is None and len(result["notices"]) == 1
    styled = server.speech("Hello.", voice="ben", instructions="softly")  # this model's own voices have styles
    assert "x-ignored-fields" not in styled.headers and styled.body != server.speech("Hello.", voice="ben").body


def test_every_field_that_names_a_voice_is_followed(server: Running, url: str) -> None:
    ben = server.speech("Hello.", voice="ben").body
    assert ben != server.speech("Hello.").body
    for fields in ({"speaker": "ben"}, {"voice_id": "ben"}, {"voice": "me", "voice_aliases": {"Me": "ben"}}):
        answer = server.speech("Hello.", **fields)
        assert (answer.body, answer.headers["x-voice"]) == (ben, "ben")
    cloned = server.speech("Hello.", ref_audio=url, ref_text="Hello.")
    assert server.speech("Hello.", references=[{"audio_path": url, "text": "Hello."}]).body == cloned.body
    answer = server.speech("Hello.", references=[{"audio_path": "data:audio/wav;base64,AAAA"}])
    assert (answer.status, answer.json["error"]["param"]) == (400, "references")


def test_no_choice_of_a_voice_and_a_blend_in_kokoros_notation(server: Running) -> None:
    first = server.speech("Hello.")
    for voice in ("", "default", {"id": ""}, None):
        answer = server.speech("Hello.", voice=voice)
        assert (answer.body, answer.headers["x-voice"]) == (first.body, first.headers["x-voice"])
    assert server.speech("Hi.", voice="ann(2)+ben(1)").body == server.speech("Hi.", voice="ann:2,ben:1").body
    assert server.speech("Hi.", voice="ann+ben").body == server.speech("Hi.", voice="ann:50,ben:50").body
    assert server.speech("Hi.", voice="ann+nobody").status == 404


def test_a_voice_given_as_its_values(server: Running) -> None:
    model = server.state.models.all[0].speech
    vector = [float(value) for value in model.vector_of("ben")]
    answer = server.speech("Hello.", speaker_embedding=vector)
    assert answer.status == 200 and answer.body == server.speech("Hello.", voice="ben:50,ben:50").body
    for wrong in (vector[:-1], [*vector, 0.5]):
        answer = server.speech("Hello.", speaker_embedding=wrong)
        assert (answer.status, answer.json["error"]["param"]) == (400, "speaker_embedding")


def test_more_tokens_than_a_sentence_can_have_are_no_limit(server: Running) -> None:
    plain = server.speech("Hello.")
    answer = server.speech("Hello.", max_new_tokens=2048)
    assert answer.status == 200 and answer.body == plain.body and "2,048" in answer.headers["x-notices"]
    assert server.speech("Hello.", seed=-1, initial_codec_chunk_frames=0).headers["x-seed"] != "-1"


@pytest.mark.parametrize("form", ["wav", "pcm"])
def test_references_and_a_stream_have_the_events_of_sglang_omni(server: Running, url: str, form: str) -> None:
    fields = {"response_format": form, "references": [{"audio_path": url}], "stream": True}
    answer = server.speech("Hello there.", **fields)
    lines = [line.removeprefix("data: ") for line in answer.body.decode().split("\n\n")[:-1]]
    assert answer.headers["content-type"].startswith("text/event-stream") and lines.pop() == "[DONE]"
    events = [json.loads(line) for line in lines]
    assert {event["object"] for event in events} == {"audio.speech.chunk"}
    assert [event["index"] for event in events] == list(range(len(events)))
    assert events[-1]["audio"] is None and events[-1]["finish_reason"] == "stop"
    sounds = [base64.b64decode(event["audio"]["data"]) for event in events[:-1]]
    if form == "wav":  # each is a file
        files = [wave.open(io.BytesIO(sound)) for sound in sounds]
        sounds = [file.readframes(file.getnframes()) for file in files]
    assert b"".join(sounds) == server.speech("Hello there.", ref_audio=url).body and len(sounds) > 1


def test_flac_is_whole_unless_streaming_is_asked_for(server: Running, said: bytes) -> None:
    answer = server.speech(TEXT, response_format="flac")
    assert "content-length" in answer.headers
    assert soundfile.read(io.BytesIO(answer.body), dtype="int16")[0].tobytes() == said
    for streamed in (
        server.speech(TEXT, response_format="flac", stream=True, stream_format="audio").body,
        b"".join(base64.b64decode(event.get("audio", ""))
                 for event in server.speech(TEXT, response_format="flac", stream=True).events),
    ):  # fmt: skip
        assert decoded(streamed).tobytes() == said


def test_a_text_that_takes_long_to_read_does_not_delay_others(server: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each reading waits until /health, asked after it began, was answered: a loop that reads would never answer."""
    real, reads, answered = speaking.readings, list[str](), threading.Semaphore(0)

    def slowly(piece: Any, *more: Any) -> Any:
        reads.append(piece.text)
        while answered.acquire(blocking=False):
            pass
        for _ in range(2):  # the second was asked after this reading had begun
            assert answered.acquire(timeout=LONG_S)
        return real(piece, *more)

    monkeypatch.setattr(speaking, "readings", slowly)
    text = "This is one sentence of the text. " * 8
    with ThreadPoolExecutor(1) as pool:
        spoken = pool.submit(server.speech, text)
        while not spoken.done():
            assert server.request("GET", "/health").status == 200
            answered.release()
        assert spoken.result().status == 200
    monkeypatch.undo()
    assert len(reads) == 8 and spoken.result().body == server.speech(text).body


def test_a_lexicon_keeps_a_text_within_its_limit(server: Running) -> None:
    answer = server.speech("word " * 200, lexicon={"word": "x" * 499})
    assert answer.status == 400 and "too long" in answer.json["error"]["message"]
    answer = server.speech("word", lexicon={"word": "x" * 501})
    assert answer.status == 400 and answer.json["error"]["param"] == "lexicon"
