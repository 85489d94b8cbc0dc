"""Captured equals eager, on a device that replays from fixed addresses and on one whose streams lag."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import recording_device
import torch
from engine_kit import PaddingDevice, as_alone, engine_of, requests_of, speak, to_the_end

from omnitts_cli.engine import codec_jobs
from omnitts_cli.engine.engine import Engine
from omnitts_cli.engine.slots import fitting, round_up

FEW = {"chunks": (1, 2, 4), "prefill_rows": (16, 32)}  # fewer graphs to record


@pytest.fixture(scope="module")
def captured() -> Engine:
    """Five slots, a bucket for each number of rows."""
    return engine_of(5, device=recording_device.RecordingDevice(), **FEW)


def test_sizes() -> None:
    assert [fitting((1, 2, 4, 8), wanted) for wanted in (1, 2, 3, 8)] == [1, 2, 4, 8]
    assert [round_up(number, 32) for number in (1, 32, 33)] == [32, 32, 64]


def test_captured_is_eager(captured: Engine) -> None:
    """Every kind of voice, greedy and sampled, in every bucket, three times, among different neighbours. Each frame is
    one replay."""
    device, launch = captured.device, captured._frames.launch
    frames: list[tuple[int, int]] = []  # the slots of each, and its replays

    def counted(slots: list[int], last: Any) -> Any:
        before = device.replays
        launched = launch(slots, last)
        frames.append((len(slots), device.replays - before))
        return launched

    captured._frames.launch = counted
    requests = requests_of(12)
    for order in (requests, requests[::-1], requests[6:] + requests[:6]):
        as_alone(order, speak(order, engine=captured))
    assert {slots for slots, _ in frames} == {1, 2, 3, 4, 5} and {replays for _, replays in frames} == {1}
    assert device.graphs == 5 + 2 + 3 * 4 and device.replays > 300


@pytest.mark.parametrize("slots", [1, 3])
def test_streams_that_lag_change_nothing(slots: int) -> None:
    """Streams run behind the host and behind each other; only events hold them together."""
    engine = engine_of(slots, device=recording_device.RecordingDevice(late=True), **FEW)
    for seed in range(2):
        engine.device.deal_again(seed)
        requests = requests_of(2 * slots + 1, start=seed, max_frames=16)
        as_alone(requests, speak(requests, engine=engine))


@pytest.mark.parametrize("late", [False, True])
def test_ends_that_leave_together_change_nothing(late: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests of different lengths wait for each other's ends, which are padded to one size."""
    monkeypatch.setattr(codec_jobs, "END_RUNNING", 1)
    monkeypatch.setattr(codec_jobs, "few", lambda ends, running: running > 0 and len(ends) < 3)
    engine = engine_of(5, device=recording_device.RecordingDevice(late=late), **FEW)
    ends: list[list[tuple[int, int]]] = []  # of each codec call: frames, and frames with padding
    launch = engine._codec.launch

    def noted(*given: Any) -> bool:
        before = len(engine._codec.in_flight)
        launched = launch(*given)
        for job in list(engine._codec.in_flight)[before:]:
            ends.append([(one.frames, one.size) for one, _ in job.rows if one.room])
        return launched

    monkeypatch.setattr(engine._codec, "launch", noted)
    requests = requests_of(15, ignore_end=True)
    requests = [replace(one, max_frames=14 + 3 * index % 7) for index, one in enumerate(requests)]
    as_alone(requests, speak(requests, engine=engine))
    assert any(len({frames for frames, _ in call}) > 1 for call in ends)


def test_buckets_with_padding() -> None:
    """Three requests in a batch of four, five in one of eight: the spare slot fills up."""
    engine = engine_of(8, device=PaddingDevice(1), buckets=(1, 4, 8))
    for count in (3, 5, 8):
        requests = requests_of(count, max_frames=16)
        as_alone(requests, speak(requests, engine=engine))


def test_the_host_never_waits_inside_a_turn(captured: Engine) -> None:
    """No value is read and nothing copied out but through fetches, over 50 frames with joins and leaves."""
    for request in requests_of(6, max_frames=24, ignore_end=True):
        captured.submit(request)
    before = captured.frames_launched
    with captured.device.count_syncs() as waits:
        while captured.busy:
            captured.step()
            if captured.frames_launched - before == 15:
                captured.cancel("q1")
                captured.submit(requests_of(1, start=7, max_frames=30, ignore_end=True)[0])
    assert captured.frames_launched - before >= 50
    assert waits() == 0


def test_uncaptured_steps_do_not_wait_either() -> None:
    engine = engine_of(3, device=recording_device.RecordingDevice(captures=False))
    for request in requests_of(4, max_frames=4, ignore_end=True):
        engine.submit(request)
    with engine.device.count_syncs() as waits:
        to_the_end(engine)
    assert waits() == 0
    assert engine.frames_launched > 4


# ---- the device itself: it must see what it is there to see


def device_and_stream(late: bool = False) -> tuple[Any, Any]:
    device = recording_device.RecordingDevice(late=late)
    return device, device.stream()


def test_a_replay_works_on_its_own_addresses_and_with_the_first_values_of_python() -> None:
    _, stream = device_and_stream()
    x, out, scale = torch.ones(3), torch.zeros(3), {"by": 2.0}
    replay = stream.capture(lambda: out.copy_((x * scale["by"]).cumsum(0)))
    x.fill_(5)
    scale["by"] = 100.0
    replay()
    assert out.tolist() == [10.0, 20.0, 30.0]


@pytest.mark.parametrize(
    "read", [lambda x: x.sum().item(), lambda x: bool(x.any()), lambda x: x[x > 0], lambda x: x.nonzero()]
)
def test_a_step_that_reads_is_refused(read: Callable[[torch.Tensor], object]) -> None:
    _, stream = device_and_stream()
    x = torch.ones(3)
    with pytest.raises(recording_device.HostRead):
        stream.capture(lambda: read(x))
    with stream, pytest.raises(recording_device.HostRead):
        read(x)


@pytest.mark.parametrize("read", ["tolist", "numpy", "item", "cpu", "__bool__"])
def test_reads_by_the_host_are_counted(read: str) -> None:
    device, _ = device_and_stream()
    x = torch.ones(1)
    with device.count_syncs() as waits:
        getattr(x, read)()
    assert waits() == 1


def test_a_number_written_to_chosen_rows_is_counted() -> None:
    device, stream = device_and_stream()
    x, at = torch.ones(3), torch.tensor([1])
    with device.count_syncs() as waits, stream:
        x[1:2] = 0.0
        x[at] = torch.zeros(1)
        x.index_fill_(0, at, 0.0)
        assert waits() == 0
        x[at] = 0.0
        assert waits() == 1
        x[1] = 0.0
    assert waits() == 2


def test_an_input_that_moves_and_a_hidden_generator_are_noticed() -> None:
    _, stream = device_and_stream()
    x, out = torch.ones(3), torch.zeros(3)
    replay = stream.capture(lambda: out.copy_(x * 2))
    x.set_(torch.ones(3))
    with pytest.raises(recording_device.Hazard, match="moved"):
        replay()
    with pytest.raises(recording_device.Hazard, match="generator"):
        stream.capture(lambda: torch.rand(3))


def test_what_a_replay_leaves_behind_is_spoilt() -> None:
    """A step that adds to what it made last time reads rubbish."""
    _, stream = device_and_stream()
    out, left = torch.zeros(3), {}

    def step() -> None:
        fresh = torch.empty(3)
        out.copy_(fresh)
        left["x"] = fresh

    stream.capture(step)()
    assert out.isnan().all()


def test_streams_without_a_mark_come_in_any_order() -> None:
    """The same work with and without waiting: only the event makes the sum certain."""
    seen: dict[bool, set[float]] = {True: set(), False: set()}
    for seed in range(20):
        for waits in (True, False):
            device = recording_device.RecordingDevice(late=True, seed=seed)
            first, second = device.stream(), device.stream()
            x, out = torch.zeros(1), torch.zeros(1)
            with first:
                x.fill_(7)
            if waits:
                second.wait_event(first.record_event())
            with second:
                out.copy_(x)
            seen[waits].add(float(second.fetch(out).result()[0][0]))
    assert seen[True] == {7.0} and seen[False] == {0.0, 7.0}


def test_memory_of_another_stream_must_be_kept_alive() -> None:
    device, first = device_and_stream()
    second = device.stream()
    with first:
        x = torch.ones(3) + 1
    with second, pytest.raises(recording_device.Hazard, match="kept alive"):
        x * 2
    second.keep_alive(x)
    with second:
        assert (x[1:] * 2).shape == (2,)
