"""Proofs about the device as a whole on the fake NPU: what it says of itself, and what others make of it.

Run by test_device.py.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

sys.path.insert(0, str(Path(__file__).parent))

import fake_npu

torch_npu = fake_npu.install(os.environ["FAKE_NPU_VERSION"])

from golden_set import checkpoint  # noqa: E402

from omnitts_cli.cli import doctor  # noqa: E402
from omnitts_cli.cli.doctor import Check  # noqa: E402
from omnitts_cli.devices.choose import broken_npu, choose  # noqa: E402
from omnitts_cli.devices.npu.device import NPUDevice  # noqa: E402
from omnitts_cli.engine.plan import Plan  # noqa: E402
from omnitts_cli.errors import DeviceError  # noqa: E402
from omnitts_cli.kernels import plain  # noqa: E402
from omnitts_cli.models.roles import Cloner  # noqa: E402
from omnitts_cli.request import Request  # noqa: E402
from omnitts_cli.settings import EngineSettings  # noqa: E402
from omnitts_cli.settings.table import Machine  # noqa: E402
from omnitts_cli.speech import load as build  # noqa: E402
from omnitts_cli.voices import Cloned, Named  # noqa: E402


@pytest.fixture(autouse=True)
def calm() -> Iterator[None]:
    torch.set_num_threads(1)
    yield
    fake_npu.waits.mode = 0


def test_it_says_what_it_is() -> None:
    device = choose("NPU:0")
    assert isinstance(device, NPUDevice)
    assert (device.name, device.card) == ("npu:0", "Ascend 910 of the imagination")
    assert device.torch_device == torch.device("npu", 0)
    assert device.captures and device.pads and device.few_graphs
    assert device.free_bytes() == 1 << 30
    assert device.peak_bytes() == 1 << 20
    device.synchronize()
    assert fake_npu.waits.seen[-1] == "synchronize"


def test_auto_finds_it() -> None:
    assert broken_npu() is None
    assert choose("auto").name == "npu:0"


def test_cards_without_bfloat16_speak_in_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    assert NPUDevice().dtype == torch.bfloat16
    monkeypatch.setattr(torch_npu.npu, "is_bf16_supported", lambda: False)
    assert NPUDevice().dtype == torch.float32


def test_a_device_that_is_not_visible_is_refused_with_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ASCEND_RT_VISIBLE_DEVICES", raising=False)
    with pytest.raises(DeviceError, match=r"npu:3 does not exist; visible here: npu:0 \(Ascend 910 of .*\)$"):
        choose("npu:3")
    monkeypatch.setenv("ASCEND_RT_VISIBLE_DEVICES", "5")
    with pytest.raises(DeviceError, match=r"ASCEND_RT_VISIBLE_DEVICES=5"):
        choose("npu:5")
    monkeypatch.setattr(torch_npu.npu, "device_count", lambda: 0)
    with pytest.raises(DeviceError, match="npu:0 does not exist; visible here: none"):
        choose("npu")


def test_memory_that_is_short_is_recognised() -> None:
    device = NPUDevice()
    assert device.is_out_of_memory(RuntimeError("NPU out of memory. Tried to allocate 2.00 GiB"))
    assert device.is_out_of_memory(torch.OutOfMemoryError("..."))
    assert not device.is_out_of_memory(RuntimeError("aclnnSort failed"))
    assert not device.is_out_of_memory(ValueError("NPU out of memory"))


def test_its_ops_replace_what_the_vendor_has() -> None:
    ops = NPUDevice().ops()
    same = {name for name in vars(plain.OPS) if getattr(ops, name) is getattr(plain.OPS, name)}
    assert same == {"linear", "codec", "fuse_stack", "fuse_frame", "begin", "first_scores", "finish"}


def test_fewer_sizes_are_recorded() -> None:
    device = NPUDevice()
    model = build.load_model("random:toy", device)
    plan = build.plan_for(model, device, EngineSettings())
    assert plan.buckets == (1, 2, 4, 8, 16, 32)
    assert recordings(plan) == 25
    assert recordings(Plan.of(32, 120, 12.5)) == 52
    assert recordings(build.plan_for(model, device, EngineSettings(slots=200))) < 64


def recordings(plan: Plan) -> int:
    most = min(plan.slots, max(plan.sound_rows))
    rows = sum(size < most for size in plan.sound_rows) + 1
    return len(plan.buckets) + len(plan.prefill_rows) * 2 + len(plan.chunks) * rows


def test_a_model_by_name_speaks_on_it() -> None:
    engine = build.open_engine("random:toy", device="npu", slots=1, seconds=2, chunk=2)
    assert engine.device.name == "npu:0"
    assert engine.model.dtype == torch.bfloat16
    clip = engine.clip(Request("hello", Named("ann"), max_frames=3, ignore_end=True))
    assert clip.codes.shape[0] == 3
    assert clip.pcm.any()


@pytest.mark.parametrize("checkpoint_name", ["custom_voice", "base"])
def test_a_released_layout_is_loaded_cloned_and_spoken_as_on_the_cpu(checkpoint_name: str) -> None:
    folder = str(checkpoint(checkpoint_name))
    sound = np.random.default_rng(0).standard_normal(24_000).astype(np.float32) / 10
    codes = []
    for device in ("npu", "cpu"):
        options = {"dtype": "fp32", "slots": 1, "seconds": 2, "chunk": 2, "threads": 1}
        engine = build.open_engine(folder, device=device, **options)
        cloner = engine.model.cloner
        voice = clone(cloner, sound) if cloner else Named(next(iter(engine.model.speakers)))
        clip = engine.clip(Request("hello there", voice, seed=3, max_frames=6, ignore_end=True))
        codes.append(clip.codes.tolist())
    assert codes[0] == codes[1]


def clone(cloner: Cloner, sound: np.ndarray) -> Cloned:
    return Cloned(cloner.embedding(sound), cloner.codes(sound), "a word")


def test_the_doctor_has_lines_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "speech", lambda machine: Check(f"speech on {machine.device}", "ok", "yes"))
    lines = {check.name: check for check in doctor.devices(Machine(device="auto"))}
    assert lines["device npu:0"].status == "ok"
    assert "1.0 GiB free" in lines["device npu:0"].words
    assert "speech on npu:0" in lines
    missing = next(iter(doctor.devices(Machine(device="npu:7"))))
    assert (missing.status, missing.fix) == ("fail", "npu-smi info")


def test_the_doctor_tells_of_software_that_does_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "speech", lambda machine: Check(f"speech on {machine.device}", "ok", "yes"))
    monkeypatch.setattr(torch_npu.npu.utils, "get_cann_version", lambda module="CANN": "8.0.RC3")
    lines = {check.name: check for check in doctor.devices(Machine(device="auto"))}
    assert lines["device npu"].status == "warn"
    assert "CANN is 8.0" in lines["device npu"].words
    assert "device npu:0" not in lines
    assert lines["device cpu"].status == "ok"
