"""Target: what a load is sent to, an engine in this process or a server."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Protocol

from omnitts_cli.bench.gauge import Gauge
from omnitts_cli.bench.record import Heard, Work

Ended = Callable[[Heard], None]


class Closed(Exception):
    """Why a target that was left takes nothing more."""


class Target(AbstractContextManager[Any], Protocol):
    """`send` returns at once; `ended` is called in whichever thread saw the end of the request."""

    broken: BaseException | None
    """What has stopped the target as a whole; nothing more is sent then."""

    def send(self, work: Work, wanted: float, ended: Ended) -> None: ...

    def gauged(self) -> AbstractContextManager[Gauge]:
        """Watch the device inside; the gauge is filled at the end."""
        ...
