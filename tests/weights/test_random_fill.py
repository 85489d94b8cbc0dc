"""Random models: the same numbers everywhere, and calm ones."""

import hashlib

import pytest
import torch
from golden_set import checkpoint
from torch import nn

from omnitts_cli.families.common.parts import Parts
from omnitts_cli.families.qwen3_tts.config import read_config
from omnitts_cli.families.qwen3_tts.modules import parts
from omnitts_cli.weights import random_fill as filling
from omnitts_cli.weights.random_fill import random_fill


class Toy(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(300, 500)
        self.norm = nn.LayerNorm(64)
        self.table = nn.Parameter(torch.empty(400, 300))
        self.counts = nn.Parameter(torch.empty(3, dtype=torch.int64), requires_grad=False)
        self.register_buffer("kept", torch.arange(3.0), persistent=False)


def toy(seed: int = 0, dtype: torch.dtype = torch.float32, **options: object) -> Toy:
    with torch.device("meta"):
        module = Toy()
    module.kept = torch.arange(3.0)
    random_fill(module, seed, "cpu", dtype, **options)  # type: ignore[arg-type]
    return module


def test_seed_and_name_decide() -> None:
    first, again, other = toy(1).state_dict(), toy(1).state_dict(), toy(2).state_dict()
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not torch.equal(first["table"], other["table"])
    assert not torch.equal(first["table"].view(-1)[:999], first["up.weight"].view(-1)[:999])


def test_blocks_leave_no_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = toy().table
    monkeypatch.setattr(filling, "BLOCK", 1000)
    assert torch.equal(toy().table, whole)


def test_the_arithmetic_is_that_of_whole_numbers() -> None:
    """Worked out without tensors: no device may make other numbers."""

    def mixed(bits: int) -> int:
        bits ^= bits >> 16
        bits = bits * 0x7FEB352D % 2**32
        bits ^= bits >> 15
        bits = bits * 0x846CA68B % 2**32
        return bits ^ bits >> 16

    digest = hashlib.blake2b(b"7 talker.head", digest_size=8).digest()
    start, stride = (int.from_bytes(digest[at : at + 4], "little") for at in (0, 4))
    expected = []
    for counter in range(50):
        bits = mixed((counter * (stride | 1) + start) % 2**32)
        expected.append(((bits & 0xFFFF) + (bits >> 16) - 0xFFFF) / 26755 * 0.5 + 1)
    numbers = torch.empty(50)
    filling._scatter(numbers, "7 talker.head", 1.0, 0.5, numbers.device)
    assert numbers.tolist() == pytest.approx(expected, abs=1e-6)


def test_distribution() -> None:
    module = toy()
    weight, table = module.up.weight.detach(), module.table.detach()
    assert weight.std().item() == pytest.approx(300**-0.5, rel=0.01)
    assert table.std().item() == pytest.approx(0.3, rel=0.01)
    assert abs(table.mean().item()) < 0.003
    assert table.unique().numel() > 50_000
    # neighbours in memory and rows know nothing of each other
    assert torch.corrcoef(torch.stack([table.view(-1)[:-1], table.view(-1)[1:]]))[0, 1].abs() < 0.01
    assert torch.corrcoef(table[:100]).fill_diagonal_(0).abs().max() < 0.3
    assert module.norm.weight.mean().item() == pytest.approx(1, abs=0.05)


def test_dtypes_and_buffers() -> None:
    module = toy(0, torch.bfloat16, keep_float32=("up.*",))
    assert module.table.dtype == torch.bfloat16 and module.up.weight.dtype == torch.float32
    assert torch.equal(module.table, toy().table.bfloat16())
    assert torch.equal(module.kept, torch.arange(3.0))
    assert module.counts.tolist() == [0, 0, 0] and not module.counts.requires_grad


@pytest.fixture(scope="module")
def pieces() -> Parts:
    """The tiny shapes of a model that can clone, with random numbers."""
    made = parts(read_config(checkpoint("base_large")))
    for part in made.all():
        random_fill(part.module, 5, "cpu", torch.float32)
    return made


def test_nothing_is_forgotten(pieces: Parts) -> None:
    for part in pieces.all():
        for name, value in part.module.state_dict().items():
            assert not value.is_meta and value.isfinite().all() and value.abs().max() > 0, name


def test_the_sound_of_random_codes_is_calm(pieces: Parts) -> None:
    decoder = pieces.decoder.module
    decoder.prepare()  # type: ignore[operator]
    codes = torch.randint(0, 64, (1, 250, 16), generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        sound = decoder(codes)
    assert sound.isfinite().all()
    assert 1e-4 < sound.std() < 0.5
    assert (sound.abs() > 0.99).float().mean() < 0.01
    halves = sound[0].chunk(2)
    assert halves[0].std() / halves[1].std() == pytest.approx(1, rel=0.5), "it does not grow"


def test_what_a_random_talker_says_is_open(pieces: Parts) -> None:
    """Logits far enough apart to choose by, and no code that always wins; the same after many frames as at first."""
    talker, embedder = pieces.language.module.talker, pieces.language.module.embedder
    codes = torch.randint(0, 64, (4, 300, 16), generator=torch.Generator().manual_seed(1))
    with torch.inference_mode():
        rows = torch.stack([embedder.frame(frame) for frame in codes.unbind(1)], 1)  # type: ignore[union-attr, operator]
        logits = talker.logits(talker(rows))  # type: ignore[union-attr, operator]
    assert logits.isfinite().all()
    assert 1 < logits.std() < 6
    early, late = logits[:, :100].std(), logits[:, -100:].std()
    assert early / late == pytest.approx(1, rel=0.3)
    assert logits.argmax(-1).unique().numel() > 20
