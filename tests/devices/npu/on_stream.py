"""Proofs about streams, fetches and captured steps on the fake NPU; slips are seen. Run by test_stream.py."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

sys.path.insert(0, str(Path(__file__).parent))

import fake_npu
from fake_graphs import Hazard

torch_npu = fake_npu.install(os.environ["FAKE_NPU_VERSION"])

from omnitts_cli.devices.npu.device import NPUDevice  # noqa: E402
from omnitts_cli.devices.npu.stream import NPUStream  # noqa: E402
from omnitts_cli.errors import DeviceError  # noqa: E402

HALF = torch.bfloat16


@pytest.fixture(autouse=True)
def calm() -> Iterator[None]:
    yield
    fake_npu.waits.mode = 0
    fake_npu.graphs.capturing = None


@pytest.fixture
def device() -> NPUDevice:
    return NPUDevice(0)


@pytest.fixture
def stream(device: NPUDevice) -> NPUStream:
    return device.stream()


def ones(*shape: int, **more: Any) -> torch.Tensor:
    return torch.ones(*shape, device="npu", **more)


def test_a_fetch_brings_what_was_there_when_it_was_asked_for(stream: NPUStream) -> None:
    tensor, whole = ones(3), ones(2, dtype=torch.int64)
    fetch = stream.fetch(tensor, whole)
    tensor.zero_()
    assert [array.tolist() for array in fetch.wait()] == [[1, 1, 1], [1, 1]]


def test_a_fetch_is_not_done_at_once_and_does_not_wait(device: NPUDevice, stream: NPUStream) -> None:
    tensor = ones(3)
    with device.no_sync():
        fetch = stream.fetch(tensor)
        assert not fetch.done()
        assert fetch.done()
        assert fetch.wait()[0].tolist() == [1, 1, 1]


def test_what_was_fetched_belongs_to_the_reader(stream: NPUStream) -> None:
    first = stream.fetch(ones(3)).wait()[0]
    first[:] = 7
    assert stream.fetch(ones(3)).wait()[0].tolist() == [1, 1, 1]
    assert first.tolist() == [7, 7, 7]


def test_sending_does_not_wait(device: NPUDevice, stream: NPUStream) -> None:
    array = np.arange(6, dtype=np.int64)[::2]
    with device.no_sync(), stream:
        tensor = device.to_device(array)
    array[:] = 9
    assert tensor.device == device.torch_device
    assert tensor.cpu().tolist() == [0, 2, 4]


def test_events_put_streams_in_order(device: NPUDevice, stream: NPUStream) -> None:
    other = device.stream(urgent=True)
    stream.wait_event(other.record_event())
    stream.keep_alive(ones(2))
    with stream:
        assert torch_npu.npu.current_stream() is stream._stream
        with other:
            assert torch_npu.npu.current_stream() is other._stream
    assert (other._stream.priority, stream._stream.priority) == (-1, 0)


def test_a_captured_step_replays_over_the_same_memory(stream: NPUStream) -> None:
    there, out, runs = ones(4), {}, []

    def step() -> None:
        runs.append(1)
        out["double"] = there * 2
        there.add_(out["double"].sum())

    replay = stream.capture(step)
    before = there.cpu().tolist()
    ran = len(runs)
    there.fill_(1)
    replay()
    replay()
    assert len(runs) == ran > 2, "the Python around a step is not run again"
    assert out["double"].cpu().tolist() == [18.0] * 4
    assert there.cpu().tolist() == [81.0] * 4 != before


def refused(step: Callable[[], object], stream: NPUStream, match: str) -> None:
    with pytest.raises(Hazard, match=match):
        stream.capture(lambda: step())()


def test_a_host_that_reads_inside_a_frame_is_seen(stream: NPUStream) -> None:
    x = ones(3)
    refused(lambda: x.sum().item(), stream, "waits for the device inside a capture")
    refused(lambda: x.cpu(), stream, "inside a capture")
    refused(lambda: x[x > 0], stream, "inside a capture")  # what cannot be captured: its size is a value
    refused(lambda: torch_npu.npu.synchronize(), stream, "inside a capture")


def test_values_of_the_host_inside_a_frame_are_seen(device: NPUDevice, stream: NPUStream) -> None:
    refused(lambda: device.to_device(np.zeros(2)[:1].astype(np.float32)), stream, "baked in")


def test_a_host_that_waits_outside_a_fetch_is_seen_and_counted(device: NPUDevice) -> None:
    x = ones(3)
    with device.count_syncs() as count:
        assert count() == 0
        x.sum().item()
        x.cpu()
        torch.zeros(3).to("npu")
        assert count() == 3
    with device.no_sync(), pytest.raises(RuntimeError, match="synchronizing"):
        x.sum().item()
    x.sum().item()
    assert count() == 3


def test_a_capture_inside_a_capture_is_seen(device: NPUDevice, stream: NPUStream) -> None:
    x, other = ones(3), device.stream()
    calls = []

    def step() -> None:
        calls.append(1)
        if len(calls) > 2:  # the warm-ups are no captures
            with torch_npu.npu.graph(torch_npu.npu.NPUGraph(), stream=other._stream):
                x.add_(1)

    with pytest.raises(Hazard, match="inside a capture"):
        stream.capture(step)
    assert len(calls) == 3


@pytest.mark.parametrize("said", ["[Error]: error code 207008, stream resources\nmore", "error code 507011"])
def test_a_card_without_streams_left_is_told_in_words(
    stream: NPUStream, monkeypatch: pytest.MonkeyPatch, said: str
) -> None:
    def full(self: Any, *exc: Any) -> None:
        real(self, *exc)
        raise RuntimeError(said)

    real = torch_npu.npu.graph.__exit__
    monkeypatch.setattr(torch_npu.npu.graph, "__exit__", full)
    with pytest.raises((DeviceError, RuntimeError)) as caught:
        stream.capture(lambda: ones(3))
    if "207008" in said:
        assert isinstance(caught.value, DeviceError) and "no streams left" in caught.value.message
        assert "-b" in str(caught.value.hint)
    else:
        assert str(caught.value) == said


def test_memory_that_moves_between_replays_is_seen(stream: NPUStream) -> None:
    held = {"row": ones(3)}
    out = ones(3)
    replay = stream.capture(lambda: out.copy_(held["row"] * 2))
    replay()
    held["row"] = ones(3) * 5  # a new tensor; the graph knows the old address
    with pytest.raises(Hazard, match="moved or is gone"):
        replay()


def test_a_view_kept_across_replays_is_seen(stream: NPUStream) -> None:
    x, out = ones(2, 3), {}
    replay = stream.capture(lambda: out.update(double=x * 2))
    replay()
    kept = out["double"][0]
    detached = out["double"].detach()
    copied = out["double"].clone()
    assert kept.cpu().tolist() == [2, 2, 2]
    x.fill_(4)
    replay()
    for view in (kept, detached):
        with pytest.raises(Hazard, match="overwritten"):
            view.cpu()
    assert copied[0].cpu().tolist() == [2, 2, 2]
    assert out["double"][0].cpu().tolist() == [8, 8, 8]


def attend(lengths: list[int] | None) -> torch.Tensor:
    return torch_npu.npu_fused_infer_attention_score(
        *ATTENTION, actual_seq_lengths_kv=lengths, num_heads=2, scale=0.25, input_layout="BNSD"
    )[0]


ATTENTION = [torch.randn(1, 2, size, 16).to(HALF).to("npu") for size in (1, 8, 8)]


def test_lengths_of_the_host_without_an_update_are_seen(stream: NPUStream) -> None:
    replay = stream.capture(lambda: attend([3]))
    with pytest.raises(Hazard, match="without an update"):
        replay()
    stream.capture(lambda: attend(None))()  # none, none needed


def test_an_update_lasts_for_one_replay() -> None:
    graph, stream, out = torch_npu.npu.NPUGraph(), torch_npu.npu.Stream(), {}
    with torch_npu.npu.graph(graph, stream=stream, auto_dispatch_capture=True):
        out["heard"] = attend([3])
    with torch_npu.npu.stream(stream):
        for length in (5, 8):
            graph.update([{"actual_seq_lengths_kv": [length]}])
            graph.replay()
            assert torch.equal(out["heard"].cpu(), attend([length]).cpu())
        assert not torch.equal(out["heard"].cpu(), attend([3]).cpu())
        with pytest.raises(Hazard, match="without an update"):
            graph.replay()
        with pytest.raises(RuntimeError, match="1 operators want an update, 2"):
            graph.update([{}, {}])


def test_a_graph_captured_without_dispatch_takes_no_update() -> None:
    graph = torch_npu.npu.NPUGraph()
    with torch_npu.npu.graph(graph, stream=torch_npu.npu.Stream()):
        attend([3])
    with pytest.raises(RuntimeError, match="auto_dispatch_capture"):
        graph.update([{"actual_seq_lengths_kv": [4]}])
