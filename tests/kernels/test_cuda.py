"""Kernels and bytes of a frame with the persistent kernels, so that a change cannot lose them unnoticed, on a GPU."""

from __future__ import annotations

import ctypes
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hopper import NEEDS_HOPPER

from omnitts_cli.devices.cuda import CUDADevice
from omnitts_cli.engine.slots import Plan, SlotTable
from omnitts_cli.families.qwen3_tts.family import FAMILY, facts
from omnitts_cli.families.qwen3_tts.modules import parts
from omnitts_cli.models.networks import frame

pytestmark = NEEDS_HOPPER
KINDS = {0: "kernel", 1: "copy", 2: "fill"}  # CUgraphNodeType


@pytest.fixture(scope="module")
def model() -> Any:
    """The language side of a released 1.7B, with random numbers."""
    torch.manual_seed(1)
    ops, name = CUDADevice().ops(), "1.7b-customvoice"
    config = FAMILY.made_up_config(Path(name), name)
    language = parts(config, ops).language.module.bfloat16().to_empty(device="cuda").requires_grad_(False)
    for parameter in language.parameters():
        parameter.normal_(std=0.02)
    language.talker.prepare()
    language.predictor.prepare(language.embedder)
    roles = {role: getattr(language, role) for role in ("talker", "predictor", "embedder")}
    return SimpleNamespace(facts=facts(config), ops=ops, **roles)


def nodes(graph: Any) -> Counter[str]:
    """The nodes of a captured graph by kind."""
    driver, count = ctypes.CDLL("libcuda.so.1"), ctypes.c_size_t()
    handle = ctypes.c_void_p(graph.raw_cuda_graph())
    assert driver.cuGraphGetNodes(handle, None, ctypes.byref(count)) == 0
    found = (ctypes.c_void_p * count.value)()
    assert driver.cuGraphGetNodes(handle, found, ctypes.byref(count)) == 0
    kinds: Counter[str] = Counter()
    for node in found:
        kind = ctypes.c_int()
        assert driver.cuGraphNodeGetType(ctypes.c_void_p(node), ctypes.byref(kind)) == 0
        kinds[KINDS.get(kind.value, str(kind.value))] += 1
    return kinds


@torch.no_grad()
@pytest.mark.parametrize(("batch", "most"), [(1, 30), (8, 30), (16, 250)])
def test_kernels_of_a_frame(model: Any, batch: int, most: int) -> None:
    """Change the numbers when a frame needs fewer. More mean that it has become slower."""
    plan = Plan.of(batch, 10, 12.5)
    device = torch.device("cuda")
    table = SlotTable.empty(plan, model.facts, device, torch.bfloat16)
    cache = model.talker.cache(plan.slots + 1, plan.positions)
    slots = torch.arange(batch, device=device)

    def run() -> None:
        frame(model, table, cache, slots, cache.capacity, plan.stall_frames)

    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        run()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph(keep_graph=True)
    with torch.cuda.graph(graph, stream=stream):
        run()
    found = nodes(graph)
    print(batch, found)  # noqa: T201
    assert found["kernel"] <= most, found


def test_bytes_of_a_frame(model: Any) -> None:
    """The weights that a frame streams are those of the matrices, once for each pass; one row has its own `down`."""
    talker, predictor = model.talker.fused, model.predictor.fused
    inner = 4096 * 2048 + 2048 * 2048 + 3 * 2048 * 6144
    assert talker._lines.layers.nbytes == 2 * 28 * inner
    assert talker._lines.down.nbytes == 2 * 28 * 2048 * 6144
    layer = 4096 * 1024 + 1024 * 2048 + 3 * 1024 * 3072
    assert predictor._lines.layers.nbytes == 2 * 5 * layer
    assert predictor._lines.down.nbytes == 2 * 5 * 1024 * 3072
    assert predictor._heads.nbytes == 2 * 15 * 2048 * 1024
