"""Cluster: `omnitts serve --ray`. Starts the replicas in a cluster of Ray, and ends them."""

import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

from omnitts_cli.errors import ModelError, UsageError
from omnitts_cli.fleet.cluster import INSTALL, LOCAL, connect, imported, room_for
from omnitts_cli.server import listen
from omnitts_cli.server.replica import NAME, Order
from omnitts_cli.server.run import CUT_OFF
from omnitts_cli.settings.environment import fast_proxy
from omnitts_cli.terminal.signals import SIGNALS


def run(
    order: Order, address: str, replicas: int | str, announce: Callable[[str], None], ready: Callable[[], None]
) -> int:
    """Serves until a signal, and returns the exit code. `announce` is called with the URL."""
    ray, serve = required(address)
    stopped = threading.Event()

    def stop(*given: Any) -> None:
        if stopped.is_set():
            raise KeyboardInterrupt
        stopped.set()

    connect(ray, address)
    for number in SIGNALS:  # after Ray, which sets its own
        signal.signal(number, stop)
    try:
        if order.settings.get("device") == "auto" and not ray.cluster_resources().get("GPU"):
            order = replace(order, gpus=0.0)
        wanted = None if replicas == "auto" else int(replicas)
        most = room_for("GPU" if order.gpus else "CPU", ray, address, wanted, "--replicas")
        port = order.options.port or free_port(order.options.host)
        try:
            with suppress(ValueError):
                serve.start(proxy_location="HeadOnly" if address == LOCAL else "EveryNode",
                            http_options={"host": order.options.host, "port": port})  # fmt: skip
            serve.run(order.deployment(replicas, most), name=NAME, route_prefix="/")
        except (RuntimeError, ray.exceptions.RayError) as error:
            raise ModelError("the replicas did not start", cause=last_line(error),
                             hint="omnitts serve   without --ray shows why") from None  # fmt: skip
        announce(f"http://{order.options.host}:{port}")
        ready()
        stopped.wait()
        try:
            serve.delete(NAME)  # waits for running requests; then Ray ends its own processes
        except KeyboardInterrupt:
            return CUT_OFF
    finally:
        ray.shutdown()
    return 0


def required(address: str) -> tuple[Any, Any]:
    """Ray and Ray Serve, or an error with the command that installs them."""
    fast_proxy()
    ray = imported(address)
    try:
        from ray import serve
    except ImportError as error:
        raise UsageError(f"--ray needs Ray Serve: {error}", hint=INSTALL) from None
    return ray, serve


def last_line(error: Exception) -> str:
    """What went wrong: Ray's errors end with it, after the stack of another process."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1][:300] if lines else type(error).__name__


def free_port(host: str) -> int:
    """A port that was free a moment ago."""
    with listen.tcp(host, 0) as found:
        return int(found.getsockname()[1])
