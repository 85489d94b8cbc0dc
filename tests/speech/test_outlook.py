"""What a released model will need: from its sizes and two measured speeds."""

from dataclasses import replace

import pytest
import tables
from torch import Tensor

from omnitts_cli.devices.cpu import CPUDevice
from omnitts_cli.families.toy import toy
from omnitts_cli.kernels.ops import DecoderParts, EightBits
from omnitts_cli.models.codec_decoder import CodecDecoder
from omnitts_cli.models.slot_decoder import slot_decoder
from omnitts_cli.speech.outlook import Speeds, outlook, products_of, speeds

SPEED = Speeds(2, 20.0, 40.0)


@pytest.fixture
def device() -> CPUDevice:
    made = CPUDevice(1)
    if made.ops().eight is None:
        pytest.skip("the library of the CPU was not compiled")
    return made


def bits_of(device: CPUDevice) -> EightBits:
    found = device.ops().eight
    assert found is not None
    return found


def test_the_products_of_a_codec_are_those_of_its_layers() -> None:
    codec, seen = toy().codec, list[DecoderParts]()
    assert isinstance(codec, CodecDecoder) and tables.PYTHON.codec is not None

    def fuse(parts: DecoderParts, halves: bool) -> None:
        seen.append(parts)

    slot_decoder(codec, 1, 1, replace(tables.PYTHON.codec, fuse_decoder=fuse))
    (parts,) = seen
    layers = [one.weight for layer in parts.layers for one in (layer.qkv, layer.out, layer.gate_up, layer.down)]
    total, columns = sum(map(Tensor.numel, layers)), 1
    for stretch, rate in zip(parts.stretches, codec.shape.stretches, strict=True):
        # the first one contains the transformer's output layer, so its inputs are as wide as the transformer
        total += columns * rate * codec.shape.latent**2
        columns *= rate
        total += columns * (stretch.up.weight.numel() + stretch.down.weight.numel())
    total += columns * parts.widen.weight.numel()
    for rise, rate in zip(parts.rises, codec.shape.rises, strict=True):
        total += columns * rise.rise.weight.numel()
        columns *= rate
        total += columns * sum(one.weight.numel() for unit in rise.units for one in unit)
    assert products_of(codec.shape) == total


def test_a_machine_twice_as_fast_needs_half_the_time(device: CPUDevice) -> None:
    slow = outlook("0.6b-customvoice", bits_of(device), SPEED)
    assert outlook("0.6b-customvoice", bits_of(device), Speeds(2, 40.0, 80.0)).rtf == pytest.approx(slow.rtf / 2)
    larger = outlook("1.7b-customvoice", bits_of(device), SPEED)
    assert larger.rtf > 1.2 * slow.rtf and larger.memory_bytes > 1.4 * slow.memory_bytes


def test_the_smaller_model_in_numbers(device: CPUDevice) -> None:
    """Bytes of a frame as they were counted: 1.76 GB of the language side, 2.46 G products of the codec."""
    reading = outlook("0.6b-customvoice", bits_of(device), Speeds(2, 20.0, 1e9)).rtf / 12.5
    assert reading * 0.75 * 20 == pytest.approx(1.76, rel=0.03)
    multiplying = outlook("0.6b-customvoice", bits_of(device), Speeds(2, 1e9, 40.0)).rtf / 12.5
    assert multiplying * 1.1 * 40 == pytest.approx(2.46, rel=0.03)


def test_speeds_are_measured(device: CPUDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("omnitts_cli.speech.outlook.STREAM_BYTES", 1 << 20)
    assert device.ops().eight is not None
    found = speeds(device.ops().eight)
    assert found.threads == 1 and found.gb_per_s > 0.01 and found.gmac_per_s > 0.01
