"""A model that does not fit into the memory of a CPU: said before it is loaded, with the precision that would fit."""

from dataclasses import replace
from math import prod
from pathlib import Path
from typing import Any

import pytest
import torch
from golden_set import checkpoint

from omnitts_cli.devices.cpu import CPUDevice
from omnitts_cli.devices.host import HostDevice
from omnitts_cli.errors import DeviceError, Notice
from omnitts_cli.families.known import made_up
from omnitts_cli.kernels import plain, plain_codec, plain_eight
from omnitts_cli.kernels.cpu import networks
from omnitts_cli.kernels.ops import EIGHT
from omnitts_cli.settings.engine import EngineSettings
from omnitts_cli.settings.environment import EMBEDDED
from omnitts_cli.speech import load
from omnitts_cli.speech.load import load_model
from omnitts_cli.speech.memory import Needs, check_memory
from omnitts_cli.weights.eight import in_stack


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
    return Needs(stored.language[1], sum(map(prod, stored.decoder[1].values())), lambda: device.ops().eight, lean=False)


def test_the_sizes_are_those_of_the_released_shapes(device: CPUDevice) -> None:
    """In GB. A weight takes 1.0625 bytes in 8 bits, and the table of the text is not counted there. Without PyTorch the
    sizes in 8 bits were measured, for two frames (benchmarks/log/cpu.md).
    """
    for name, lean, eight, full in (("0.6b-customvoice", 1.01, 1.8, 5.4), ("1.7b-customvoice", 2.16, 2.9, 9.6)):
        needs = needed(name, device)
        assert replace(needs, lean=True).size_bytes(EIGHT) / 1e9 == pytest.approx(lean, rel=0.15)
        assert needs.size_bytes(EIGHT) / 1e9 == pytest.approx(eight, rel=0.15)
        assert needs.size_bytes("float32") / 1e9 == pytest.approx(full, rel=0.15)


def test_the_precision_that_would_fit_is_named(device: CPUDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    needs = needed("0.6b-customvoice", device)
    sizes = {kind: needs.size_bytes(kind) for kind in (EIGHT, "float32")}

    def said(kind: str, free: int | None, possible: bool = True) -> Notice | None:
        frees(monkeypatch, free)
        told = list[Notice]()
        check_memory("0.6b", needs, kind, device, lambda: possible, told.append)
        return told[0] if told else None

    assert said("float32", sizes["float32"]) is None and said("float32", None) is None
    assert "--dtype q8" in str(said("float32", sizes[EIGHT]).hint)
    for kind, free, possible in (
        ("float32", sizes[EIGHT], False),
        ("float32", sizes[EIGHT] - 1, True),
        (EIGHT, 10, True),
    ):
        found = said(kind, free, possible)
        assert found is not None and "--dtype" not in str(found.hint) and "-m tiny" in str(found.hint)


@pytest.mark.usefixtures("device")  # skips without the compiled library
@pytest.mark.parametrize("name", [EMBEDDED, str(checkpoint("custom_voice_small"))], ids=["embedded", "golden"])
def test_matrices_are_counted_as_they_are_kept(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of the stacks, without the outputs that fill a panel. The embedded voice is stored in bfloat16."""
    planned, kept = list[Needs](), list[int]()
    real = networks.matrix_of

    def made(arrays: list[Any], weight: Any, *more: Any) -> networks.Matrix:
        matrix = real(arrays, weight, *more)
        kept.append(weight.size * (4 if matrix.form == networks.FLOATS else 2))
        return matrix

    monkeypatch.setattr(networks, "matrix_of", made)
    monkeypatch.setattr(load, "check_room", lambda name, known, *more: planned.append(known.needs))
    load_model(name, HostDevice(1))
    (needs,) = planned
    others = {part: shape for part, shape in needs.language.items() if not in_stack(part)}
    counted = needs.size_bytes("float32") - replace(needs, language=others).size_bytes("float32")
    assert counted == sum(kept[: len(needs.language) - len(others)]) > 0
    assert needs.words == (name == EMBEDDED)


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


class Card(CPUDevice):
    """Calculates on the CPU, and answers as a card with so much free memory and operations of its own for the codec."""

    torch_device, name, dtype = torch.device("cpu"), "cuda:0", torch.bfloat16

    def __init__(self, free: float) -> None:
        super().__init__(1)
        self.free = int(free * 2**30)
        self._ops = replace(plain.OPS, codec=plain_codec.OPS, pack=plain_eight.pack)

    def free_bytes(self) -> int:
        return self.free


DESKTOP = 600 / 1024  # GiB
NAMED = {name: f"random:{name}-customvoice" for name in ("0.6b", "1.7b")}


def precision_on(card: Card, name: str, **more: Any) -> str:
    known = load.made_up_facts(name, None, card)
    return load.language_dtype(EngineSettings(**more), card, known)


def test_a_card_gets_8_bits_where_nothing_else_fits() -> None:
    """A card of 4 GiB speaks with 1.7b, and one of 3 GiB with 0.6b, beside a desktop."""
    assert precision_on(Card(4 - DESKTOP), NAMED["1.7b"]) == EIGHT
    assert precision_on(Card(6 - DESKTOP), NAMED["1.7b"]) == "bfloat16"
    assert precision_on(Card(3 - DESKTOP), NAMED["0.6b"]) == "bfloat16"
    assert precision_on(Card(4 - DESKTOP), NAMED["1.7b"], dtype="bf16") == "bfloat16"
    assert precision_on(Card(1), NAMED["1.7b"]) == "bfloat16"
    with pytest.raises(DeviceError, match="exact"):
        precision_on(Card(9), NAMED["0.6b"], dtype="q8", exact=True)


def test_doctor_plans_a_card_without_loading_a_model() -> None:
    card = Card(4 - DESKTOP)
    card.captures = card.pads = True
    small, large = (load.room_for(f"{name}-customvoice", card) for name in NAMED)
    assert small is not None and large is not None
    assert (small.precision, large.precision) == ("bfloat16", "q8")
    assert small.slots >= 4 and large.slots >= 4 and min(small.seconds, large.seconds) >= 60
    card.free = 1 << 29
    assert load.room_for("0.6b-customvoice", card) is None


@pytest.mark.parametrize(
    ("free", "name", "typed"),
    [
        (4 - DESKTOP, "1.7b", ["--dtype q8", "-m 0.6b"]),
        (2, "1.7b", ["-m 0.6b", "-m 0.6b --dtype q8"]),
        (0.5, "0.6b", ["-m tiny", "-d cpu"]),
    ],
)
def test_what_cannot_fit_into_a_card_is_refused_before_it_is_made(
    free: float, name: str, typed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("omnitts_cli.speech.networks.random_fill", lambda *about, **more: pytest.fail("was made"))
    with pytest.raises(DeviceError) as caught:
        load_model(NAMED[name], Card(free), settings=EngineSettings(dtype="bf16"))
    hint = str(caught.value.hint).split("   or   ")
    assert hint[: len(typed)] == typed and "GiB" in str(caught.value.cause)


def test_a_limit_is_named_in_the_place_of_what_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    card = Card(1)
    card.limit(1 << 30)
    with pytest.raises(DeviceError) as caught:
        load_model(NAMED["1.7b"], card)
    assert "--max-memory" in str(caught.value.cause)
    host = CPUDevice(1)
    free = host.free_bytes()
    host.limit(10 << 30)
    assert host.free_bytes() < min(free, 10 << 30) + (64 << 20)
    monkeypatch.setattr("omnitts_cli.speech.networks.fill", lambda *about, **more: pytest.fail("was read"))
    host.limit(100 << 20)
    with pytest.raises(DeviceError) as caught:
        load_model(str(checkpoint("custom_voice_small")), host, settings=EngineSettings(dtype="fp32"))
    assert "--max-memory" in str(caught.value.cause) and "-m tiny" in str(caught.value.hint)


def test_the_codec_and_the_text_are_loaded_into_the_memory_of_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """And nothing else is."""
    card, places = Card(9), dict[str, tuple[torch.device, object]]()
    card.torch_device = torch.device("meta")

    def fill(
        module: torch.nn.Module, names: object, files: object, place: torch.device, *about: Any, **more: Any
    ) -> None:
        places[type(module).__name__] = place, more["host"]
        if len(places) == 2:
            raise KeyError

    monkeypatch.setattr("omnitts_cli.speech.networks.fill", fill)
    with pytest.raises(KeyError):
        load_model(str(checkpoint("custom_voice_small")), card)
    assert places["CodecDecoder"][0].type == "cpu"
    assert places["Language"] == (torch.device("meta"), ("text.table",))
