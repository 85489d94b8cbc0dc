"""A server of the toy model in this process, and a client for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from serving import Running, start


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    """A server of random:toy with four slots."""
    with start() as running:
        yield running


@pytest.fixture
def serve() -> Iterator[Callable[..., Running]]:
    """Starts servers with options of their own; they end with the test."""
    running: list[Any] = []

    def begin(**options: Any) -> Running:
        context = start(**options)
        running.append(context)
        return context.__enter__()

    yield begin
    for context in running:
        context.__exit__(None, None, None)
