"""Streams: the shared half of CUDA and the NPU, over a package of a few lines that writes down what it is asked.

On a GPU it is held by test_cuda.py.
"""

import inspect
import re
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from omnitts_cli.devices import accelerator
from omnitts_cli.devices.accelerator import WARM_UPS, Accelerator, AcceleratorStream
from omnitts_cli.devices.cuda import CUDADevice, CUDAStream

told: list[str] = []


class Event:
    def record(self, stream: Any) -> None:
        told.append(f"record {stream.priority}")


class Stream(SimpleNamespace):
    def wait_event(self, event: Event) -> None:
        told.append(f"wait {self.priority}")


@contextmanager
def inside(name: str) -> Iterator[None]:
    told.append(f"in {name}")
    yield
    told.append(f"out {name}")


class Graph:
    def replay(self) -> None:
        told.append("replay")


class OneStream(AcceleratorStream):
    api = SimpleNamespace(
        Event=Event,
        Stream=Stream,
        graph_pool_handle=lambda: "pool",
        stream=lambda stream: inside(f"stream {stream.priority}"),
        graph=lambda graph, pool, stream, capture_error_mode: inside(f"{capture_error_mode} graph of {pool}"),
        synchronize=lambda: told.append("synchronize"),
    )
    new_graph = Graph


@pytest.fixture(autouse=True)
def fresh() -> None:
    told.clear()


def test_a_step_is_warmed_up_in_its_stream_and_recorded_between_two_waits() -> None:
    """The mode of the recording lets threads of other engines ask for their events meanwhile."""
    stream = OneStream(torch.device("cpu"), urgent=True)
    replay = stream.capture(lambda: told.append("step"))
    warm = ["in stream -1", *["step"] * WARM_UPS, "out stream -1"]
    assert told == [
        "synchronize", *warm, "synchronize", "in thread_local graph of pool", "step", "out thread_local graph of pool",
    ]  # fmt: skip
    told.clear()
    replay()
    assert told == ["in stream -1", "replay", "out stream -1"]


def test_an_event_is_of_its_own_stream_and_others_wait_for_it() -> None:
    stream, other = OneStream(torch.device("cpu"), urgent=False), OneStream(torch.device("cpu"), urgent=True)
    stream.wait_event(other.record_event())
    stream.follow(other)
    assert told == ["record -1", "wait 0"] * 2
    with pytest.raises(AssertionError):
        stream.wait_event("an event of something else")


def test_how_waits_are_treated_is_put_back() -> None:
    modes = ["default"]

    class Device(Accelerator):
        api = SimpleNamespace(get_sync_debug_mode=lambda: modes[-1], set_sync_debug_mode=modes.append)
        waited = "waited"

    with pytest.raises(ZeroDivisionError), Device().count_syncs():
        raise ZeroDivisionError
    assert modes == ["default", "warn", "default"]


def test_everything_that_is_asked_of_the_package_is_in_torch_cuda() -> None:
    names = set(re.findall(r"\bapi\.(\w+)", inspect.getsource(accelerator)))
    assert {"Stream", "Event", "graph", "mem_get_info"} <= names
    assert [name for name in names if not hasattr(torch.cuda, name)] == []
    assert (CUDAStream.api, CUDAStream.new_graph, CUDADevice.api) == (torch.cuda, torch.cuda.CUDAGraph, torch.cuda)
    for name, given in {
        "Stream": {"device", "priority"},
        "Event": {"blocking"},
        "graph": {"pool", "stream", "capture_error_mode"},
    }.items():
        made = getattr(torch.cuda, name)
        known = inspect.signature(made.__init__ if name == "graph" else made.__new__).parameters
        assert given <= known.keys(), name
