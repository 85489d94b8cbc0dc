"""Engines in another process: the same sound as in this one, and what happens when the process ends."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from patience import LONG_S, eventually
from serving import SPEECH, start

from omnitts_cli.audio.pcm import to_int16
from omnitts_cli.devices.fingerprint import of_exact
from omnitts_cli.errors import ModelError
from omnitts_cli.kernels.cpu import library
from omnitts_cli.request import Request
from omnitts_cli.server import engines as server_engines
from omnitts_cli.server.engines import Engines
from omnitts_cli.speech import tts

TEXT = "Hello there. This is a longer text, which is spoken in several pieces. And one more."
LONG = "And so it goes on for a while. " * 600
TOY = {"device": "cpu", "threads": 1, "slots": 4}


@pytest.fixture(scope="module")
def engines() -> Iterator[Engines]:
    found = Engines()
    yield found
    found.close()


@pytest.fixture(scope="module")
def model(engines: Engines) -> tts.TTS:
    """The toy model in the other process; closed by the last test that uses it."""
    return engines.open("random:toy", **TOY)


@pytest.fixture(scope="module")
def here() -> Iterator[tts.TTS]:
    with tts.load("random:toy", **TOY) as found:
        yield found


def test_the_sound_is_that_of_this_process(model: tts.TTS, here: tts.TTS, engines: Engines) -> None:
    assert engines.pid not in (None, os.getpid())
    assert (model.sample_rate, model.voices, model.languages) == (here.sample_rate, here.voices, here.languages)
    there, own = model.speak(TEXT, seed=5), here.speak(TEXT, seed=5)
    assert np.array_equal(there.codes, own.codes)
    assert np.array_equal(to_int16(there.samples), to_int16(own.samples))


@pytest.mark.skipif(not library.usable(), reason="needs the compiled library")
def test_an_exact_engine_says_what_its_bits_depend_on(model: tts.TTS, engines: Engines) -> None:
    with tts.load("random:toy", **TOY, exact=True) as here, engines.open("random:toy", **TOY, exact=True) as there:
        assert there.engine.device.exact == of_exact(here.engine.device) is not None
    assert model.engine.device.exact is None


def test_live_text_clones_and_several_at_once(model: tts.TTS, here: tts.TTS) -> None:
    words = ["Hello ", "there, ", "my ", "friends."]
    live = [to_int16(one.stream(iter(words), seed=3).clip().samples) for one in (model, here)]
    assert np.array_equal(*live)
    clip = here.speak("A clip to clone.", seed=1)
    voices = [one.clone(clip, "A clip to clone.") for one in (model, here)]
    assert all(np.array_equal(getattr(voices[0].identity, name), getattr(voices[1].identity, name))
               for name in ("embedding", "codes"))  # fmt: skip
    texts = [f"Text number {number} of several." for number in range(6)]
    for one, other in zip(model.speak_all(texts, seed=2), here.speak_all(texts, seed=2), strict=True):
        assert np.array_equal(one.codes, other.codes)


def test_leaving_a_stream_frees_its_slot(model: tts.TTS) -> None:
    stream = model.stream(LONG, seed=1)
    next(stream)
    assert model.engine.running
    stream.close()
    eventually(lambda: not model.engine.running and not model.engine._callbacks)  # type: ignore[attr-defined]


def test_an_engine_that_waits_for_its_caller_is_not_stuck(model: tts.TTS, monkeypatch: pytest.MonkeyPatch) -> None:
    """No news come while the words are missing; the process is asked, and answers."""
    monkeypatch.setattr(server_engines, "ASK_S", 0.05)
    engine, news = model.engine, list[object]()
    name = engine.submit(Request("Hello my friends, "), news.append, live=True)
    answers: dict[int, set[float]] = {}  # by how many news had come

    def answered() -> bool:
        since = answers.setdefault(len(news), set())
        since.add(engine._heard)  # type: ignore[attr-defined]
        return len(since) > 5

    eventually(answered)
    engine.cancel(name)
    eventually(lambda: not model.engine._callbacks)  # type: ignore[attr-defined]
    assert engine.stuck_s() == 0


def test_errors_of_opening_are_those_of_this_process(engines: Engines, model: tts.TTS) -> None:
    with pytest.raises(ModelError, match="nonsense") as error:
        engines.open("nonsense", **TOY)
    assert error.value.hint
    assert model.engine.broken is None  # the others go on


def test_a_closed_model_leaves_the_others(engines: Engines, model: tts.TTS) -> None:
    second = engines.open("random:toy", **TOY)
    process = engines.pid
    second.close()
    assert model.speak("Still here.", seed=1).samples.size and engines.pid == process
    third = engines.open("random:toy", **TOY)  # never used, then closed
    third.close()
    assert engines.pid == process


def test_a_process_that_is_killed_is_replaced() -> None:
    """Its streams are cut, at once; the server is unhealthy until the next request, which gets a new process."""
    engines = Engines()
    try:
        with start(opened=engines.open) as server:
            assert server.speech().status == 200
            connection = server.connect()
            body = {"input": LONG, "response_format": "pcm", "stream": True, "stream_format": "audio", "seed": 1}
            connection.request("POST", SPEECH, json.dumps(body), {"Content-Type": "application/json"})
            answer = connection.getresponse()
            assert answer.status == 200 and answer.read(1000)
            first = engines.pid
            assert first
            os.kill(first, signal.SIGKILL)
            with pytest.raises(Exception, match=r"IncompleteRead|closed|reset"):
                answer.read()
            connection.close()
            assert eventually(lambda: server.request("GET", "/health").status == 503)
            again = server.speech()
            assert again.status == 200 and engines.pid not in (None, first)
            assert server.request("GET", "/health").status == 200
            assert "the process of the engines has ended" in "\n".join(server.lines)
    finally:
        engines.close()
    assert engines.pid is None


def test_a_process_that_opens_a_model_is_ended_at_once() -> None:
    engines, errors = Engines(), list[BaseException]()

    def open_slowly() -> None:
        try:
            engines.open(LONG_S, opener=time.sleep)  # type: ignore[arg-type]
        except RuntimeError as error:
            errors.append(error)

    thread = threading.Thread(target=open_slowly)
    thread.start()
    eventually(lambda: engines.pid)
    engines.close(0.0)
    thread.join(LONG_S / 2)
    assert not thread.is_alive() and errors and engines.pid is None


def test_the_process_ends_with_the_one_that_started_it(tmp_path: Path) -> None:
    """Also when that is killed, which leaves it no time to say so."""
    program = (
        "import time; from omnitts_cli.server.engines import Engines; engines = Engines();"
        "engines.open('random:toy', device='cpu', threads=1, slots=1); print(engines.pid, flush=True); time.sleep(60)"
    )
    parent = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert parent.stdout
    child = int(parent.stdout.readline())
    parent.kill()
    parent.wait()
    stat = Path(f"/proc/{child}/stat")
    eventually(lambda: not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] == "Z")
