"""omnitts serve --ray: two replicas behind one port, on processors of this machine."""

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

import pytest

from omnitts_cli.errors import ModelError
from omnitts_cli.server import cluster
from omnitts_cli.server.replica import Order
from omnitts_cli.server.run import CUT_OFF
from omnitts_cli.server.voices import CHECK_S
from omnitts_cli.settings.commands import Serving

pytest.importorskip("ray.serve")

LONG = "And so it goes on for quite a while. " * 20
TOGETHER = 8


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a cluster of two replicas. It ends in order."""
    folder = tmp_path_factory.mktemp("cluster")
    command = [sys.executable, "-m", "omnitts_cli", "serve", "--ray", "local", "--replicas", "2", "--port", "0"]
    command += ["-m", "random:toy", "-d", "cpu", "-b", "8", "--voices-dir", str(folder), "--drain", "5"]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(Path(__file__).parents[2])}
    with (folder / "log").open("w+") as log:
        server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, env=environment, cwd=folder)
        assert server.stdout
        line = server.stdout.readline().strip()
        log.seek(0)
        assert line.startswith("http://"), log.read()
        yield line
        server.send_signal(signal.SIGTERM)
        code = server.wait(60)
        log.seek(0)
        assert code == 0, log.read()


def begun(url: str, **fields: Any) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
    """A request whose answer has begun."""
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=60)
    given = {"input": "Hello there.", "response_format": "pcm", "seed": 7}
    body = {**given, "stream": True, "stream_format": "audio", **fields}
    connection.request("POST", "/v1/audio/speech", json.dumps(body), {"Content-Type": "application/json"})
    return connection, connection.getresponse()


def replica(answer: http.client.HTTPResponse) -> int:
    """The process that answers."""
    host, _, process = answer.headers["X-Replica"].rpartition(":")
    assert host == socket.gethostname()
    return int(process)


class Died(Exception):
    """Ray's error for an actor that has died."""


def test_a_proxy_that_dies_while_it_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    def dies(**options: Any) -> None:
        raise Died("The actor died unexpectedly.\n\tclass_name: HAProxyManager\nThe actor never ran.")

    ended: list[bool] = []
    ray = SimpleNamespace(
        init=lambda **options: None, cluster_resources=lambda: {"CPU": 2.0}, shutdown=lambda: ended.append(True),
        exceptions=SimpleNamespace(RayError=Died),
    )  # fmt: skip
    monkeypatch.setattr(cluster, "required", lambda address: (ray, SimpleNamespace(start=dies)))
    monkeypatch.setattr(signal, "signal", lambda number, handler: None)
    order = Order.of(Serving(), {}, {"device": "cpu"}, alone=True)
    with pytest.raises(ModelError, match="the replicas did not start") as caught:
        cluster.run(order, "local", 1, print, print)
    assert caught.value.cause == "The actor never ran." and ended


def test_a_second_signal_ends_the_wait_for_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    handlers: dict[int, Any] = {}

    def ready() -> None:
        handlers[signal.SIGTERM](signal.SIGTERM, None)

    def delete(name: str) -> None:
        ended.append("asked")
        handlers[signal.SIGINT](signal.SIGINT, None)
        ended.append("waited")

    ended: list[str] = []
    ray = SimpleNamespace(
        init=lambda **options: None, cluster_resources=lambda: {"CPU": 2.0}, shutdown=lambda: ended.append("shut down"),
        exceptions=SimpleNamespace(RayError=Died),
    )  # fmt: skip
    serve = SimpleNamespace(start=lambda **options: None, run=lambda *given, **more: None, delete=delete)
    monkeypatch.setattr(cluster, "required", lambda address: (ray, serve))
    monkeypatch.setattr(Order, "deployment", lambda *given: None)
    monkeypatch.setattr(signal, "signal", handlers.__setitem__)
    order = Order.of(Serving(), {}, {"device": "cpu"}, alone=True)
    assert cluster.run(order, "local", 1, print, ready) == CUT_OFF
    assert ended == ["asked", "shut down"]


@pytest.mark.slow
def test_one_replica_is_killed_in_mid_stream(url: str) -> None:
    """Only its streams end, unfinished and without a second try; the others go on, and a new replica comes."""
    _, alone = begun(url, input=LONG, ignore_eos=True, max_new_tokens=800)
    whole = alone.read()
    running = [begun(url, input=LONG, ignore_eos=True, max_new_tokens=800)[1] for _ in range(TOGETHER)]
    heads = [answer.read(1000) for answer in running]
    assert {answer.status for answer in running} == {200}, heads
    there = [replica(answer) for answer in running]
    victim, other = sorted(set(there), key=there.count)  # two of them
    os.kill(victim, signal.SIGKILL)

    def rest(answer: http.client.HTTPResponse) -> bytes | None:
        try:
            return answer.read()
        except (http.client.IncompleteRead, ConnectionError):
            return None

    with ThreadPoolExecutor(TOGETHER) as pool:
        rests = list(pool.map(rest, running))
    for process, head, tail in zip(there, heads, rests, strict=True):
        if process == victim:
            assert tail is None
        else:
            assert tail is not None and head + tail == whole
    found: set[int] = set()
    end = time.monotonic() + 60
    while len(found) < 2 and time.monotonic() < end:
        connection, answer = begun(url)
        if answer.status == 200:
            found.add(replica(answer))
        answer.read()
        connection.close()
        time.sleep(0.1)
    assert other in found and victim not in found and len(found) == 2


@pytest.mark.slow
def test_the_replicas_answer_as_one_server(url: str) -> None:
    """Same sound from both, the same errors, and a voice that one has saved is known to the other."""
    sounds: dict[int, set[bytes]] = {}
    while len(sounds) < 2:
        connection, answer = begun(url)
        assert len(answer.headers.get_all("X-Request-Id", [])) == 1
        sounds.setdefault(replica(answer), set()).add(answer.read())
        connection.close()
    assert len(set.union(*sounds.values())) == 1
    connection, answer = begun(url, input="")
    assert answer.status == 400 and json.loads(answer.read())["error"]["type"] == "invalid_request_error"
    connection, answer = begun(url, voice="nobody")
    assert answer.status == 404
    form = ["-F", "name=bob", "-F", "design=a deep voice", "-F", "consent=none needed"]
    saved = subprocess.run(["curl", "-s", *form, f"{url}/v1/audio/voices"], capture_output=True, check=True)
    assert json.loads(saved.stdout)["success"]
    time.sleep(CHECK_S + 0.1)  # a replica lists the folder again after that
    spoken: set[int] = set()
    while len(spoken) < 2:
        connection, answer = begun(url, voice="bob")
        assert answer.status == 200 and answer.read()
        spoken.add(replica(answer))
        connection.close()
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=60)
    connection.request("GET", "/metrics")
    assert connection.getresponse().status == 404
