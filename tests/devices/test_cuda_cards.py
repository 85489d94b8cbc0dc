"""What a card that is not here would run: AMD's under ROCm, and old ones of NVIDIA. Their driver is faked."""

from collections.abc import Iterator
from dataclasses import fields
from typing import Any

import pytest
import torch

from omnitts_cli.devices import cuda
from omnitts_cli.devices.cuda import CUDADevice
from omnitts_cli.errors import DeviceError
from omnitts_cli.kernels import choose, plain
from omnitts_cli.kernels.calls import ProductCall

PRODUCTS = "linear", "norm_linear", "norm_swiglu", "linear_add"
limits: list[float] = []
"""Limits that the allocator got."""


def runs_plain(card: CUDADevice) -> bool:
    """Whether nothing but the plain operations runs, with floats and with matrices in 8 bits."""
    ops, call = card.ops(), ProductCall(1, "float32", 64, 64)
    rest = [one.name for one in fields(ops) if one.name not in (*PRODUCTS, "pack")]
    alike = all(getattr(ops, name) == getattr(plain.OPS, name) for name in rest)
    names = {choose.decide(name, card.hardware, call).variant.name for name in PRODUCTS}
    return alike and names == {"plain.py"}


@pytest.fixture
def card(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[CUDADevice]:
    """A card with this compute capability, and the version of ROCm if it is one of AMD."""
    capability, rocm = request.param
    limits.clear()
    fakes: dict[str, Any] = {
        "is_available": lambda: True,
        "device_count": lambda: 1,
        "get_device_name": lambda index=0: "A card",
        "get_device_capability": lambda device=None: capability,
        "is_bf16_supported": lambda including_emulation=True: including_emulation or capability >= (8, 0),
        "set_device": lambda device: None,
        "mem_get_info": lambda device: (8 << 30, 80 << 30),
        "memory_reserved": lambda device: 3 << 30,
        "set_per_process_memory_fraction": lambda share, device: limits.append(share),
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
    assert runs_plain(card) and card.name == "cuda:0"
    reason = card.plain_because()
    assert reason is not None and reason[1]
    assert card.persistent_kernels()[0] is False
    assert any("ROCm" in part for part in card.versions())
    with pytest.raises(DeviceError):
        card.make_exact()


@pytest.mark.parametrize("card", [((7, 5), None)], indirect=True)
def test_before_sm_80_bfloat16_is_not_emulated(card: CUDADevice) -> None:
    assert card.dtype == torch.float32 and runs_plain(card)
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


@pytest.mark.parametrize("card", [((9, 0), None)], indirect=True)
def test_a_limit_counts_what_the_allocator_keeps(card: CUDADevice) -> None:
    """Its pieces between tensors are not free for large ones."""
    assert card.free_bytes() == 8 << 30 and not card.hardware.small
    card.limit(4 << 30)
    assert card.free_bytes() == 1 << 30 and limits == [4 / 80] and card.hardware.small
    card.limit(None)
    assert card.free_bytes() == 8 << 30
