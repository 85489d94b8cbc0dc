"""omnitts serve: speech over HTTP for other programs, from one warm engine."""

import socket
import sys
from collections.abc import Mapping
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, BinaryIO

from omnitts_cli.cli import deploy
from omnitts_cli.cli.job import ModelOpener
from omnitts_cli.errors import UsageError
from omnitts_cli.settings.commands import Serving
from omnitts_cli.settings.environment import API_KEY, EMBEDDED, variable
from omnitts_cli.speech import voice_files
from omnitts_cli.speech.tts import TTS
from omnitts_cli.terminal.console import console

if TYPE_CHECKING:
    from omnitts_cli.server.models import ServedModel

REQUIRED = {
    "starlette": "starlette",
    "uvicorn": "uvicorn",
    "httptools": "httptools",
    "websockets": "websockets",
    "python_multipart": "python-multipart",
    "prometheus_client": "prometheus-client",
}
"""What is imported -> what is installed; with the extra `serve`, all of them."""


def serve(
    serving: Serving,
    opener: ModelOpener,
    print_unit: str | None = None,
    print_compose: bool = False,
    typed: Mapping[str, Any] = MappingProxyType({}),
) -> int | None:
    """Serve speech over HTTP: OpenAI's API and a web page."""
    if print_unit is not None or print_compose:
        deploy.show(print_unit, print_compose, typed)
        return None
    require()
    from omnitts_cli.server import models, run
    from omnitts_cli.server.engines import Engines
    from omnitts_cli.server.guard import Guard, read_keys

    keys = read_keys(serving.api_key_file, variable(API_KEY))
    guard = Guard.of(serving, keys)
    if serving.voices_dir:
        voice_files.use_folder(serving.voices_dir)
    if serving.replicas != 1 and not serving.ray:
        raise UsageError(
            f"--replicas {serving.replicas} needs --ray",
            hint=f"omnitts serve --ray local --replicas {serving.replicas}",
        )
    if serving.ray:
        return with_ray(serving, opener, keys)
    sockets, engines = run.opened(serving), Engines()
    wyoming = None
    try:
        wyoming = wyoming_place(serving, keys)
        tell_addresses(sockets, serving.host, wyoming)
        settings = {**opener.settings, "patient": True}

        def load(model: "ServedModel") -> TTS:
            console.note(f"loading {model.name} ...")
            return models.load(engines, settings, console.notice, model)

        server = run.HttpServer(
            serving, guard, models.planned(serving.model or (EMBEDDED,)), load, sockets,
            ready=lambda: console.note("ready"), log=console.note, abort=partial(engines.close, 0.0), wyoming=wyoming,
        )  # fmt: skip
        code = server.run()
    finally:
        engines.close()
        run.closed([*sockets, *([wyoming] if isinstance(wyoming, socket.socket) else [])])
    return code


def tell_addresses(sockets: list[socket.socket], host: str, wyoming: socket.socket | BinaryIO | None) -> None:
    """Prints where the server listens; over the standard streams, nothing."""
    from omnitts_cli.server import listen, streams

    urls = [listen.url_of(one, host) for one in sockets]
    for url in urls:
        (console.note if url.startswith("unix:") and len(sockets) > 1 else console.result)(url)
    if isinstance(wyoming, socket.socket):
        urls.append(streams.url_of(wyoming))
        console.note(f"Wyoming: {urls[-1]}")
    if urls:
        console.record(status="listening", urls=urls)


def wyoming_place(serving: Serving, keys: Mapping[bytes, str]) -> socket.socket | BinaryIO | None:
    """Where Wyoming is spoken: at a listening socket, or over stdin and this file."""
    from omnitts_cli.server import streams

    if serving.wyoming is None:
        return None
    if serving.ray:
        raise UsageError("--wyoming cannot be used with --ray", hint="leave one of them out")
    found = streams.place_of(serving.wyoming, "--wyoming", open_to_all=serving.insecure, has_keys=bool(keys))
    if found is None and console.json:
        raise UsageError(f"--json cannot be used with --wyoming {serving.wyoming}", hint="leave --json out")
    if found is None:
        streams.require_pipes(sys.stdin.fileno(), console.stdout.file.fileno())
    return found or console.stdout.file


def with_ray(serving: Serving, opener: ModelOpener, keys: Mapping[bytes, str]) -> int:
    """Serves with replicas in a cluster, until a signal; returns the exit code."""
    from omnitts_cli.server import cluster
    from omnitts_cli.server.replica import Order

    if serving.socket not in (None, "off"):
        raise UsageError(f"--socket {serving.socket} cannot be used with --ray", hint="leave out --socket")
    cluster.required(str(serving.ray))
    order = Order.of(serving, keys, opener.settings, alone=serving.ray == "local")
    console.note(f"starting {serving.replicas} replica{'s' * (serving.replicas != 1)} ...")

    def listening(url: str) -> None:
        console.result(url)
        console.record(status="listening", urls=[url])

    return cluster.run(order, str(serving.ray), serving.replicas, listening, lambda: console.note("ready"))


def require() -> None:
    """The packages of the server, or an error with the command that installs them."""
    from importlib.util import find_spec

    missing = [package for module, package in REQUIRED.items() if find_spec(module) is None]
    if missing:
        raise UsageError(
            f"omnitts serve needs {', '.join(missing)}, which {'is' if len(missing) == 1 else 'are'} not installed",
            hint=f"pip install '.[serve]'   in the source folder   or   pip install {' '.join(missing)}",
        )
