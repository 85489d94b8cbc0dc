"""What a card that is not here would run: AMD's under ROCm, and old ones of NVIDIA. Their driver is faked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch

from omnitts_cli.devices import cuda
from omnitts_cli.devices.cuda import CUDADevice
from omnitts_cli.errors import DeviceError
from omnitts_cli.kernels import plain


@pytest.fixture
def card(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[CUDADevice]:
    """A card with this compute capability, and the version of ROCm if it is one of AMD."""
    capability, rocm = request.param
    fakes: dict[str, Any] = {
        "is_available": lambda: True,
        "device_count": lambda: 1,
        "get_device_name": lambda index=0: "A card",
        "get_device_capability": lambda device=None: capability,
        "is_bf16_supported": lambda including_emulation=True: including_emulation or capability >= (8, 0),
        "set_device": lambda device: None,
    }
    for name, fake in fakes.items():
        monkeypatch.setattr(torch.cuda, name, fake)
    monkeypatch.setattr(torch.version, "hip", rocm)
    before = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
    yield CUDADevice()
    torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = before


@pytest.mark.parametrize("card", [((9, 0), "6.4"), ((11, 0), "7.0")], indirect=True)
def test_amd_runs_the_plain_operations_and_says_so(card: CUDADevice) -> None:
    """Its compute capability is a number of another kind: 9.0 is not an H100."""
    assert card.ops() == plain.OPS and card.name == "cuda:0"
    reason = card.plain_because()
    assert reason is not None and reason[1]
    assert card.persistent_kernels()[0] is False
    assert any("ROCm" in part for part in card.versions())
    with pytest.raises(DeviceError):
        card.make_exact()


@pytest.mark.parametrize("card", [((7, 5), None)], indirect=True)
def test_before_sm_80_bfloat16_is_not_emulated(card: CUDADevice) -> None:
    assert card.dtype == torch.float32 and card.ops() == plain.OPS
    reason = card.plain_because()
    assert reason is not None and "7.5" in reason[0]


@pytest.mark.parametrize("card", [((8, 6), None)], indirect=True)
def test_without_triton_the_package_is_named(card: CUDADevice, monkeypatch: pytest.MonkeyPatch) -> None:
    assert card.dtype == torch.bfloat16
    monkeypatch.setitem(cuda.sys.modules, "triton", None)
    for platform, package in (("linux", "triton"), ("win32", "triton-windows")):
        monkeypatch.setattr(cuda.sys, "platform", platform)
        reason = card.plain_because()
        assert reason is not None and reason[1] == f"pip install {package}"
