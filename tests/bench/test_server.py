"""A server as a target: a real one on the loopback that streams, and everything that can be wrong with it."""

import itertools
from typing import Any

import numpy as np
import pytest
from bench_kit import works
from speech_server import Plan, SpeechServer, tone

from omnitts_cli.bench.load import Extent, closed_loop, open_loop
from omnitts_cli.bench.record import Work
from omnitts_cli.bench.server import Asking, ServerTarget, first_listed, said
from omnitts_cli.bench.stats import level
from omnitts_cli.request import Request
from omnitts_cli.speech.servers import Address
from omnitts_cli.voices import Named


def target(server: SpeechServer, keep: bool = False, **asking: Any) -> ServerTarget:
    return ServerTarget(Address.of(server.url), Asking("m", **asking), keep=keep)


def run(server: SpeechServer, level_: int = 1, count: int = 3, **asking: Any) -> Any:
    with server, target(server, **asking) as at:
        return closed_loop(at, works(), level_, Extent(count))


STREAM = Plan(packets=((0.15, 2400), (0.20, 4800), (0.80, 7200)), silent=1200)


def median(values: list[float]) -> float:
    return float(np.median(values))


@pytest.mark.parametrize("on_time", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("sound", ["pcm", "wav"])
def test_no_figure_of_a_stream_is_better_than_what_the_server_did(sound: str, on_time: bool) -> None:
    """In real time: on a quiet machine, every figure is right."""
    server = SpeechServer(STREAM)
    figures = level(run(server, 3, 6, sound=sound), concurrency=3)
    assert (figures.requests, figures.failed, figures.most_in_flight) == (6, 0, 3)
    assert figures.audio_s == pytest.approx(6 * 0.6)
    assert figures.onset_ms["median"] == pytest.approx(50)
    first = median([1000 * (seen.sent[0] - seen.came) for seen in server.seen])
    last = median([1000 * (seen.sent[2] - seen.came) for seen in server.seen])
    assert first <= figures.ttfp_ms["median"] and last <= figures.e2el_ms["median"]
    assert first + 50 <= figures.audible_ms["median"] + 1e-6
    assert (figures.frames, figures.host_syncs_per_frame, figures.peak_memory_bytes) == (None, None, None)
    if not on_time:
        return
    whole = median([1000 * (seen.done - seen.came) for seen in server.seen])
    gap = max(1000 * (seen.sent[2] - seen.sent[1]) for seen in server.seen)
    near = {"rel": 0.02, "abs": 8.0}  # the server's own thread has to be woken up, too
    assert figures.ttfp_ms["median"] == pytest.approx(first, **near)
    assert figures.audible_ms["median"] == pytest.approx(first + 50, **near)
    assert figures.e2el_ms["median"] == pytest.approx(whole, **near)
    assert figures.rtf["median"] == pytest.approx(whole / 600, rel=0.03)
    assert figures.gap_ms_max == pytest.approx(gap, rel=0.02, abs=20)
    assert figures.underruns == 6


@pytest.mark.parametrize("sound", ["pcm", "wav"])
@pytest.mark.parametrize(
    "how", [{"stream": True}, {"stream": False}, {"body": {"stream_format": "sse"}}], ids=["stream", "whole", "events"]
)
def test_the_samples_are_those_that_were_sent(sound: str, how: dict[str, Any]) -> None:
    server = SpeechServer(Plan(packets=((0.0, 999), (0.01, 1), (0.02, 5000))))
    with server, target(server, keep=True, sound=sound, **how) as at:
        result = closed_loop(at, works(), 1, Extent(1)).results[0]
    assert result.failure is None
    expected = tone(6000, 0).astype(np.float32) / 32768
    assert np.array_equal(np.concatenate(result.sound), expected)


PCM, WAV, WHOLE = {"sound": "pcm"}, {"sound": "wav"}, {"sound": "pcm", "stream": False}
EVENTS = {"body": {"stream_format": "sse"}}


@pytest.mark.parametrize(("wrong", "how", "words"), [
    ("busy", PCM, 'HTTP 503: {"error": {"message": "the queue is full"}}'),
    ("json", PCM, "application/json instead of audio"), ("events", PCM, "text/event-stream instead of audio"),
    ("empty", PCM, "no audio"), ("empty", WAV, "no audio"),
    ("cut", PCM, "the connection closed before the end of the audio"),
    ("no end", PCM, "the connection closed before the end of the audio"),
    ("short wav", WAV, "before its declared length"), ("short length", WHOLE, "bytes too early"),
    ("half sample", PCM, "middle of a sample"), ("no done", EVENTS, "ended without speech.audio.done"),
    ("event error", EVENTS, "the server gave up: {'message': 'no room'}"),
])  # fmt: skip
def test_what_is_not_whole_is_a_failure(wrong: str, how: dict[str, Any], words: str) -> None:
    server = SpeechServer(Plan(wrong=wrong), Plan())
    figures = level(run(server, 1, 2, **how))
    assert (figures.requests, figures.failed) == (1, 1)
    assert figures.audio_s == pytest.approx(0.4)
    assert words in next(iter(figures.failures))


def test_without_a_server_every_request_fails() -> None:
    server = SpeechServer()
    address = Address.of(server.url)
    with server:
        pass
    with ServerTarget(address, Asking("m")) as at:
        found = level(closed_loop(at, works(), 2, Extent(4)))
    assert found.failed == 4
    assert list(found.failures) == ["ConnectionRefusedError: Connection refused"]


def test_an_open_loop_opens_as_many_connections_as_it_takes() -> None:
    server = SpeechServer(Plan(packets=((2.0, 2400),)))
    with server, target(server) as at:
        found = open_loop(at, works(), [0.005 * n for n in range(20)], Extent(20))
    assert found.most_in_flight == 20
    assert all(result.failure is None for result in found.results)


def test_a_request_says_what_was_asked() -> None:
    server = SpeechServer()
    work = Work(Request("Grüß dich", Named("ann"), style="softly"))
    body = {"language": "German", "stream": False}
    with server, target(server, api_key="k-1", body=body, sound="wav") as at:
        closed_loop(at, itertools.repeat(work), 1, Extent(1))
    seen = server.seen[0]
    assert seen.path == "/v1/audio/speech"
    assert seen.headers["Authorization"] == "Bearer k-1"
    assert seen.fields == {
        "model": "m", "input": "Grüß dich", "voice": "ann", "response_format": "wav", "stream": False,
        "instructions": "softly", "language": "German",
    }  # fmt: skip


def test_the_key_is_not_shown() -> None:
    assert "k-1" not in repr(Asking("m", api_key="k-1"))


def test_failures_read_short() -> None:
    assert said(TimeoutError()) == "no answer for 300 s"
    assert (
        said(ConnectionResetError(104, "Connection reset by peer")) == "ConnectionResetError: Connection reset by peer"
    )
    assert len(said(OSError("x" * 999))) <= 200


def test_a_fixed_number_of_frames_is_asked_for_and_checked() -> None:
    whole, short = (Plan(packets=((0.0, 1920 * frames),)) for frames in (10, 9))
    server = SpeechServer(whole, short)
    work = Work(Request("hello", Named("ann"), max_frames=10, ignore_end=True))
    with server, target(server) as at:
        found = closed_loop(at, itertools.repeat(work), 1, Extent(2))
    assert (server.seen[0].fields["ignore_eos"], server.seen[0].fields["max_new_tokens"]) == (True, 10)
    assert [result.failure for result in found.results] == [None, "9 frames instead of 10"]


def test_the_first_model_and_voice_of_a_list(monkeypatch: pytest.MonkeyPatch) -> None:
    import serving

    with serving.start() as server:
        address = Address.of(server.url)
        assert [first_listed(address, what, None) for what in ("models", "voices")] == ["random:toy", "ann"]
        assert first_listed(Address.of(f"{server.url}/nowhere"), "models", None) is None
    assert first_listed(address, "models", None) is None
