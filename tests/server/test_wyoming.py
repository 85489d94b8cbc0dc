"""Wyoming: its events over TCP, with plain sockets and with the client that Home Assistant uses."""

import asyncio
import json
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, BinaryIO

import pytest
from patience import LONG_S, eventually, first_sound_only
from serving import Running, samples_of_say

from omnitts_cli.audio.pcm import to_int16
from omnitts_cli.server import wyoming
from omnitts_cli.server.wyoming import packed
from omnitts_cli.speech import tts

TEXT = "Hello there."
WORDS = ["Hello", " there,", " this", " is a", " test.", " And more", " words here."]
Event = tuple[str, dict[str, Any], bytes]


@contextmanager
def connected(server: Running) -> Iterator[BinaryIO]:
    with socket.create_connection(("127.0.0.1", server.wyoming), timeout=LONG_S) as found:
        with found.makefile("rwb", buffering=0) as file:
            yield file  # type: ignore[misc]


def say(out: BinaryIO, kind: str, payload: bytes = b"", **data: Any) -> None:
    out.write(packed(kind, data, payload))


def exactly(source: BinaryIO, size: int) -> bytes:
    data = b""
    while len(data) < size and (part := source.read(size - len(data))):
        data += part
    return data


def event(source: BinaryIO) -> Event | None:
    """The next event; None at the end."""
    line = b""
    while not line.endswith(b"\n"):
        byte = source.read(1)
        if not byte:
            return None
        line += byte
    head = json.loads(line)
    data = json.loads(exactly(source, head["data_length"])) if head.get("data_length") else {}
    return head["type"], data, exactly(source, head.get("payload_length", 0))


def events(source: BinaryIO, last: str) -> list[Event]:
    """The events up to one of the kind `last`, or to the end."""
    found: list[Event] = []
    while (one := event(source)) is not None:
        found.append(one)
        if one[0] == last:
            break
    return found


def sound(found: list[Event]) -> bytes:
    return b"".join(payload for kind, _, payload in found if kind == "audio-chunk")


def test_describe_lists_the_voices_with_their_languages(server: Running) -> None:
    with connected(server) as client:
        say(client, "describe")
        kind, data, _ = event(client) or ("", {}, b"")
    (program,) = data["tts"]
    assert kind == "info" and program["installed"] and program["supports_synthesize_streaming"]
    assert program["name"] and program["version"] and program["attribution"]["name"]
    names = [voice["id"] for voice in server.request("GET", "/v1/audio/voices").json["data"]]
    assert [voice["name"] for voice in program["voices"]] == names and names
    for voice in program["voices"]:
        assert "en" in voice["languages"] and voice["speakers"] == [{"name": voice["name"]}] and voice["installed"]


def test_a_text_has_the_sound_of_say(server: Running) -> None:
    with connected(server) as client:
        say(client, "ping", text="still there?")
        assert event(client) == ("pong", {"text": "still there?"}, b"")
        for _ in range(2):  # on one connection
            say(client, "synthesize", text=TEXT, voice={"name": "ann"})
            found = events(client, "audio-stop")
            assert [found[0][0], found[-1][0]] == ["audio-start", "audio-stop"]
            assert found[0][1] == {"rate": 8000, "width": 2, "channels": 1}
            assert all(data == found[0][1] for kind, data, _ in found[1:-1]) and len(sound(found)) > 1000


def test_the_seed_of_the_request_decides_the_samples(server: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """The protocol has no seed; with one put in, the sound is that of the command."""
    plain = wyoming.fields_of
    monkeypatch.setattr(wyoming, "fields_of", lambda data: {**plain(data), "seed": 7})
    with connected(server) as client:
        say(client, "synthesize", text=TEXT)
        assert sound(events(client, "audio-stop")) == samples_of_say(TEXT)
        say(client, "synthesize-start")
        for word in WORDS:
            say(client, "synthesize-chunk", text=word)
        say(client, "synthesize", text="".join(WORDS))  # for servers that cannot stream
        say(client, "synthesize-stop")
        streamed = events(client, "synthesize-stopped")
    with tts.load("random:toy", threads=1, slots=4, device="cpu") as model:
        assert sound(streamed) == to_int16(model.stream(iter(WORDS), seed=7).clip().samples).tobytes()
    assert [kind for kind, _, _ in streamed if kind != "audio-chunk"] == [
        "audio-start", "audio-stop", "synthesize-stopped",
    ]  # fmt: skip


def test_sound_comes_before_the_text_is_complete(server: Running) -> None:
    with connected(server) as client:
        say(client, "synthesize-start", voice={"name": "ann"})
        say(client, "synthesize-chunk", text="One two three four five six seven eight nine ten ")
        assert [(event(client) or ("",))[0] for _ in range(2)] == ["audio-start", "audio-chunk"]
        say(client, "synthesize-stop")
        assert events(client, "synthesize-stopped")[-1][0] == "synthesize-stopped"
        say(client, "synthesize-start")
        say(client, "synthesize-stop")  # without a word
        assert [kind for kind, _, _ in events(client, "synthesize-stopped")] == ["synthesize-stopped"]


def line(**head: Any) -> bytes:
    return json.dumps(head).encode() + b"\n"


BROKEN = {
    "not JSON": b"nonsense\n",
    "not an object": b"[]\n",
    "no type": line(data_length=0),
    "data that is not an object": line(type="synthesize", data=[1]),
    "data that is not JSON": line(type="synthesize", data_length=3) + b"{{{",
    "a huge length": line(type="synthesize", data_length=1 << 40),
    "a negative length": line(type="synthesize", data_length=-1),
    "a length that is not a number": line(type="synthesize", data_length="many"),
    "a huge payload": line(type="audio-chunk", payload_length=1 << 40),
    "an endless line": b"x" * (300 << 10),
    "no text": line(type="synthesize"),
    "an empty text": line(type="synthesize", data={"text": "  "}),
    "a text that is a number": line(type="synthesize", data={"text": 5}),
    "a text that is too long": line(type="synthesize", data={"text": "a" * 30_000}),
    "an unknown voice": line(type="synthesize", data={"text": "Hi.", "voice": {"name": "nobody"}}),
    "a voice that is a number": line(type="synthesize", data={"text": "Hi.", "voice": 5}),
    "an unknown language": line(type="synthesize", data={"text": "Hi.", "voice": {"language": "xx"}}),
    "a chunk before the start": line(type="synthesize-chunk", data={"text": "Hi."}),
    "a stop before the start": line(type="synthesize-stop"),
    "two starts": line(type="synthesize-start") * 2,
    "nothing readable": line(type="synthesize", data={"text": "..."}),
}


@pytest.mark.parametrize("sent", BROKEN.values(), ids=BROKEN.keys())
def test_a_wrong_event_is_answered_with_an_error_and_frees_its_slot(server: Running, sent: bytes) -> None:
    with connected(server) as client:
        client.write(sent)
        found = events(client, "error")
        assert found[-1][0] == "error" and found[-1][1]["text"] and found[-1][1]["code"]
        assert event(client) is None
    eventually(lambda: not server.state.calls and not server.state.models.all[0].tts.engine.engine.busy)


def test_events_of_other_services_and_their_payloads_are_ignored(server: Running) -> None:
    with connected(server) as client:
        say(client, "audio-chunk", b"\n{}" * 50_000, rate=16_000, width=2, channels=1)
        say(client, "transcribe")
        say(client, "ping")
        assert (event(client) or ("",))[0] == "pong"


def test_the_rest_of_an_event_must_arrive_in_time(server: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wyoming, "EVENT_S", 0.05)
    with connected(server) as client:
        client.write(line(type="synthesize", data_length=100) + b"{")
        assert events(client, "error")[-1][1]["code"] == "timeout"


def test_an_idle_client_is_disconnected(server: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wyoming, "IDLE_S", 0.05)
    with connected(server) as client:
        say(client, "synthesize-start")
        assert event(client) is None
    eventually(lambda: not server.server.door.tasks)


def test_clients_that_leave_in_the_middle_free_their_slots(server: Running) -> None:
    engine = server.state.models.all[0].tts.engine.engine
    for begin in (
        packed("synthesize", {"text": "A long text that goes on and on. " * 20}, b""),
        packed("synthesize-start", {}, b"") + packed("synthesize-chunk", {"text": "A text that goes on "}, b""),
    ):
        with first_sound_only(engine):
            with connected(server) as client:
                client.write(begin)
                assert [(event(client) or ("",))[0] for _ in range(2)] == ["audio-start", "audio-chunk"]
        eventually(lambda: not engine.busy and not server.state.calls and not server.server.door.tasks)
    with connected(server) as client:  # within an event
        client.write(line(type="synthesize", data_length=100) + b"{")
    eventually(lambda: not server.server.door.tasks)


def test_a_hundred_connections_are_all_answered(server: Running) -> None:
    def one(number: int) -> int:
        with connected(server) as client:
            say(client, "synthesize", text=f"Hello {number}.")
            return len(sound(events(client, "audio-stop")))

    with ThreadPoolExecutor(100) as pool:
        assert all(size > 100 for size in pool.map(one, range(100)))
    eventually(lambda: not server.state.calls and not server.server.door.tasks)


def test_the_limits_of_the_server_hold(serve: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    running = serve(max_per_client=1)
    with first_sound_only(running.state.models.all[0].tts.engine.engine):
        with connected(running) as busy, connected(running) as client:
            say(busy, "synthesize", text="A long text that goes on and on. " * 20)
            assert (event(busy) or ("",))[0] == "audio-start"
            say(client, "synthesize", text=TEXT)
            assert events(client, "error")[-1][1]["code"] == "rate_limit_exceeded"
    eventually(lambda: not running.server.door.limits.all)
    monkeypatch.setattr("omnitts_cli.server.protocol.MOST_CONNECTIONS", 1)
    with connected(running) as first, connected(running) as second:
        say(first, "ping")
        assert [kind for one in (first, second) for kind, _, _ in events(one, "pong")] == ["pong", "error"]


def test_the_client_of_home_assistant_is_understood(server: Running) -> None:
    client_of = pytest.importorskip("wyoming.client")
    from wyoming.audio import AudioChunk, AudioStart, AudioStop
    from wyoming.info import Describe, Info
    from wyoming.tts import (
        Synthesize,
        SynthesizeChunk,
        SynthesizeStart,
        SynthesizeStop,
        SynthesizeStopped,
        SynthesizeVoice,
    )  # fmt: skip

    async def listen(client: Any, last: type) -> list[Any]:
        found = []
        while not found or not last.is_type(found[-1].type):  # type: ignore[attr-defined]
            one = await asyncio.wait_for(client.read_event(), LONG_S)
            assert one is not None
            found.append(one)
        return found

    async def talk() -> tuple[Info, list[Any], list[Any]]:
        async with client_of.AsyncTcpClient("127.0.0.1", server.wyoming) as client:
            await client.write_event(Describe().event())
            info = Info.from_event((await listen(client, Info))[-1])
            voice = SynthesizeVoice(name=info.tts[0].voices[0].name)
            await client.write_event(Synthesize(text=TEXT, voice=voice).event())
            whole = await listen(client, AudioStop)
            await client.write_event(SynthesizeStart(voice=voice).event())
            for word in WORDS:
                await client.write_event(SynthesizeChunk(text=word).event())
            await client.write_event(Synthesize(text="".join(WORDS), voice=voice).event())
            await client.write_event(SynthesizeStop().event())
            return info, whole, await listen(client, SynthesizeStopped)

    info, whole, streamed = asyncio.run(talk())
    assert info.tts[0].supports_synthesize_streaming and info.tts[0].voices[0].languages
    for found in (whole, streamed):
        assert AudioStart.from_event(found[0]).rate == 8000
        assert sum(len(AudioChunk.from_event(one).audio) for one in found if AudioChunk.is_type(one.type)) > 1000
