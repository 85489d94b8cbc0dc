"""The decoder in C is for small decoders; that it sounds right is proved in tests/models/test_slot_decoder.py."""

from __future__ import annotations

import pytest
import torch

from omnitts_cli.devices.cpu import CPUDevice
from omnitts_cli.families.toy import toy
from omnitts_cli.kernels import cpu
from omnitts_cli.models.slot_decoder import slot_decoder


def test_large_weights_stay_in_python(monkeypatch: pytest.MonkeyPatch) -> None:
    ops = cpu.native()
    if ops is None:
        pytest.skip("the library of the CPU was not compiled")
    codec = toy().codec
    assert slot_decoder(codec, 2, 4, ops.codec).in_c
    assert not slot_decoder(codec, 2, 4, cpu.OPS.codec).in_c and not slot_decoder(codec, 2, 4, None).in_c
    monkeypatch.setattr("omnitts_cli.kernels.cpu.decoder.SMALL", 1000)
    assert not slot_decoder(codec, 2, 4, ops.codec).in_c


@pytest.mark.parametrize("in_c", [True, False], ids=["in C", "in Python"])
def test_with_exact_the_sound_does_not_depend_on_chunks_and_neighbours(
    in_c: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every bit: in chunks of any size, whole, and beside another stream."""
    if cpu.native() is None:
        pytest.skip("the library of the CPU was not compiled")
    if not in_c:
        monkeypatch.setattr("omnitts_cli.kernels.cpu.decoder.SMALL", 1000)
    device, codec = CPUDevice(1), toy().codec
    device.make_exact()
    codes = torch.randint(0, 8, (2, 30, codec.shape.groups), generator=torch.Generator().manual_seed(1))

    def sound(rows: int, sizes: list[int]) -> torch.Tensor:
        decoder, made, at = slot_decoder(codec, 2, 30, device.ops().codec), [], 0
        assert decoder.in_c == in_c
        while at < 30:
            size = sizes[min(len(made), len(sizes) - 1)]
            made.append(decoder.decode(codes[:rows, at : at + size], torch.arange(rows)))
            at += size
        return torch.cat(made, 1)

    with torch.inference_mode():
        whole = sound(1, [30])
        for sizes in ([1], [2], [3], [4], [8], [12], [25], [1, 2, 4, 8, 16]):
            assert torch.equal(sound(1, sizes), whole)
            assert torch.equal(sound(2, sizes)[:1], whole)
