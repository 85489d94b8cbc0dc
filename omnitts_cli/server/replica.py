"""Replica: the same application as a deployment of Ray Serve. Ray places replicas, restarts them and changes their
number; each has an engine of its own.
"""

import asyncio
import logging
import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from omnitts_cli.server.app import App
from omnitts_cli.server.body import Receive, Scope, Send
from omnitts_cli.server.engines import Engines
from omnitts_cli.server.guard import Guard
from omnitts_cli.server.models import load, planned
from omnitts_cli.server.state import ServerState
from omnitts_cli.settings.commands import Serving
from omnitts_cli.settings.environment import EMBEDDED
from omnitts_cli.speech import voice_files

NAME = "omnitts"
GPU_SLOTS, CPU_SLOTS = 32, 16
"""Slots of an engine where -b does not say. Ray must know the number before the model is loaded."""
TARGET = 0.6
"""Ray starts another replica above this share of the slots, averaged over the replicas."""
UP_S, DOWN_S = 10.0, 600.0
HEALTH_S = 5.0


@dataclass(frozen=True)
class Order:
    """What each replica serves. It is sent to the machines of the cluster."""

    options: Serving
    keys: Mapping[bytes, str]
    names: tuple[str, ...]  # of the models
    settings: Mapping[str, Any]  # fields of EngineSettings
    gpus: float

    @classmethod
    def of(cls, options: Serving, keys: Mapping[bytes, str], settings: Mapping[str, Any], *, alone: bool) -> "Order":
        """The order of a command. `alone`: all replicas are on this machine, and share a folder of voices."""
        Guard.of(options, keys)  # raises here what no replica could serve
        if not alone and not options.voices_dir:
            options = replace(options, allow_upload="off")  # the voices of one replica would be unknown to the others
        gpus = 0.0 if settings.get("device") == "cpu" else 1.0
        names = options.model or (EMBEDDED,)
        return cls(replace(options, metrics=False), keys, names, {**settings, "patient": True}, gpus)

    @property
    def slots(self) -> int:
        """Requests that one replica speaks at once."""
        return self.settings.get("slots") or (GPU_SLOTS if self.gpus else CPU_SLOTS)

    def deployment(self, replicas: int | str, most: int) -> Any:
        """The application for `serve.run`. `replicas`: a number, or auto, which is 1 to `most`."""
        from ray import serve

        count: dict[str, Any] = {"num_replicas": replicas}
        if replicas == "auto":
            count = {"autoscaling_config": {
                "min_replicas": 1, "max_replicas": most, "target_ongoing_requests": TARGET * self.slots,
                "upscale_delay_s": UP_S, "downscale_delay_s": DOWN_S,
            }}  # fmt: skip
        resources = {"num_gpus": self.gpus} if self.gpus else {"num_cpus": 1}
        made: Any = serve.deployment(
            serve.ingress()(Replica), name=NAME, ray_actor_options=resources,
            # more than the application admits: it answers 429 with Retry-After, and Ray 503 without
            max_ongoing_requests=2 * (self.slots + self.options.max_queue), max_queued_requests=-1,
            graceful_shutdown_timeout_s=self.options.drain, graceful_shutdown_wait_loop_s=0.2,
            health_check_period_s=HEALTH_S, health_check_timeout_s=2 * HEALTH_S, **count,
        )  # fmt: skip
        return made.bind(self)


@dataclass
class Ingress:
    """The application behind Ray's proxy."""

    app: App
    client: tuple[str, int] = ("proxy", 0)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request. Ray also asks for a lifespan, which there is none of."""
        if scope["type"] == "lifespan":
            while (await receive())["type"] != "lifespan.shutdown":
                await send({"type": "lifespan.startup.complete"})
            await send({"type": "lifespan.shutdown.complete"})
            return
        if not scope.get("client"):  # a request without one would count as a local one
            scope["client"] = self.client

        async def sent(message: Any) -> None:
            if message["type"] == "http.response.start":  # Ray adds the id of the request, as its log has it
                message["headers"] = [header for header in message["headers"] if header[0] != b"x-request-id"]
            await send(message)

        await self.app(scope, receive, sent)


class Replica:
    """One engine and its application, in an actor of Ray."""

    def __init__(self, order: Order) -> None:
        self.order, self.engines = order, Engines()
        self.state: ServerState | None = None
        self._sweep: asyncio.Task[None] | None = None

    async def __serve_build_asgi_app__(self) -> Ingress:
        """The application, once its models are loaded."""
        order, options = self.order, self.order.options
        if options.voices_dir:
            voice_files.use_folder(options.voices_dir)
        name = f"{socket.gethostname()}:{os.getpid()}".encode("ascii", "replace")
        log = logging.getLogger("ray.serve").info
        opened = partial(load, self.engines, order.settings, lambda notice: None)
        self.state = ServerState.of(
            options, Guard.of(options, order.keys), planned(order.names), opened, log, ((b"x-replica", name),)
        )
        self._sweep = asyncio.create_task(self.state.sweep())
        await self.state.models.preload(options.preload)
        return Ingress(App(self.state))

    def check_health(self) -> None:
        """Ray calls this, and replaces a replica whose engine has failed or is stuck."""
        if self.state is not None and not self.state.models.healthy:
            raise RuntimeError("the engine has failed or is stuck")
