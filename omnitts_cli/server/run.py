"""Run: from open sockets to the end of the last request."""

import asyncio
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import uvicorn

from omnitts_cli.server import listen, streams, wyoming
from omnitts_cli.server.app import App
from omnitts_cli.server.guard import Guard
from omnitts_cli.server.models import ServedModel
from omnitts_cli.server.protocol import Connections, Protocol, WebSocket
from omnitts_cli.server.state import ServerState
from omnitts_cli.server.worker import SWITCH_S
from omnitts_cli.settings.commands import Serving
from omnitts_cli.settings.environment import server_socket
from omnitts_cli.speech.tts import TTS
from omnitts_cli.terminal.signals import SIGNALS

CUT_OFF = 143
LAST_S = 2.0  # for connections to close, after the last request
LARGEST_MESSAGE = 8 << 20  # bytes; larger ones close a WebSocket, and `live` refuses smaller ones with an error
PING_S = 20.0


@dataclass
class HttpServer:
    """One server, from its sockets to its end."""

    options: Serving
    guard: Guard
    models: list[ServedModel]
    load: Callable[[ServedModel], TTS]
    sockets: list[socket.socket]
    ready: Callable[[], None] = lambda: None
    log: Callable[[str], None] = lambda line: None
    abort: Callable[[], None] = lambda: None
    """Ends a loading that is under way."""
    wyoming: socket.socket | BinaryIO | None = None
    """Where Wyoming is spoken: at a listening socket, or over stdin and this file."""
    state: ServerState = field(init=False)
    stop: Callable[[], None] = field(init=False)
    """Called on the event loop: the first time the server drains, the second time it ends at once."""
    door: streams.Door = field(init=False)

    def run(self) -> int:
        """Serves until a signal; returns the exit code."""
        sys.setswitchinterval(SWITCH_S)
        for name in ("uvicorn.error", "uvicorn.access", "websockets", "asyncio"):
            logging.getLogger(name).setLevel(logging.CRITICAL + 1)  # errors are in our own log
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            return runner.run(self.serve())

    async def serve(self) -> int:
        """The same on a running event loop."""
        self.state = ServerState.of(self.options, self.guard, self.models, self.load, self.log)
        models = self.state.models
        limits = Connections()
        protocol: Any = type("ServerProtocol", (Protocol,), {"limits": limits})
        websocket: Any = type("ServerWebSocket", (WebSocket,), {"limits": limits})
        config = uvicorn.Config(
            App(self.state), http=protocol, ws=websocket, ws_max_size=LARGEST_MESSAGE,
            ws_ping_interval=PING_S, ws_ping_timeout=PING_S, ws_per_message_deflate=False, lifespan="off",
            log_config=None, access_log=False, server_header=False, proxy_headers=False, loop="none",
        )  # fmt: skip
        server = uvicorn.Server(config)
        config.load()
        server.lifespan = config.lifespan_class(config)
        stop = StopSignals()
        self.stop = stop.ask
        await server.startup(sockets=self.sockets)
        self.door = streams.Door(self.state, limits, wyoming.conversation)
        tasks = [asyncio.create_task(one) for one in (self.state.sweep(), limits.sweep(), server.main_loop())]
        talking = asyncio.create_task(self.speak_wyoming())
        loading = asyncio.create_task(models.preload(self.options.preload))
        try:
            with stop.signals():
                await asyncio.wait({loading, stop.task}, return_when=asyncio.FIRST_COMPLETED)
                if loading.done():
                    loading.result()  # a model that cannot be loaded ends the server
                    self.ready()
                    listen.notify("READY=1")
                    await stop.task
                listen.notify("STOPPING=1")
                code = await self.drain(server, stop)
                if talking.done():
                    talking.result()
                return code
        finally:
            for task in (*tasks, talking, loading):
                task.cancel()
            await self.state.clips.close()
            if any(model.loading is not None for model in self.models):
                self.abort()  # the thread that loads cannot be stopped otherwise, and this process would wait for it
            models.end()

    async def speak_wyoming(self) -> None:
        """Speaks Wyoming, if it is asked for. At the end of the standard streams the server ends."""
        place = self.wyoming
        if isinstance(place, socket.socket):
            await self.door.listen(place)
            await streams.announce(place, "_wyoming._tcp", self.log)
        elif place is not None:
            try:
                await self.door.use_standard_streams(place)
            finally:
                self.stop()

    async def drain(self, server: uvicorn.Server, stop: "StopSignals") -> int:
        """Lets running requests end. Returns the exit code."""
        self.state.draining = True
        removed(self.sockets)
        for one in server.servers:
            one.close()
        self.door.shut()
        for connection in list(server.server_state.connections):
            if hasattr(connection, "pipeline"):  # HTTP: idle ones close, others after their answer
                connection.shutdown()
        until = time.monotonic() + self.options.drain
        while self.state.calls and time.monotonic() < until and not stop.again:
            await asyncio.sleep(0.02)
        cut = bool(self.state.calls)
        for connection in list(server.server_state.connections):
            connection.shutdown()
        await self.door.end()
        if cut:
            for task in list(server.server_state.tasks):
                task.cancel()
        until = time.monotonic() + (0.2 if cut else LAST_S)
        while server.server_state.connections and time.monotonic() < until and not stop.again:
            await asyncio.sleep(0.02)
        return CUT_OFF if cut else 0


class StopSignals:
    """The signals that end a server: the first drains, the second ends at once."""

    def __init__(self) -> None:
        self._asked = asyncio.Event()
        self.task = asyncio.create_task(self._asked.wait())
        self.again = False

    def ask(self) -> None:
        """A signal, or a call with the same effect."""
        self.again = self._asked.is_set()
        self._asked.set()

    @contextmanager
    def signals(self) -> Iterator[None]:
        """A block in which the signals are handled here."""
        loop, before = asyncio.get_running_loop(), dict[int, Any]()
        for number in SIGNALS:
            with suppress(ValueError, RuntimeError):  # not in the main thread
                try:
                    loop.add_signal_handler(number, self.ask)
                except NotImplementedError:  # on Windows
                    before[number] = signal.signal(number, lambda *_: loop.call_soon_threadsafe(self.ask))
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
            for number in set(SIGNALS) - set(before):
                with suppress(ValueError, NotImplementedError, RuntimeError):
                    loop.remove_signal_handler(number)


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop, where it is installed."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


def opened(options: Serving) -> list[socket.socket]:
    """The sockets to listen on."""
    if options.wyoming == streams.STANDARD:
        return []
    given = listen.from_systemd()
    if given:
        return given
    found = [listen.tcp(options.host, options.port)]
    if options.socket != "off":
        path = Path(options.socket) if options.socket else server_socket()
        if local := listen.unix(path, ours=options.socket is None):
            found.append(local)
    return found


def closed(sockets: list[socket.socket]) -> None:
    """Closes the sockets and removes the Unix ones."""
    removed(sockets)
    for one in sockets:
        with suppress(OSError):
            one.close()


def removed(sockets: list[socket.socket]) -> None:
    """Removes the files of the Unix sockets that this server made. A closed socket no longer knows its path."""
    for one in sockets:
        if isinstance(one, listen.Local):
            with suppress(OSError):
                os.unlink(one.getsockname())
