"""Kernels and bytes of a frame, counted without running it, so that a change cannot lose them unnoticed.

The released shapes stand on torch's `meta` device; Triton's kernels are noted down instead of launched. Needs the
`triton` package, but no GPU.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import cuda_emulator
import pytest
import tables
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from omnitts_cli.engine.slots import Plan, SlotTable
from omnitts_cli.families.qwen3_tts.family import FAMILY
from omnitts_cli.families.qwen3_tts.modules import parts
from omnitts_cli.kernels.cuda import attend, prefetched
from omnitts_cli.kernels.cuda import predictor as persistent_predictor
from omnitts_cli.kernels.cuda import rows as row_kernels
from omnitts_cli.kernels.cuda import talker as persistent_talker
from omnitts_cli.kernels.ops import Ops, PredictorParts
from omnitts_cli.models.networks import frame

triton = pytest.importorskip("triton")

ALLOCATIONS = {"aten.empty", "aten.empty_like", "aten.new_empty", "aten._unsafe_view"}
PRODUCTS = {"_vector", "_gated", "_parts", "_product", "prefetched", "aten.mm", "aten.addmm"}
META = torch.device("meta")


class Counts(TorchDispatchMode):
    """The kernels of a frame by name, and the bytes of weights that its products read."""

    def __init__(self) -> None:
        super().__init__()
        self.kernels: Counter[str] = Counter()
        self.weight_bytes = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        name = ".".join(str(func).split(".")[:2])
        view = any(value.alias_info is not None and not value.alias_info.is_write for value in func._schema.returns)
        if not view and name not in ALLOCATIONS:
            self.note(name, args)
        return func(*args, **(kwargs or {}))

    def note(self, name: str, args: tuple[Any, ...]) -> None:
        self.kernels[name] += 1
        if name in PRODUCTS:  # the weight is the largest of the operands
            operands = (getattr(x, "base", x) for x in args)  # of what the copy engine fetches
            self.weight_bytes += max(x.numel() * x.element_size() for x in operands if isinstance(x, Tensor))


@pytest.fixture
def counts(monkeypatch: pytest.MonkeyPatch) -> Iterator[Counts]:
    from triton.runtime.interpreter import InterpretedFunction
    from triton.runtime.jit import JITFunction

    from omnitts_cli.kernels.triton import overlap, shared_memory

    made = Counts()

    def run(self: Any, *args: Any, **kwargs: Any) -> None:
        made.note(self.fn.__name__, args)

    for kind in (JITFunction, InterpretedFunction):
        monkeypatch.setattr(kind, "run", run)
    # so that no card is asked for its features
    monkeypatch.setattr(triton.knobs.runtime, "interpret", True)
    for asked in (overlap.overlaps, shared_memory.shared_bytes):
        asked.cache_clear()
    yield made
    for asked in (overlap.overlaps, shared_memory.shared_bytes):
        asked.cache_clear()


def model_of(name: str, ops: Ops | None = None) -> Any:
    """A released model's language side without numbers, in bfloat16."""
    ops = ops or tables.card()
    config = FAMILY.made_up_config(Path(name), name)
    language = parts(config, ops).language.module.bfloat16().requires_grad_(False)
    language.talker.prepare()
    language.predictor.prepare(language.embedder)
    roles = {role: getattr(language, role) for role in ("talker", "predictor", "embedder")}
    return SimpleNamespace(facts=config.facts, ops=ops, **roles)


def count_frame(model: Any, batch: int, counts: Counts) -> None:
    plan = Plan.of(batch, 10, 12.5)
    table = SlotTable.empty(plan, model.facts, META, torch.bfloat16)
    cache = model.talker.cache(plan.slots + 1, plan.positions)
    slots = torch.zeros(batch, dtype=torch.int64, device=META)
    with counts:
        frame(model, table, cache, slots, cache.capacity, plan.stall_frames)


@torch.no_grad()
@pytest.mark.parametrize(("name", "batch", "kernels", "mebibytes"), [
    ("1.7b-customvoice", 1, 566, 5014), ("1.7b-customvoice", 2, 776, 5014), ("1.7b-customvoice", 8, 776, 5014),
    ("1.7b-customvoice", 64, 776, 5014), ("0.6b-customvoice", 1, 565, 3156),
])  # fmt: skip
def test_kernels_and_bytes_of_a_frame(name: str, batch: int, kernels: int, mebibytes: int, counts: Counts) -> None:
    """Change the numbers when a frame needs fewer. More mean that it has become slower."""
    count_frame(model_of(name), batch, counts)
    assert sum(counts.kernels.values()) == kernels, counts.kernels
    assert counts.weight_bytes >> 20 == mebibytes


@torch.no_grad()
def test_kernels_and_bytes_of_a_frame_of_many_rows_on_hopper(counts: Counts, monkeypatch: pytest.MonkeyPatch) -> None:
    """Products that fetch their weights early, and the predictor's attention: as many kernels as Triton's."""

    class Noted:
        def __init__(self, source: Path, name: str, *sizes: Any, **options: Any) -> None:
            self.name = name

        def launch(self, arguments: Any, programs: int) -> None:
            counts.note(self.name, ())

    def run(kind: int, x: Tensor, weight: Tensor, out: Tensor, tile: prefetched.Tile) -> Tensor:
        counts.note("prefetched", (x, weight))
        return out

    monkeypatch.setattr(prefetched, "_run", run)
    for module in (prefetched, attend):
        monkeypatch.setattr(module, "Kernel", Noted)
        module._kernel.cache_clear()
    ops = replace(tables.card("triton nvrtc"), fuse_step=None, fuse_predictor=None)
    count_frame(model_of("1.7b-customvoice", ops), 64, counts)
    for module in (prefetched, attend):
        module._kernel.cache_clear()
    assert sum(counts.kernels.values()) == 776, counts.kernels
    assert counts.weight_bytes >> 20 == 5014
    # talker: out, gate and up of 28 layers; predictor, all passes but the first: heads, and qkv, gate and up, down and
    # attention of 5 layers; its first pass, of 128 rows: out, gate and up
    assert counts.kernels["prefetched"] == 28 * 2 + 14 * (5 * 3 + 1) + 5 * 2
    assert counts.kernels["attend"] == 14 * 5


@torch.no_grad()
@pytest.mark.parametrize(("batch", "kernels"), [(1, 11), (8, 11), (16, 207)])
def test_kernels_and_bytes_of_a_frame_with_persistent_kernels(
    batch: int, kernels: int, counts: Counts, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Noted:
        def __init__(self, source: Path, name: str, *sizes: Any, early: bool = False) -> None:
            self.name = name

        def launch(self, arguments: Any, programs: int = 0) -> None:
            counts.note(self.name, ())

    monkeypatch.setattr(row_kernels, "_rest", lambda name, blocks: Noted(Path(), name))
    for module in (persistent_predictor, persistent_talker, row_kernels):
        monkeypatch.setattr(module, "Kernel", Noted)
    for module in (persistent_predictor, persistent_talker):
        monkeypatch.setattr(module, "Overflow", cuda_emulator.Overflow)
    model = model_of("1.7b-customvoice")
    talker, predictor = model.talker, model.predictor
    talker.fused = persistent_talker.PersistentTalker(talker.stack.blocks(), talker.stack.norm, {})
    later = model.embedder.rest[:-1] if predictor.narrowed is None else predictor.narrowed[1:]
    weights = predictor.stack.blocks(), predictor.stack.norm, 1e-6, 8, *predictor.turns, predictor.heads, later
    predictor.fused = persistent_predictor.PersistentPredictor(PredictorParts(*weights), {})
    count_frame(model, batch, counts)
    assert sum(counts.kernels.values()) == kernels, counts.kernels
    if batch <= 8:  # what the two kernels stream is their lines, once for each pass
        lines, frames = talker.fused._lines, predictor.fused._lines  # one row reads `down` elsewhere, as many bytes
        assert (lines.layers.nbytes + 16 * frames.layers.nbytes + predictor.fused._heads.nbytes) >> 20 == 5148
