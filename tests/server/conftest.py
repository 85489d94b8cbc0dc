"""A server of the toy model in this process, and a client for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from serving import Running

if not all(map(find_spec, ("uvicorn", "starlette", "soundfile"))):  # a machine that runs other tests only
    collect_ignore_glob = ["test_*.py"]


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    """A server of random:toy with four slots."""
    from serving import start

    with start() as running:
        yield running


@pytest.fixture
def serve() -> Iterator[Callable[..., Running]]:
    """Starts servers with options of their own; they end with the test."""
    running: list[Any] = []

    from serving import start

    def begin(**options: Any) -> Running:
        context = start(**options)
        running.append(context)
        return context.__enter__()

    yield begin
    for context in running:
        context.__exit__(None, None, None)
