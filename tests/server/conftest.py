"""A server of the toy model in this process, and a client for it."""

from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from serving import Running

if not all(map(find_spec, ("uvicorn", "starlette", "soundfile"))):  # a machine that runs other tests only
    collect_ignore_glob = ["test_*.py"]


@pytest.fixture(scope="module")
def server() -> Iterator["Running"]:
    """A server of random:toy with four slots."""
    from serving import start

    with start() as running:
        yield running


@pytest.fixture(scope="session")
def clip() -> bytes:
    """Four seconds of noise with pauses, as a WAV file."""
    import numpy as np

    from omnitts_cli.audio import wav

    noise = np.random.default_rng(0).standard_normal(96_000) * 0.1 * (np.sin(np.arange(96_000) / 8000) > 0)
    return wav.whole(noise.astype(np.float32), 24_000)


@pytest.fixture
def serve() -> Iterator[Callable[..., "Running"]]:
    """Starts servers with options of their own; they end with the test."""
    running: list[Any] = []

    from serving import start

    def begin(**options: Any) -> "Running":
        context = start(**options)
        running.append(context)
        return context.__enter__()

    yield begin
    for context in running:
        context.__exit__(None, None, None)
