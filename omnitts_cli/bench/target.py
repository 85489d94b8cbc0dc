"""BenchTarget: where a load is sent, an engine in this process or a server."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Protocol

from omnitts_cli.bench.gauge import Gauge
from omnitts_cli.bench.record import Result, Work
from omnitts_cli.errors import OmniError

Ended = Callable[[Result], None]


class Closed(Exception):
    """Why a closed target accepts no more requests."""


class BenchTarget(AbstractContextManager[Any], Protocol):
    """`send` returns at once; `ended` is called in the thread that saw the end of the request."""

    broken: BaseException | None
    """The error that stopped the target, if any; nothing more is sent then."""
    advice: str
    """What to try when no request succeeds."""
    unusable: type[OmniError]
    """The error when no request succeeds."""

    def send(self, work: Work, wanted: float, ended: Ended) -> None: ...

    def gauged(self) -> AbstractContextManager[Gauge]:
        """Measures the device inside the context; fills the gauge at its end."""
        ...
