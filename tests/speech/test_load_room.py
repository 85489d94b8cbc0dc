"""Slots are sized from free memory, and an engine that does not fit starts smaller and says so."""

import re
from pathlib import Path

import numpy as np
import pytest
import torch
from engine_kit import model_over
from torch import Tensor

from omnitts_cli.devices.cpu import CPUDevice
from omnitts_cli.devices.cuda import CUDADevice
from omnitts_cli.engine.slots import Plan
from omnitts_cli.errors import DeviceError
from omnitts_cli.families.known import families
from omnitts_cli.models.codec_decoder import CodecDecoder
from omnitts_cli.models.networks import Networks
from omnitts_cli.models.roles import SpeechModel
from omnitts_cli.models.slot_decoder import call_bytes
from omnitts_cli.request import Request
from omnitts_cli.settings.engine import EngineSettings
from omnitts_cli.speech import load, memory, networks
from omnitts_cli.speech.load import plan_for, start
from omnitts_cli.speech.memory import fitting_slots, shortened, slot_bytes, with_prefixes, with_sound_frames
from omnitts_cli.voices import Named


class SmallDevice(CPUDevice):
    """Says that it has `free` bytes; an engine of more than `really` slots runs out of memory all the same."""

    def __init__(self, free: int, really: int) -> None:
        super().__init__(threads=1)
        self.free, self.really, self.starting = free, really, True

    def free_bytes(self) -> int:
        return self.free

    def to_device(self, array: np.ndarray) -> Tensor:
        spare = array.size > 0 and array.min() == array.max()  # it pads whole batches; its index is the number of slots
        if self.starting and spare and array.max() > self.really:
            raise MemoryError
        return super().to_device(array)

    def synchronize(self) -> None:
        self.starting = False


@pytest.fixture(scope="module")
def model() -> SpeechModel:
    return model_over()


@pytest.fixture
def plan() -> Plan:
    return Plan.of(8, 4, 12.5, prompt_rows=64, pads=False)


def test_slots_follow_what_each_takes_of_free_memory(model: SpeechModel, plan: Plan) -> None:
    cache = model.talker.cache(1, plan.positions)
    least = cache.keys.nbytes + cache.values.nbytes + plan.text_rows * model.facts.hidden * 4
    assert least < slot_bytes(model, plan) < 3 * least
    each = slot_bytes(model, plan)
    assert fitting_slots(model, SmallDevice(100 * each, 99), plan) == 8
    assert fitting_slots(model, SmallDevice(6 * each, 99), plan) == 4  # one is spare, some stays free
    assert fitting_slots(model, SmallDevice(0, 99), plan) == 0
    assert fitting_slots(model, SmallDevice(100 * each, 99), plan, taken=94 * each) == 4


def test_slots_leave_room_for_the_codecs_largest_call(model: SpeechModel, monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls of up to 64 rows, or of half of the slots; 15 % is kept in any case."""
    plan = Plan.of(256, 4, 12.5, prompt_rows=64)
    each = slot_bytes(model, plan)
    device = SmallDevice(200 * each, 999)
    device.captures = True
    monkeypatch.setattr(Networks, "prompt_bytes", lambda model, rows: 0)
    monkeypatch.setattr(memory, "LIBRARY_BYTES", 0)
    monkeypatch.setattr(Networks, "call_bytes", lambda codec, frames, rows: rows * frames * each // 16)
    assert [plan.with_slots(slots).sound_rows[-1] for slots in (141, 81)] == [64, 32]
    assert fitting_slots(model, device, plan) == 127  # 128 would have calls of 64 rows and room for 125
    device.free = 120 * each
    assert fitting_slots(model, device, plan) == 120 - 6 - 32 - 1
    device.captures = False
    assert fitting_slots(model, device, plan) == 120 * 0.85 - 1


def test_a_call_of_the_codec_takes_an_eighth_of_memory(model: SpeechModel, monkeypatch: pytest.MonkeyPatch) -> None:
    """A chunk of 16 frames of one request always fits."""
    plan = Plan.of(64, 4, 12.5, prompt_rows=64)
    device = SmallDevice(8 << 20, 999)
    monkeypatch.setattr(Networks, "call_bytes", lambda codec, frames, rows: frames * rows)
    for frames, wanted in ((1 << 20, None), (512, None), (511, 256), (300, 256), (100, 64), (16, 16), (1, 16)):
        device.free = 8 * frames
        assert with_sound_frames(model, device, plan).sound_frames == wanted


def test_requests_are_shorter_where_fewer_than_four_would_fit(model: SpeechModel) -> None:
    usual = plan_for(model, SmallDevice(1 << 40, 999))
    each = slot_bytes(model, usual)
    assert usual.frames == 1501

    def planned(slots: float) -> Plan:
        return plan_for(model, SmallDevice(int(slots * each), 999))

    assert planned(6).frames == 1501
    shorter = planned(4)
    assert shorter.frames < 1501 and shorter.positions - shorter.frames == usual.positions - usual.frames
    assert fitting_slots(model, SmallDevice(4 * each, 999), shorter) >= 4
    assert planned(0).frames == 30 * 12.5 + 1
    told = EngineSettings(seconds=120.0)
    assert plan_for(model, SmallDevice(each, 999), told).frames == 1501
    assert shortened(model, SmallDevice(0, 999), Plan.of(2, 4, 12.5)).frames == 51


def test_few_prefixes_are_kept_where_memory_is_short(model: SpeechModel, plan: Plan) -> None:
    each = 2 * model.cache(1, 1).keys.nbytes * 256
    kept = [with_prefixes(model, SmallDevice(20 * count * each, 9), plan).prefixes for count in (0, 7.5, 900)]
    assert kept == [2, 7, plan.prefixes]


def test_a_call_of_a_released_codec_takes_what_was_measured() -> None:
    """On an H200, engines whose largest call has 64 and 128 streams instead of 32 and 64 took 2.2 and 4.2 GiB more."""
    family = next(one for one in families() if "1.7b-customvoice" in one.made_up)
    with torch.device("meta"):
        parts = family.parts(family.made_up_config(Path("x"), "1.7b-customvoice"), None).all()
    codec = next(part.module for part in parts if isinstance(part.module, CodecDecoder))
    small, middle, large = (call_bytes(codec, 16, rows) / 2**30 for rows in (32, 64, 128))
    assert middle - small == pytest.approx(2.2, abs=0.1) and large - middle == pytest.approx(4.2, abs=0.3)


def test_out_of_memory_shrinks_or_is_an_error_with_numbers(model: SpeechModel, plan: Plan) -> None:
    said: list[str] = []
    engine = start(model, SmallDevice(1 << 40, really=3), plan, said.append)
    assert engine.plan.slots == 2 and max(engine.plan.buckets) == 2
    assert len(said) == 1 and said[0].startswith("only 2 of 8 slots")
    assert engine.clip(Request("hello", Named("ann"), max_frames=5)).codes.shape[0] <= 5
    with pytest.raises(DeviceError, match="does not have enough memory for one request") as caught:
        start(model, SmallDevice(1 << 40, really=0), plan)
    assert re.fullmatch(r"it needs [\d.]+ \w+ besides the model; [\d.]+ GiB are free", caught.value.cause or "")
    assert caught.value.hint


def test_a_model_that_does_not_fit_is_an_error_with_what_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise MemoryError

    device = SmallDevice(3 << 30, really=0)
    monkeypatch.setattr(networks, "random_fill", full)
    with pytest.raises(DeviceError, match=r"random:0.6b does not fit into the memory of") as caught:
        load.load_model("random:0.6b", device)
    assert caught.value.cause == "3.0 GiB are free" and "-d cpu" in str(caught.value.hint)
    monkeypatch.setattr(device, "is_out_of_memory", lambda error: False)
    with pytest.raises(MemoryError):
        load.load_model("random:0.6b", device)


def test_cuda_says_in_two_ways_that_memory_is_short() -> None:
    device = object.__new__(CUDADevice)
    assert device.is_out_of_memory(torch.cuda.OutOfMemoryError("24 MiB"))
    assert device.is_out_of_memory(RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate`"))
    assert not device.is_out_of_memory(RuntimeError("CUDA error: an illegal memory access"))


def test_a_plan_with_fewer_slots_keeps_its_small_buckets() -> None:
    plan = Plan.of(64, 60, 12.5)
    assert plan.buckets[-1] == 64
    small = plan.with_slots(10)
    assert small.buckets == (1, 2, 3, 4, 5, 6, 7, 8, 10) and small.positions == plan.positions
