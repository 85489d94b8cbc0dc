"""A server of the toy model, in a thread of this process, and plain HTTP requests to it."""

import asyncio
import http.client
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any
from unittest import mock

from patience import LONG_S
from wire import Answer, ask

from omnitts_cli.audio.pcm import to_int16
from omnitts_cli.server import listen, run
from omnitts_cli.server import models as server_models
from omnitts_cli.server.guard import Guard
from omnitts_cli.server.models import ServedModel, introduce, planned
from omnitts_cli.settings.commands import Serving
from omnitts_cli.speech import tts

SPEECH = "/v1/audio/speech"


@dataclass
class Running:
    """A server that runs in a thread."""

    server: run.HttpServer
    port: int
    loop: asyncio.AbstractEventLoop
    lines: list[str]
    code: list[int] = field(default_factory=list)
    wyoming: int = 0  # the port

    @property
    def url(self) -> str:
        """The address."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def state(self) -> Any:
        """What the server's requests share."""
        return self.server.state

    def on_loop(self, function: Callable[[], Any]) -> Any:
        """The result of a function that runs on the server's event loop."""
        done: Any = asyncio.run_coroutine_threadsafe(_called(function), self.loop)
        return done.result(60)

    def connect(self) -> http.client.HTTPConnection:
        """An open connection."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=LONG_S)
        connection.connect()
        return connection

    def request(self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None) -> Answer:
        """One request on a connection of its own."""
        return ask(self.url, path, body, method=method, headers=headers)

    def speech(self, text: str = "Hello there.", **fields: Any) -> Answer:
        """POST /v1/audio/speech, as raw samples unless `fields` say otherwise."""
        return self.request("POST", SPEECH, {"input": text, "response_format": "pcm", "seed": 7, **fields})


async def _called(function: Callable[[], Any]) -> Any:
    return function()


GARBAGE = SimpleNamespace(collect=lambda: 0, freeze=lambda: None, unfreeze=lambda: None)
"""A server looks for garbage when a model comes or goes: half a second each time, among the objects of all tests."""


@contextmanager
def start(
    models: tuple[str, ...] = ("random:toy",),
    *,
    keys: dict[bytes, str] | None = None,
    engine: dict[str, Any] | None = None,
    opened: Callable[..., tts.TTS] = tts.load,
    **options: Any,
) -> Iterator[Running]:
    """A server with these options of `omnitts serve`; it has been shut down when the block ends.

    `opened` opens a model. By default the engine is in this process, where tests can look into it.
    """
    serving = Serving(model=models, port=0, socket="off", **{"drain": 1.0, **options})
    guard = Guard.of(serving, keys or {})

    def load(model: ServedModel) -> tts.TTS:
        voice = {} if model.voice is None else {"voice": model.voice}
        settings = {"slots": 4, "device": "cpu", **(engine or {}), **voice}
        found = opened(model.source, variant=model.variant, threads=1, **settings)
        introduce(model, found, "auto", "auto")
        return found

    ready, lines = threading.Event(), []
    sockets = [listen.tcp(serving.host, 0)]
    port = sockets[0].getsockname()[1]
    door = listen.tcp("127.0.0.1", 0)
    server = run.HttpServer(
        serving, guard, planned(serving.model), load, sockets, ready.set, lines.append, wyoming=door
    )
    running = Running(
        server, port, (run.loop_factory() or asyncio.new_event_loop)(), lines, wyoming=door.getsockname()[1]
    )

    def target() -> None:
        asyncio.set_event_loop(running.loop)
        try:
            running.code.append(running.loop.run_until_complete(server.serve()))
        finally:
            ready.set()

    thread = threading.Thread(target=target, daemon=True)
    with mock.patch.object(server_models, "gc", GARBAGE):
        thread.start()
        assert ready.wait(LONG_S)
        try:
            yield running
        finally:
            if thread.is_alive():
                running.loop.call_soon_threadsafe(server.stop)
            thread.join(LONG_S)
            run.closed([*sockets, door])
            assert not thread.is_alive(), "the server did not end"


def samples_of_say(text: str) -> bytes:
    """What `omnitts say --seed 7` makes of a text, as 16-bit samples."""
    with tts.load("random:toy", threads=1, slots=4, device="cpu") as model:
        return to_int16(model.speak(text, seed=7).samples).tobytes()
