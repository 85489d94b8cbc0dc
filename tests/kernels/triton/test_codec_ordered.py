"""With --exact the codec's sound has the same bits in chunks of any size, alone and beside other streams."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import tables
import torch
from codec_case import DEVICE, HOPPER_OR_INTERPRETER, INTERPRETED, small_codec
from hopper import HOPPER
from torch import Tensor

from omnitts_cli.kernels import tiles
from omnitts_cli.kernels.ops import CodecOps
from omnitts_cli.models.codec_decoder import CodecDecoder
from omnitts_cli.models.slot_decoder import slot_decoder

pytest.importorskip("triton")
pytestmark = HOPPER_OR_INTERPRETER
only_on_a_card = pytest.mark.skipif(INTERPRETED, reason="the released codec is too large for the interpreter")


def codec_ops(ordered: bool = True) -> CodecOps:
    ops = tables.card("triton nvrtc" if HOPPER else "triton", exact=ordered).codec
    assert ops is not None
    return ops


def sound_of(decoder: Any, codes: Tensor, sizes: Sequence[int], slots: Sequence[int] = (0,)) -> Tensor:
    """The sound of codes [B, T, G], in chunks of these sizes and then of the last of them."""
    at, sound, where = 0, [], torch.tensor(slots, device=DEVICE)
    decoder.clear(where)
    while at < codes.shape[1]:
        size = min(sizes[min(len(sound), len(sizes) - 1)], codes.shape[1] - at)
        sound.append(decoder.decode(codes[:, at : at + size], where))
        at += size
    return torch.cat(sound, 1)


@pytest.fixture(scope="module")
def released() -> Iterator[Any]:
    """The codec of a released model, with made-up weights."""
    from omnitts_cli.settings.engine import EngineSettings
    from omnitts_cli.speech import load

    settings = EngineSettings(device="cuda", offline=True, exact=True)
    device = load.device_for("random:0.6b-customvoice", settings)
    with torch.inference_mode():
        yield load.load_model("random:0.6b-customvoice", device, settings=settings).codec.cuda()


@only_on_a_card
def test_chunks_of_any_size(released: Any) -> None:
    """130 frames: more than the window of 72, and enough columns for every kernel there is."""
    codes = torch.randint(0, 2048, (1, 130, 16), generator=torch.Generator().manual_seed(1)).cuda()
    decoder = slot_decoder(released, 2, 130, codec_ops())
    whole = sound_of(decoder, codes, [130])
    assert whole.std() > 1e-3
    for sizes in ([1], [2], [3], [4], [8], [12], [16], [25], [100], [1, 1, 2, 4, 8, 16], [7, 1, 25, 3, 60]):
        assert torch.equal(sound_of(decoder, codes, sizes), whole), sizes


@only_on_a_card
@pytest.mark.parametrize("streams", [2, 4, 6, 8, 12, 16, 24, 32])
def test_beside_other_streams(released: Any, streams: int) -> None:
    """Every stream of a group, after it began alone, in chunks of several sizes."""
    codes = torch.randint(0, 2048, (streams, 50, 16), generator=torch.Generator().manual_seed(streams)).cuda()
    decoder, ops = slot_decoder(released, streams, 50, codec_ops()), codec_ops()
    alone = slot_decoder(released, 1, 50, ops)
    wanted = torch.cat([sound_of(alone, one[None], [50]) for one in codes])
    order = torch.randperm(streams).tolist()
    for sizes in ([1], [4], [16], [25], [50], [3, 16, 1, 25]):
        assert torch.equal(sound_of(decoder, codes, sizes, order), wanted), sizes
    # each stream is at another place of its own
    everyone = torch.tensor(order, device=DEVICE)
    decoder.clear(everyone)
    for row, slot in enumerate(order):
        ahead = decoder.decode(codes[row : row + 1, : row % 7 + 1], everyone[row : row + 1])
        assert torch.equal(ahead[0], wanted[row, : ahead.shape[1]]), slot
    later = torch.stack([codes[row, row % 7 + 1 : row % 7 + 17] for row in range(streams)])
    sound = decoder.decode(later, everyone)
    for row in range(streams):
        begin = (row % 7 + 1) * 1920
        assert torch.equal(sound[row], wanted[row, begin : begin + sound.shape[1]])


# ---- the interpreter, with products that add in an order of their own


def added_in_steps(self: Any, a: Any, b: Any, d: Any, *_: Any) -> Any:
    """`tl.dot` as a card computes it: 16 inputs after 16; with few rows, another instruction, 8 after 8."""
    from triton.runtime.interpreter import TensorHandle

    total, left, right = d.data.copy(), a.data.astype(np.float32), b.data.astype(np.float32)
    step = 16 if left.shape[0] >= 64 else 8
    for at in range(0, left.shape[1], step):
        part = np.zeros_like(total)
        for k in range(at, min(at + step, left.shape[1])):
            part += left[:, k : k + 1] * right[k : k + 1]
        total += part
    return TensorHandle(total, d.dtype.scalar)


@pytest.fixture
def stepwise(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiles and thresholds so small that a small codec takes every kernel, and products in steps."""
    from triton.runtime.interpreter import InterpreterBuilder

    monkeypatch.setattr(InterpreterBuilder, "create_dot", added_in_steps)
    monkeypatch.setattr(tiles, "TILES", ((64, 32, 32, 4, 3), (16, 32, 32, 4, 3)))
    monkeypatch.setattr(tiles, "ORDERED_TILES", ((64, 64, 32, 4, 3), (64, 32, 16, 4, 3), (64, 16, 32, 4, 3)))
    monkeypatch.setattr(tiles, "NORMED_TILES", ((32, 32, 32, 4, 3), (16, 32, 16, 4, 3)))
    monkeypatch.setattr(tiles, "UNIT_TILES", {64: (64, 32, 4, 3), 32: (64, 16, 4, 3)})
    monkeypatch.setattr(tiles, "UNIT_ENOUGH", 2)
    monkeypatch.setattr(tiles, "ENOUGH", 5)
    monkeypatch.setattr(tiles, "PROGRAMS", 8)
    monkeypatch.setattr(tiles, "WIDE_TILES", ((64, 32, 16, 4, 3),) * 2)
    monkeypatch.setattr(tiles, "WIDE_ENOUGH", 3)


@pytest.fixture
def small() -> CodecDecoder:
    return small_codec(quantised=32, window=18)


@pytest.mark.skipif(not INTERPRETED, reason="an order of the interpreter's own")
def test_every_kernel_adds_in_one_order(stepwise: None, small: CodecDecoder, monkeypatch: pytest.MonkeyPatch) -> None:
    from omnitts_cli.kernels.triton import codec_products, codec_wide

    used = set[str]()
    for module in (codec_products, codec_wide):
        launch = module.run

        def run(kernel: Any, *given: Any, module: str = module.__name__, launch: Any = launch, **more: Any) -> None:
            used.add(module.rpartition(".")[2] + kernel.fn.__name__)
            launch(kernel, *given, **more)

        monkeypatch.setattr(module, "run", run)
    codes = torch.randint(0, 8, (2, 24, 2), generator=torch.Generator().manual_seed(1))
    found = {}
    for ordered in (True, False):
        decoder = slot_decoder(small, 3, 24, replace(codec_ops(ordered), operand=torch.float16))
        whole = sound_of(decoder, codes[:1], [24])
        found[ordered] = [torch.equal(sound_of(decoder, codes[:1], sizes), whole) for sizes in ([3, 16], [5, 1, 18])]
        together = sound_of(decoder, codes, [8, 16], (2, 0))
        found[ordered].append(torch.equal(together[:1], whole))
    assert found[True] == [True] * 3
    assert not any(found[False])  # so these products can tell one order from another
    assert used == {"codec_products_product", "codec_products_unit", "codec_wide_product"}
