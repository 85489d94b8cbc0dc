"""The decoder in C is for small decoders; that it sounds right is proved in tests/models/test_slot_decoder.py."""

from __future__ import annotations

import pytest

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
