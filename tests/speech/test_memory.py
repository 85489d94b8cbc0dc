"""A model that does not fit into the memory of a CPU: said before it is loaded, with the precision that would fit."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from pathlib import Path
from types import SimpleNamespace

import pytest
from golden_set import checkpoint

from omnitts_cli.devices.cpu import CPUDevice
from omnitts_cli.errors import DeviceError, Notice
from omnitts_cli.families.known import made_up
from omnitts_cli.kernels.ops import EIGHT
from omnitts_cli.settings.engine import EngineSettings
from omnitts_cli.speech.load import load_model
from omnitts_cli.speech.memory import Needs, refuse_what_cannot_fit, shortage


@pytest.fixture
def device() -> CPUDevice:
    found = CPUDevice(1)
    if found.ops().eight is None:
        pytest.skip("the library of the CPU was not compiled")
    return found


def frees(monkeypatch: pytest.MonkeyPatch, size_bytes: int | None) -> None:
    monkeypatch.setattr(CPUDevice, "known_free_bytes", lambda self: size_bytes)


def needed(name: str, device: CPUDevice) -> Needs:
    """With PyTorch."""
    family, config = made_up(name, None)
    assert family.stored is not None
    stored = family.stored(config)
    return Needs(stored.language[1], sum(map(prod, stored.decoder[1].values())), device.ops().eight, lean=False)


def test_the_sizes_are_those_of_the_released_shapes(device: CPUDevice) -> None:
    """In GB. A weight takes 1.0625 bytes in 8 bits, and the table of the text is not counted there."""
    for name, lean, eight, full in (("0.6b-customvoice", 1.1, 1.8, 5.4), ("1.7b-customvoice", 2.2, 2.9, 9.6)):
        needs = needed(name, device)
        assert replace(needs, lean=True).size_bytes(EIGHT) / 1e9 == pytest.approx(lean, rel=0.15)
        assert needs.size_bytes(EIGHT) / 1e9 == pytest.approx(eight, rel=0.15)
        assert needs.size_bytes("float32") / 1e9 == pytest.approx(full, rel=0.15)


def test_the_precision_that_would_fit_is_named(device: CPUDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    needs = needed("0.6b-customvoice", device)
    sizes = {kind: needs.size_bytes(kind) for kind in (EIGHT, "float32")}

    def said(kind: str, free: int | None, possible: bool = True) -> Notice | None:
        frees(monkeypatch, free)
        return shortage("0.6b", needs, kind, device, possible)

    assert said("float32", sizes["float32"]) is None and said("float32", None) is None
    assert "--dtype q8" in str(said("float32", sizes[EIGHT]).hint)
    for kind, free, possible in (
        ("float32", sizes[EIGHT], False),
        ("float32", sizes[EIGHT] - 1, True),
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

    monkeypatch.setattr("omnitts_cli.speech.networks.fill", read)
    with pytest.raises(KeyError):
        load_model(
            str(checkpoint("custom_voice_small")), device, settings=EngineSettings(dtype="fp32"), tell=said.append
        )


def test_what_cannot_fit_into_a_card_is_refused_before_it_is_read(device: CPUDevice) -> None:
    """A card of 3 GiB, 600 MiB of it for a desktop: 1.7b does not fit in bfloat16, 0.6b does."""
    card = SimpleNamespace(name="cuda:0", free_bytes=lambda: (3 << 30) - (600 << 20))
    small, large = (needed(name, device) for name in ("0.6b-customvoice", "1.7b-customvoice"))
    refuse_what_cannot_fit("0.6b", small, "bfloat16", card)
    with pytest.raises(DeviceError) as caught:
        refuse_what_cannot_fit("1.7b", large, "bfloat16", card)
    assert "GiB" in str(caught.value.cause) and "-m 0.6b" in str(caught.value.hint)
