"""The life of a server: limits, clients that go or are slow, engines that fail, models that come and go, the end."""

import asyncio
import gc
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import warm
from patience import LONG_S, eventually, first_sound_only
from serving import Running

from omnitts_cli.engine.engine import Engine
from omnitts_cli.errors import DeviceError, ModelError
from omnitts_cli.server import listen, run
from omnitts_cli.server import models as server_models
from omnitts_cli.server import state as server_state
from omnitts_cli.server.guard import Guard
from omnitts_cli.server.hub import Hub
from omnitts_cli.server.models import Models, ServedModel, planned
from omnitts_cli.settings.commands import Serving
from omnitts_cli.speech import load

LONG = {"ignore_eos": True, "max_new_tokens": 1400}
SHORTER = {"ignore_eos": True, "max_new_tokens": 600}  # still more than all buffers hold


def begin(where: Running | int, **fields: Any) -> http.client.HTTPResponse:
    """A request whose first sound has come. Its client takes little sound that it does not read."""
    port = where if isinstance(where, int) else where.port
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=LONG_S)
    connection.sock = socket.socket()
    connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.sock.connect(("127.0.0.1", port))
    body = {"input": "A text.", "response_format": "pcm", "stream": True, "stream_format": "audio", **LONG, **fields}
    connection.request("POST", "/v1/audio/speech", json.dumps(body), {"Content-Type": "application/json"})
    response = connection.getresponse()
    assert response.status == 200 and response.read(1280)
    response.held = connection  # type: ignore[attr-defined]
    return response


def engine_of(running: Running) -> Engine:
    return running.state.models.all[0].tts.engine.engine


def test_a_client_has_so_many_requests_at_a_time(serve: Any) -> None:
    running = serve(max_per_client=1)
    with first_sound_only(engine_of(running)):
        first = begin(running)
        assert running.speech().status == 429
    first.held.sock.shutdown(socket.SHUT_RDWR)  # type: ignore[attr-defined]
    eventually(lambda: not running.state.calls)
    assert running.speech().status == 200


def test_a_wait_for_a_slot_ends(serve: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_state, "SWEEP_S", 0.02)
    running = serve(engine={"slots": 1})
    with first_sound_only(engine_of(running)):
        begin(running)
        running.state.options = replace(running.state.options, queue_timeout=0.05)
        answer = running.speech()
    assert answer.status == 503 and answer.json["error"]["code"] == "queue_timeout" and "retry-after" in answer.headers


def test_a_client_that_takes_no_sound_is_dropped(serve: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listen, "USER_TIMEOUT_MS", round(2000 * LONG_S))  # else the system drops it after 30 s
    running = serve()
    response = begin(running, **LONG)
    running.state.options = replace(running.state.options, slow_timeout=0.3)
    eventually(lambda: not running.state.calls)  # its buffers are full by then
    with pytest.raises((http.client.IncompleteRead, ConnectionError)):
        response.read()


def test_sound_that_is_not_taken_pauses_the_request_furthest_ahead(serve: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_state, "MOST_WAITING_BYTES", 100_000)
    running = serve()
    response = begin(running, **LONG)
    call = next(iter(running.state.calls))
    eventually(lambda: call.paused)
    assert len(response.read()) == 1400 * 640 * 2 - 1280  # it goes on when its client does


def test_a_failed_engine_is_reported_and_replaced(serve: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    running = serve()

    def broken(self: Engine) -> Any:
        raise RuntimeError("a secret of the inside")

    with monkeypatch.context() as patch:
        with first_sound_only(engine_of(running)):
            response = begin(running)
            patch.setattr(Engine, "step", broken)
        with pytest.raises(http.client.IncompleteRead):  # the stream is cut: nobody takes half for the whole
            response.read()
        eventually(lambda: running.request("GET", "/health").status == 503)
        assert running.request("GET", "/ready").status == 503
        failed = running.speech()
        assert failed.status == 500 and b"secret" not in failed.body
        assert any("a secret of the inside" in line for line in running.lines)
    assert running.speech().status == 200  # with a new engine
    assert running.request("GET", "/health").status == 200


def test_a_model_without_room_takes_that_of_an_idle_one(serve: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    running = serve(models=("random:toy", "random:TOY"))
    first, second = running.state.models.all
    plain, full = load.open_engine, True

    def open_engine(name: str, **options: Any) -> Engine:
        if full and first.tts is not None:
            raise DeviceError("no memory")
        return plain(name, **options)

    monkeypatch.setattr(load, "open_engine", open_engine)
    with first_sound_only(engine_of(running)):
        response = begin(running)
        busy = running.speech(model="random:TOY")
    assert busy.status == 503 and busy.json["error"]["code"] == "model_busy"
    response.held.sock.shutdown(socket.SHUT_RDWR)  # type: ignore[attr-defined]
    eventually(lambda: not running.state.calls)
    assert running.speech(model="random:TOY").status == 200
    assert first.tts is None and second.tts is not None


def test_an_idle_model_is_unloaded_and_comes_back(serve: Any) -> None:
    running = serve(idle_unload=0.3)
    model = running.state.models.all[0]
    eventually(lambda: model.state == "unloaded")
    assert running.request("GET", "/v1/models").json["data"][0]["state"] == "unloaded"
    assert running.speech().status == 200


@pytest.mark.parametrize("fails", [False, True])
def test_a_client_that_leaves_a_loading_lets_no_other_begin(fails: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both would be fitted into the same free memory."""
    go, begun = threading.Event(), list[str]()
    monkeypatch.setattr(server_models, "warm_up", lambda tts: None)

    def opened(model: ServedModel) -> Any:
        begun.append(model.name)
        assert go.wait(LONG_S)
        if fails:
            raise ModelError("no such weights")
        about = SimpleNamespace(kinds=frozenset({"named"}))
        return SimpleNamespace(engine=SimpleNamespace(model=about, plan=SimpleNamespace(slots=2)),
                               loop=SimpleNamespace(broken=None))  # fmt: skip

    async def work() -> list[Any]:
        unseen: list[Any] = []
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: unseen.append(context))
        models = Models(planned(("random:toy", "random:TOY")), Hub(), opened)
        first, second = models.all
        leaving = asyncio.create_task(models.ready(first))
        await asyncio.to_thread(eventually, lambda: begun)
        leaving.cancel()
        await asyncio.wait({leaving})
        others = [asyncio.create_task(models.ready(model)) for model in (first, second)]
        await asyncio.sleep(0.02)
        found = (list(begun), first.state)
        others.pop(0).cancel()
        go.set()
        assert found == (["random:toy"], "loading")
        await asyncio.wait(others)
        assert begun == ["random:toy", "random:TOY"]
        assert {first.state, second.state} == {"failed" if fails else "ready"} and first.loading is None
        assert isinstance(others[0].exception(), ModelError) is fails
        gc.collect()
        return unseen

    assert asyncio.run(work()) == []


def test_the_metrics_count(server: Running) -> None:
    server.speech()
    eventually(lambda: not engine_of(server).busy)
    text = server.request("GET", "/metrics").body.decode()
    assert 'omnitts_requests_total{model="random:toy",outcome="ok",task="CustomVoice"}' in text
    assert 'omnitts_slots{state="free"} 4.0' in text and "omnitts_first_sound_seconds_bucket" in text
    assert 'omnitts_model_loaded{model="random:toy"} 1.0' in text


def process(*more: str, **environment: str) -> tuple[subprocess.Popen[str], str]:
    """A server in a process of its own, ready, and its address."""
    command = [sys.executable, "-m", "omnitts_cli", "serve", "-m", "random:toy", "--port", "0", "-d", "cpu", "-b", "2"]
    given = {**os.environ, "OMNITTS_THREADS": "1", **environment}
    running = warm.Process([*command, "--socket", "off", *more], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                           text=True, env=given)  # fmt: skip
    assert running.stdout and running.stderr
    url = running.stdout.readline().strip()
    while "ready" not in running.stderr.readline():
        assert running.poll() is None
    return running, url


def test_a_signal_lets_requests_end(tmp_path: Path) -> None:
    notify = tmp_path / "notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(notify))
        running, url = process(NOTIFY_SOCKET=str(notify))
        systemd.settimeout(LONG_S)
        assert systemd.recv(100) == b"READY=1"
        response = begin(int(url.rpartition(":")[2]), **SHORTER)
        running.send_signal(signal.SIGTERM)
        assert systemd.recv(100) == b"STOPPING=1"
        assert len(response.read()) == 600 * 640 * 2 - 1280
        assert running.wait(LONG_S) == 0


def test_a_drain_that_takes_too_long_is_143() -> None:
    running, url = process("--drain", "200ms")
    response = begin(int(url.rpartition(":")[2]), **SHORTER)
    running.send_signal(signal.SIGTERM)
    assert running.wait(LONG_S) == 143
    response.close()


def test_a_signal_does_not_wait_for_a_model_that_is_loading() -> None:
    """However long --drain is: a loading thread cannot be stopped, so what it waits for is ended."""
    begun, aborted = threading.Event(), threading.Event()

    def load(model: ServedModel) -> Any:
        begun.set()
        assert aborted.wait(LONG_S), "the server waits for the model"
        raise RuntimeError("the process has ended")

    async def work() -> int:
        sockets = [listen.tcp("127.0.0.1", 0)]
        serving = Serving(model=("random:toy",), drain=900.0)
        server = run.HttpServer(serving, Guard(), planned(serving.model), load, sockets, abort=aborted.set)
        task = asyncio.create_task(server.serve())
        assert await asyncio.to_thread(begun.wait, LONG_S)
        server.stop()
        return await task

    assert asyncio.run(work()) == 0 and aborted.is_set()


ACTIVATED = """
import os, sys
os.dup2(int(sys.argv[1]), 3)  # where systemd puts the first socket
os.environ |= {"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": "1"}
os.execv(sys.executable, [sys.executable, "-m", "omnitts_cli", "serve", "-m", "random:toy", "-d", "cpu", "--port", "1"])
"""


def test_a_socket_of_systemd_is_used_instead_of_a_port() -> None:
    """Requests that came before the server was there are answered too."""
    with socket.create_server(("127.0.0.1", 0)) as given:
        port = given.getsockname()[1]
        early = socket.create_connection(("127.0.0.1", port), timeout=LONG_S)
        early.sendall(b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        command = [sys.executable, "-c", ACTIVATED, str(given.fileno())]
        running = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, pass_fds=[given.fileno()]
        )
    assert running.stdout
    assert running.stdout.readline().strip() == f"http://127.0.0.1:{port}"
    with early:
        assert early.recv(100).startswith(b"HTTP/1.1 200 ")
    running.send_signal(signal.SIGTERM)
    out, errors = running.communicate(timeout=LONG_S)
    assert running.returncode == 0 and not out, errors


def test_a_server_that_ends_removes_its_own_unix_socket_only(tmp_path: Path) -> None:
    """Not one of systemd, and not that of the next server at the same path."""
    path, other = tmp_path / "ours", tmp_path / "systemd"
    ours = listen.unix(path, ours=False)
    assert ours is not None
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as given:
        given.bind(str(other))
        sockets = [ours, listen.prepared(given)]
        serving = Serving(model=("random:toy",), preload="none")
        server = run.HttpServer(serving, Guard(), [], lambda model: None, sockets, lambda: server.stop())  # type: ignore[arg-type, return-value]
        assert asyncio.run(server.serve()) == 0
        assert not path.exists() and other.exists()
        following = listen.unix(path, ours=False)
        run.closed(sockets)
        assert path.exists() and other.exists()
    assert following is not None
    run.closed([following])
    assert not path.exists()
