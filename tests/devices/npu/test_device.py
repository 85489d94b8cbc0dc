"""The NPU as a device: facts, errors, streams, doctor. The engine over its operators is in test_operators.py."""

import importlib.metadata
import subprocess
import sys
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from omnitts_cli.cli import doctor
from omnitts_cli.devices.choose import broken_npu, choose
from omnitts_cli.devices.npu import device as npu_device
from omnitts_cli.devices.npu import versions
from omnitts_cli.devices.npu.device import NPUDevice
from omnitts_cli.engine.slots import Plan
from omnitts_cli.errors import DeviceError
from omnitts_cli.families.toy import toy
from omnitts_cli.settings.engine import EngineSettings
from omnitts_cli.settings.table import Machine
from omnitts_cli.speech.load import plan_for


@pytest.fixture(autouse=True)
def npu(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """The vendor's package, as far as a device asks it about itself."""
    api = SimpleNamespace(
        device_count=lambda: 1,
        get_device_name=lambda index: "Ascend 910 of the imagination",
        is_bf16_supported=lambda: True,
        set_device=lambda device: None,
        mem_get_info=lambda device: (1 << 30, 1 << 31),
        max_memory_allocated=lambda device: 1 << 20,
        utils=SimpleNamespace(get_cann_version=lambda: "8.5.0"),
    )
    real, ours = importlib.metadata.version, versions.release(torch.__version__)
    monkeypatch.setattr(importlib.metadata, "version", lambda name: ours if name == "torch_npu" else real(name))
    monkeypatch.setitem(sys.modules, "torch_npu", SimpleNamespace(npu=api))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    known = {"bfloat16": torch.bfloat16, "float32": torch.float32, "OutOfMemoryError": torch.OutOfMemoryError}
    torch_of_device = SimpleNamespace(device=lambda kind, index: torch.device("cpu"), **known)  # ours knows no "npu"
    monkeypatch.setattr(npu_device, "torch", torch_of_device)
    return api


def test_it_says_what_it_is() -> None:
    device = choose("NPU:0")
    assert isinstance(device, NPUDevice)
    assert (device.name, device.card) == ("npu:0", "Ascend 910 of the imagination")
    assert device.captures and device.pads and device.few_graphs
    assert (device.free_bytes(), device.peak_bytes()) == (1 << 30, 1 << 20)
    assert broken_npu() is None and choose("auto").name == "npu:0"


def test_cards_without_bfloat16_speak_in_float32(npu: SimpleNamespace) -> None:
    assert NPUDevice().dtype == torch.bfloat16
    npu.is_bf16_supported = lambda: False
    assert NPUDevice().dtype == torch.float32


def test_a_device_that_is_not_visible_is_refused_with_the_variable(
    npu: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ASCEND_RT_VISIBLE_DEVICES", raising=False)
    with pytest.raises(DeviceError, match=r"npu:3 does not exist; visible here: npu:0 \(Ascend 910 of .*\)$"):
        choose("npu:3")
    monkeypatch.setenv("ASCEND_RT_VISIBLE_DEVICES", "5")
    with pytest.raises(DeviceError, match=r"ASCEND_RT_VISIBLE_DEVICES=5"):
        choose("npu:5")
    npu.device_count = lambda: 0
    with pytest.raises(DeviceError, match="npu:0 does not exist; visible here: none"):
        choose("npu")


def test_memory_that_is_short_is_recognised() -> None:
    device = NPUDevice()
    assert device.is_out_of_memory(RuntimeError("NPU out of memory. Tried to allocate 2.00 GiB"))
    assert device.is_out_of_memory(torch.OutOfMemoryError("..."))
    assert not device.is_out_of_memory(RuntimeError("aclnnSort failed"))
    assert not device.is_out_of_memory(ValueError("NPU out of memory"))


def test_fewer_sizes_are_recorded() -> None:
    device, model = NPUDevice(), toy(device="cpu")
    plan = plan_for(model, device, EngineSettings())
    assert plan.buckets == (1, 2, 4, 8, 16, 32)
    assert recordings(plan) == 24
    assert recordings(Plan.of(32, 120, 12.5)) == 73  # nine row sizes of the codec, five chunk sizes
    assert recordings(plan_for(model, device, EngineSettings(slots=200))) < 64


def recordings(plan: Plan) -> int:
    most = min(plan.slots, max(plan.sound_rows))
    rows = sum(size < most for size in plan.sound_rows) + 1
    return len(plan.buckets) + len(plan.prefill_rows) + len(plan.chunks) * rows


@pytest.mark.parametrize("said", ["[Error]: error code 207008, stream resources\nmore", "error code 507011"])
def test_a_card_without_streams_left_is_reported(
    npu: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, said: str
) -> None:
    @contextmanager
    def full(*args: Any, **more: Any) -> Any:
        yield
        raise RuntimeError(said)

    npu.Stream, npu.NPUGraph, npu.graph = lambda **more: None, object, full
    npu.graph_pool_handle, npu.synchronize = object, lambda: None
    npu.stream = lambda stream: contextmanager(lambda: (yield))()
    monkeypatch.delitem(sys.modules, "omnitts_cli.devices.npu.stream", raising=False)
    with pytest.raises((DeviceError, RuntimeError)) as caught:
        NPUDevice().stream().capture(lambda: None)
    monkeypatch.delitem(sys.modules, "omnitts_cli.devices.npu.stream", raising=False)
    if "207008" in said:
        assert isinstance(caught.value, DeviceError) and "no streams left" in caught.value.message
        assert "-b" in str(caught.value.hint)
    else:
        assert str(caught.value) == said


def test_the_doctor_has_lines_for_it(npu: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "speech", lambda machine: doctor.Check(f"speech on {machine.device}", "ok", "yes"))
    lines = {check.name: check for check in doctor.devices(Machine(device="auto"))}
    assert lines["device npu:0"].status == "ok" and "1.0 GiB free" in lines["device npu:0"].words
    assert "speech on npu:0" in lines
    missing = next(iter(doctor.devices(Machine(device="npu:7"))))
    assert (missing.status, missing.fix) == ("fail", "npu-smi info")
    npu.utils.get_cann_version = lambda: "8.0.RC3"
    lines = {check.name: check for check in doctor.devices(Machine(device="auto"))}
    assert lines["device npu"].status == "warn" and "CANN is 8.0" in lines["device npu"].words
    assert "device npu:0" not in lines and lines["device cpu"].status == "ok"


@pytest.mark.npu
def test_on_a_real_npu_the_engine_speaks() -> None:
    """For whoever has the hardware: pytest -m npu"""
    program = (
        "from omnitts_cli.request import Request; from omnitts_cli.speech.load import open_engine\n"
        "from omnitts_cli.voices import Named\n"
        "asked = Request('hello', Named('ann'), seed=1, max_frames=12, ignore_end=True)\n"
        "options = {'dtype': 'fp32', 'slots': 2, 'seconds': 4, 'threads': 1}\n"
        "codes = [open_engine('random:toy', device=d, **options).clip(asked).codes.tolist() for d in ('npu', 'cpu')]\n"
        "assert codes[0] == codes[1]\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=240)
