"""What is loaded, and what happens where there is nothing to load."""

from pathlib import Path

import numpy as np
import pytest
import tables
import torch

from omnitts_cli.devices.cpu import CPUDevice
from omnitts_cli.kernels.cpu import build, library, networks


def test_a_weight_in_panels() -> None:
    weight = torch.arange(20 * 3.0).view(20, 3)
    made = networks.panels(weight)
    assert made.shape == (2, 3, 16) and made[1, 2, 3] == weight[19, 2] and not made[1, :, 4:].any()


def test_parts_in_panels_of_their_own() -> None:
    weight, norm = np.arange(40 * 3, dtype=np.float32).reshape(40, 3), np.array([2, 3, 0.1], np.float32)
    halves = [networks.panels(half * norm) for half in np.split(weight, 2)]
    assert np.array_equal(networks.panels(weight, norm, parts=2), np.concatenate(halves))


def test_words_of_two_weights() -> None:
    weight = torch.randn(5, 6, generator=torch.Generator().manual_seed(0)).bfloat16().float()
    made = networks.words(weight)
    assert made is not None and made.dtype == np.uint32 and made.shape == (5, 3)
    assert np.array_equal((made << 16).view(np.float32), weight[:, ::2])
    assert np.array_equal((made & 0xFFFF0000).view(np.float32), weight[:, 1::2])
    odd, exact = weight[:, :5].contiguous(), weight.clone()
    exact[4, 5] = 1 + 2**-8  # one bit more than bfloat16 has
    assert networks.words(odd) is networks.words(exact) is None


def test_a_strange_tensor_has_no_address() -> None:
    for tensor in (torch.ones(2, 3).T, torch.ones(2).bfloat16(), torch.ones(2, device="meta")):
        with pytest.raises(AssertionError):
            networks.address(tensor)


def test_no_memory_is_an_error_that_the_engine_knows() -> None:
    with pytest.raises(MemoryError) as caught:
        networks.check(1)
    assert CPUDevice(1).is_out_of_memory(caught.value)


@pytest.mark.parametrize("content", [None, b"", b"not a library"])
def test_without_a_library_python_does_it(
    content: bytes | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "native.so"
    if content is not None:
        place.write_bytes(content)
    monkeypatch.setattr(build, "library", lambda: place)
    assert library.load() is None and library.usable() == [] and tables.native() is None
    assert bool(library.why_not()) == (content is not None)
    device = CPUDevice(1)
    assert device.ops().fuse_frame is device.ops().eight is None
    assert bool(device.unloadable) == (content is not None)


def test_the_environment_switches_it_off(monkeypatch: pytest.MonkeyPatch) -> None:
    tables.compiled()
    monkeypatch.delenv("OMNITTS_NATIVE", raising=False)
    assert CPUDevice(1).ops().fuse_frame is not None
    monkeypatch.setenv("OMNITTS_NATIVE", "0")
    assert CPUDevice(1).ops().fuse_frame is CPUDevice(1).ops().eight is None
