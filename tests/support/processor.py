"""What tests take of the processor, with the processes that they start: a list after a long run, and a limit."""

import os
from collections.abc import Generator
from typing import Any

import pytest

MOST_S = 40.0
"""Of one test that is not marked as slow. None takes a quarter of it; whoever needs more has a short sibling."""
LISTED, LONG_RUN = 10, 500

BEGAN = pytest.StashKey[float]()


def processor_s() -> float:
    """Of this process, and of its children that have ended."""
    spent = os.times()
    return spent.user + spent.system + spent.children_user + spent.children_system


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, Any, Any]:
    item.stash[BEGAN] = processor_s()
    return (yield)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, Any, Any]:
    result = yield
    took = processor_s() - item.stash[BEGAN]
    item.user_properties.append(("processor_s", took))
    if took > MOST_S and not any(item.get_closest_marker(name) for name in ("slow", "gpu", "npu", "weights")):
        pytest.fail(f"{took:.0f} s of processor time, of {MOST_S:.0f} at most: do less, or mark it as slow")
    return result


def pytest_terminal_summary(terminalreporter: Any) -> None:
    found = [
        (took, report.nodeid)
        for reports in terminalreporter.stats.values()
        for report in reports
        if getattr(report, "when", None) == "teardown"
        for name, took in report.user_properties
        if name == "processor_s"
    ]
    if len(found) < LONG_RUN:
        return
    total = sum(took for took, _ in found)
    terminalreporter.section(f"{total:.0f} s of processor time in {len(found)} tests, most in")
    for took, name in sorted(found, reverse=True)[:LISTED]:
        terminalreporter.line(f"{took:6.1f} s {name}")
