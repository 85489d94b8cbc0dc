"""What every test process does first, and folders of the golden set as fixtures."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import golden_set
import pytest

from omnitts_cli.kernels.cpu import build

pytest_plugins = ("command",)  # fixtures of tests/support/command.py: the command as a test calls it


def pytest_configure() -> None:
    """A shell starts its background jobs with Ctrl-C ignored, and every child inherits that; tests send it.

    The CPU's library is compiled where it is missing and there is a compiler: a checkout has none.
    """
    if not build.library().exists() and build.compiler() and os.environ.get("OMNITTS_NATIVE") != "0":
        build.build()
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def omni_folder() -> Path:
    """The second family's tiny folder. Do not write into it."""
    return golden_set.omni_folder()


@pytest.fixture(scope="session")
def checkpoint() -> Callable[[str], Path]:
    return golden_set.checkpoint


@pytest.fixture(scope="session")
def case() -> Callable[[str], golden_set.Case]:
    return golden_set.case
