"""The WebSocket: words go in one by one, and the sound is that of live text."""

import asyncio
import base64
import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from patience import LONG_S, eventually, first_sound_only
from serving import Running
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from omnitts_cli.audio import wav
from omnitts_cli.audio.pcm import to_int16
from omnitts_cli.server import live
from omnitts_cli.speech import live as live_speech
from omnitts_cli.speech import tts

WORDS = ["Hello", " there,", " this", " is a", " test.", " And more", " words here."]


@pytest.fixture
def client(server: Running) -> Iterator[ClientConnection]:
    with connect(f"ws://127.0.0.1:{server.port}/v1/audio/speech/stream") as found:
        yield found


def tell(client: ClientConnection, kind: str, **values: Any) -> None:
    client.send(json.dumps({"type": kind, **values}))


def answers(client: ClientConnection, last: str = "session.done") -> tuple[list[dict[str, Any]], list[bytes]]:
    """The messages and the frames up to a message of type `last`."""
    messages: list[dict[str, Any]] = []
    frames: list[bytes] = []
    while not messages or messages[-1]["type"] != last:
        found = client.recv(timeout=LONG_S)
        if isinstance(found, bytes):
            frames.append(found)
        else:
            messages.append(json.loads(found))
    return messages, frames


def test_words_one_by_one_give_the_sound_of_live_text(client: ClientConnection) -> None:
    with tts.load("random:toy", threads=1, slots=4, device="cpu") as model:
        expected = to_int16(model.stream(iter(WORDS), seed=7).clip().samples).tobytes()
    for stream_audio in (True, False):
        tell(client, "session.config", seed=7, response_format="pcm", stream_audio=stream_audio)
        for word in WORDS:
            tell(client, "input.text", text=word)
        tell(client, "input.done")
        messages, frames = answers(client)
        assert b"".join(frames) == expected and (len(frames) > 1) == stream_audio
        start, done, end = messages
        assert start["type"] == "audio.start" and start["sample_rate"] == 8000
        assert done["total_bytes"] == len(expected) and not done["error"] and done["finish_reason"] == "end"
        assert end["total_sentences"] == 1


def test_the_last_message_has_the_times_of_words(client: ClientConnection) -> None:
    tell(client, "session.config", seed=7, response_format="pcm", timestamps="word")
    tell(client, "input.text", text="".join(WORDS))  # at once: the toy may end before slow words have come
    tell(client, "input.done")
    done = next(one for one in answers(client)[0] if one["type"] == "audio.done")
    assert done["notices"] == []
    found = [word for one in done["sentences"] for word in one["words"]]
    assert [word["text"] for word in found] == "".join(WORDS).split()
    times = [word[name] for word in found for name in ("start_time", "end_time")]
    assert times == sorted(times) and 0 <= times[0] and times[-1] <= done["audio_s"] + 0.001


def test_sound_comes_before_the_text_is_complete(client: ClientConnection) -> None:
    tell(client, "session.config", response_format="pcm", stream_audio=True, max_new_tokens=40)
    tell(client, "input.text", text="One two three four five six seven eight nine ten ")
    assert json.loads(client.recv(timeout=LONG_S))["type"] == "audio.start"
    assert isinstance(client.recv(timeout=LONG_S), bytes)
    tell(client, "input.done")
    assert answers(client)[0][-1]["total_sentences"] == 1


def test_a_flush_gives_the_last_word_to_the_model(client: ClientConnection, server: Running) -> None:
    tell(client, "session.config", response_format="pcm", stream_audio=True)
    tell(client, "input.text", text="Hello")
    tell(client, "input.flush")
    assert json.loads(client.recv(timeout=LONG_S))["type"] == "audio.start"
    assert isinstance(client.recv(timeout=LONG_S), bytes)  # of a word that nothing follows
    tell(client, "input.done")
    answers(client)


def test_a_cancelled_utterance_ends_at_once_and_the_next_one_speaks(client: ClientConnection, server: Running) -> None:
    engine = server.state.models.all[0].tts.engine.engine
    tell(client, "session.config", response_format="pcm", stream_audio=True, ignore_eos=True, max_new_tokens=1000)
    with first_sound_only(engine):
        tell(client, "input.text", text="A long text that goes on and on without an end ")
        tell(client, "input.done")
        while not isinstance(client.recv(timeout=LONG_S), bytes):
            pass
        tell(client, "response.cancel")
        messages, _ = answers(client)
    done = next(one for one in messages if one["type"] == "audio.done")
    assert done["cancelled"] and done["total_bytes"] < 1000 * 640 * 2
    eventually(lambda: not engine.busy)
    tell(client, "session.config", response_format="pcm")
    tell(client, "input.text", text="Hello.")
    tell(client, "input.done")
    assert len(b"".join(answers(client)[1])) > 1000


def test_utterances_are_spoken_in_order_and_few_may_wait(client: ClientConnection, server: Running) -> None:
    tell(client, "session.config", response_format="pcm", max_new_tokens=20)
    seen: list[int] = []
    refused = 0
    with first_sound_only(server.state.models.all[0].tts.engine.engine):
        for number in range(7):
            tell(client, "input.text", text=f"Utterance {number}.")
            tell(client, "input.done")
        while not refused:
            found = client.recv(timeout=LONG_S)
            refused += isinstance(found, str) and json.loads(found)["type"] == "error"
    while len(seen) < 5:
        found = client.recv(timeout=LONG_S)
        message = json.loads(found) if isinstance(found, str) else {"type": "sound"}
        if message["type"] == "session.done" and message["total_sentences"]:
            seen.append(message["utterance_index"])
    assert seen == sorted(seen)


def test_a_client_that_goes_frees_its_slot(server: Running) -> None:
    engine = server.state.models.all[0].tts.engine.engine
    with connect(f"ws://127.0.0.1:{server.port}/v1/audio/speech/stream") as client:
        tell(client, "session.config", response_format="pcm", stream_audio=True, ignore_eos=True, max_new_tokens=1000)
        tell(client, "input.text", text="A long text that goes on ")
        while not isinstance(client.recv(timeout=LONG_S), bytes):
            pass
    eventually(lambda: not engine.busy and not server.state.calls)


def test_a_client_that_goes_before_the_first_answer_frees_its_slot(server: Running) -> None:
    """The engine has its words by then."""
    engine, gone = server.state.models.all[0].tts.engine.engine, asyncio.Event()
    said = [
        {"type": "websocket.connect"},
        {"type": "websocket.receive", "text": json.dumps({"type": "session.config", "response_format": "pcm"})},
        {"type": "websocket.receive", "text": json.dumps({"type": "input.text", "text": "Words that go on "})},
    ]
    submitted: list[int] = []

    async def receive() -> dict[str, str]:
        if not said:
            await gone.wait()
        return said.pop(0) if said else {"type": "websocket.disconnect"}

    async def send(message: dict[str, Any]) -> None:
        if message["type"] == "websocket.send":
            submitted.append(len(engine.snapshot().requests))
            gone.set()
            raise ConnectionResetError

    scope: Any = {
        "type": "websocket", "path": "/v1/audio/speech/stream", "headers": [(b"host", b"127.0.0.1")],
        "client": ("127.0.0.1", 1),
    }  # fmt: skip
    asyncio.run_coroutine_threadsafe(live.open_socket(server.state, scope, receive, send), server.loop).result(LONG_S)  # type: ignore[arg-type]
    assert submitted == [1] and not server.state.calls
    eventually(lambda: not engine.busy)
    assert " 499 " in server.lines[-1]


def test_an_utterance_that_waits_for_a_place_can_be_cancelled_and_ends_in_time(
    client: ClientConnection, server: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = asyncio.Semaphore(0)
    monkeypatch.setattr(server.state.models.all[0], "live", places)
    tell(client, "session.config", response_format="pcm")
    tell(client, "input.text", text="Hello.")
    eventually(lambda: any(call.stream for call in server.state.calls))
    tell(client, "response.cancel")
    done = next(one for one in answers(client)[0] if one["type"] == "audio.done")
    assert done["cancelled"] and done["total_bytes"] == 0
    with monkeypatch.context() as patch:
        patch.setattr(server.state, "options", replace(server.state.options, request_timeout=0.05))
        tell(client, "input.text", text="Hello.")
        assert answers(client)[0][0]["code"] == "request_timeout"
    server.on_loop(places.release)
    tell(client, "input.text", text="Hello.")
    tell(client, "input.done")
    assert answers(client)[1]
    eventually(lambda: not places.locked())


def test_only_an_idle_client_is_disconnected(serve: Callable[..., Running], monkeypatch: pytest.MonkeyPatch) -> None:
    """While an utterance is spoken, a client has nothing to say."""
    running = serve()
    with connect(f"ws://127.0.0.1:{running.port}/v1/audio/speech/stream") as client:
        tell(client, "session.config", response_format="pcm", stream_audio=True, ignore_eos=True, max_new_tokens=800)
        tell(client, "input.text", text="Some words.")
        monkeypatch.setattr(live, "IDLE_S", 0.1)  # the server reads it when it begins to wait for the next message
        with first_sound_only(running.state.models.all[0].tts.engine.engine):
            tell(client, "input.done")
            time.sleep(0.5)  # the utterance takes longer than that
        messages, frames = answers(client)
        assert messages[-1]["type"] == "session.done" and frames
        with pytest.raises(ConnectionClosed) as closed:
            client.recv(timeout=LONG_S)
        assert closed.value.rcvd is not None
        assert (closed.value.rcvd.code, closed.value.rcvd.reason) == (1001, "idle")
    eventually(lambda: not running.state.calls)


def test_a_clip_fits_into_the_configuration(client: ClientConnection, server: Running) -> None:
    """Ten seconds of sound have 640,000 characters."""
    noise = np.random.default_rng(0).standard_normal(240_000) * 0.1 * (np.sin(np.arange(240_000) / 8000) > 0)
    url = "data:audio/wav;base64," + base64.b64encode(wav.whole(noise.astype(np.float32), 24_000)).decode()
    tell(client, "session.config", seed=7, response_format="pcm", ref_audio=url, instructions="softly", nonsense=1)
    tell(client, "input.text", text="Hello.")
    tell(client, "input.done")
    messages, frames = answers(client)
    done = next(one for one in messages if one["type"] == "audio.done")
    assert frames and done["ignored_fields"] == ["nonsense", "instructions"] and len(done["notices"]) == 1


def test_a_message_that_is_too_large_is_an_error_and_the_session_goes_on(client: ClientConnection) -> None:
    for message in (
        {"type": "input.text", "text": "x" * live.LARGEST_OTHER},
        {"type": "session.config", "ref_audio": "A" * live.LARGEST_CONFIG},
    ):
        client.send(json.dumps(message))
        error = json.loads(client.recv(timeout=LONG_S))
        assert (error["type"], error["code"]) == ("error", "too_large")
    tell(client, "input.text", text="Hello.")
    tell(client, "input.done")
    assert answers(client)[1]


def test_slow_reading_of_words_delays_no_other_client(
    server: Running, client: ClientConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The words are still being read when another client has its answer."""
    real, reads, answered = live_speech.LiveStream.write, threading.Event(), threading.Event()

    def slowly(self: Any, text: str) -> None:
        if len(text) > 200:
            reads.set()
            assert answered.wait(LONG_S)
        real(self, text)

    monkeypatch.setattr(live_speech.LiveStream, "write", slowly)
    for _ in range(5):
        tell(client, "input.text", text="many words of a long text " * 20)
    tell(client, "input.done")
    assert reads.wait(LONG_S)
    assert server.request("GET", "/health").status == 200
    answered.set()
    assert answers(client)[0][-1]["total_sentences"] == 1
