"""What every test process does first, and folders of the golden set as fixtures."""

import gc
import os
import random
import secrets
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import golden_set
import pytest
from hypothesis import settings

import omnitts_cli
from omnitts_cli.kernels.cpu import build

pytest_plugins = ("command", "processor")  # of tests/support: the command as a test calls it; what tests cost

# The same examples in every run, and no time limit for one of them; pytest --hypothesis-profile=explore draws new ones.
settings.register_profile("same", derandomize=True, deadline=None, database=None)
settings.register_profile("explore", deadline=None)
settings.load_profile("same")

MOST_GROWTH_BYTES = 200 << 20
NOT_IN_A_WHEEL = "training"
"""The folder of the package, and of its tests, that only a checkout has."""
packaged = not (Path(omnitts_cli.__file__).parent / NOT_IN_A_WHEEL).exists()
collect_ignore = [NOT_IN_A_WHEEL] if packaged else []
collected_at = [0]
"""The memory of this process after the last full collection."""


def pytest_configure() -> None:
    """A shell starts its background jobs with Ctrl-C ignored, and every child inherits that; tests send it.

    The CPU's library is compiled where it is missing and there is a compiler: a checkout has none. Without an installed
    package, child processes import the one that the tests import. They find it as bytecode, even if the environment
    asks for none: each of a hundred processes would compile it again.
    """
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False
    home = Path(omnitts_cli.__file__).parents[1]
    if home.name != "site-packages":
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(home), os.environ.get("PYTHONPATH")]))
    if not build.library().exists() and build.compiler() and os.environ.get("OMNITTS_NATIVE") != "0":
        build.build()
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_report_header() -> list[str]:
    """Says which tests are not among those that run."""
    left_out = f"tests/{NOT_IN_A_WHEEL}: left out, as the installed package has no training of tiny; to run them: "
    return [left_out + f"PYTHONPATH=. pytest tests/{NOT_IN_A_WHEEL}"] if packaged else []


def pytest_collection() -> None:
    """Nothing of 7000 tests becomes garbage while they are collected; looking for it took 5 s."""
    gc.disable()


def pytest_collection_finish() -> None:
    """What has been collected stays: looking through it took 0.45 s each time."""
    gc.freeze()
    gc.enable()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Whoever draws without a seed of their own draws the same in every run, whichever tests ran before.

    One thread, unless the test opens a device that sets another number: the threads of small products on busy cores
    mostly wait for each other.
    """
    draw = random.Random(item.nodeid)
    secrets.randbits, secrets.randbelow = draw.getrandbits, draw.randrange
    random.seed(item.nodeid)
    if (torch := sys.modules.get("torch")) is not None:
        torch.manual_seed(0)
        torch.set_num_threads(1)


def pytest_runtest_logfinish() -> None:
    """Models of earlier tests are given back: a command freezes what its process holds, which is a test's process too,
    and the collector sees how many objects there are, not how large their tensors.
    """
    statm = Path("/proc/self/statm")
    if statm.exists() and resident(statm) > collected_at[0] + MOST_GROWTH_BYTES:
        gc.unfreeze()
        gc.collect()
        gc.freeze()
        collected_at[0] = resident(statm)


def resident(statm: Path) -> int:
    return int(statm.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


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
