"""A model that does not fit into the memory of a CPU: said before it is loaded, with the precision that would fit."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from golden_set import checkpoint

from omnitts_cli.devices.cpu import CPUDevice
from omnitts_cli.errors import DeviceError, Notice
from omnitts_cli.kernels.ops import EIGHT
from omnitts_cli.settings.engine import EngineSettings
from omnitts_cli.speech.load import load_model, made_up
from omnitts_cli.speech.memory import needed_bytes, refuse_what_cannot_fit, shortage


@pytest.fixture
def device() -> CPUDevice:
    found = CPUDevice(1)
    if found.ops().eight is None:
        pytest.skip("the library of the CPU was not compiled")
    return found


def frees(monkeypatch: pytest.MonkeyPatch, size_bytes: int | None) -> None:
    monkeypatch.setattr(CPUDevice, "known_free_bytes", lambda self: size_bytes)


def test_the_sizes_are_those_of_the_released_shapes(device: CPUDevice) -> None:
    """In GB. A weight takes 1.0625 bytes in 8 bits, and the table of the text is not counted there."""
    import torch

    for name, eight, full in (("0.6b-customvoice", 1.8, 5.4), ("1.7b-customvoice", 2.9, 9.6)):
        pieces = made_up(name, None, device)[2]
        assert needed_bytes(pieces, EIGHT, device.ops()) / 1e9 == pytest.approx(eight, rel=0.15)
        assert needed_bytes(pieces, torch.float32, device.ops()) / 1e9 == pytest.approx(full, rel=0.15)


def test_the_precision_that_would_fit_is_named(device: CPUDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    pieces = made_up("0.6b-customvoice", None, device)[2]
    sizes = {kind: needed_bytes(pieces, kind, device.ops()) for kind in (EIGHT, torch.float32)}

    def said(kind: torch.dtype, free: int | None, possible: bool = True) -> Notice | None:
        frees(monkeypatch, free)
        return shortage("0.6b", pieces, kind, device, possible)

    assert said(torch.float32, sizes[torch.float32]) is None and said(torch.float32, None) is None
    assert "--dtype q8" in str(said(torch.float32, sizes[EIGHT]).hint)
    for kind, free, possible in (
        (torch.float32, sizes[EIGHT], False),
        (torch.float32, sizes[EIGHT] - 1, True),
        (EIGHT, 10, True),
    ):
        found = said(kind, free, possible)
        assert found is not None and "--dtype" not in str(found.hint) and "-m tiny" in str(found.hint)


def test_it_is_said_before_the_weights_are_read(
    device: CPUDevice, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    frees(monkeypatch, 1000)
    said: list[Notice] = []

    def read(*about: object, **more: object) -> None:
        assert len(said) == 1
        raise KeyError

    monkeypatch.setattr("omnitts_cli.speech.load.fill", read)
    with pytest.raises(KeyError):
        load_model(
            str(checkpoint("custom_voice_small")), device, settings=EngineSettings(dtype="fp32"), tell=said.append
        )


def test_what_cannot_fit_into_a_card_is_refused_before_it_is_read(device: CPUDevice) -> None:
    """A card of 3 GiB, 600 MiB of it for a desktop: 1.7b does not fit in bfloat16, 0.6b does."""
    import torch

    card = SimpleNamespace(name="cuda:0", free_bytes=lambda: (3 << 30) - (600 << 20))
    small, large = (made_up(name, None, device)[2] for name in ("0.6b-customvoice", "1.7b-customvoice"))
    refuse_what_cannot_fit("0.6b", small, torch.bfloat16, card)
    with pytest.raises(DeviceError) as caught:
        refuse_what_cannot_fit("1.7b", large, torch.bfloat16, card)
    assert "GiB" in str(caught.value.cause) and "-m 0.6b" in str(caught.value.hint)
