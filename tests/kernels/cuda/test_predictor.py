"""The persistent predictor against the plain operations, on a GPU."""

import functools
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import tables
import torch
from hopper import NEEDS_HOPPER, captured, predictor_inputs, predictor_parts, relative_error, teacher_forced
from torch import Tensor

from omnitts_cli.errors import DeviceError
from omnitts_cli.kernels import plain
from omnitts_cli.kernels.cuda import predictor as cuda
from omnitts_cli.kernels.cuda.predictor import fuse_predictor

pytestmark = NEEDS_HOPPER
ROWS = (1, 2, 5, 8, 9, 16)
SETTINGS = (
    {}, {"temperature": 0.0}, {"top_k": 0}, {"top_k": 1}, {"top_k": 0, "top_p": 0.8},
    {"top_k": 300, "top_p": 0.3, "temperature": 1.7},
)  # fmt: skip


parts = functools.cache(predictor_parts)
inputs = predictor_inputs


@functools.cache
def kernel(hold: int = 0) -> Any:
    made = fuse_predictor(parts(), {"HOLD": hold} if hold else {})
    assert made is not None
    return made


@pytest.mark.parametrize("rows", ROWS)
def test_logits_are_as_near_to_float32_as_those_of_the_plain_operations(rows: int) -> None:
    given = inputs(rows)
    logits = torch.zeros(15, rows, 2048, device="cuda", dtype=torch.bfloat16)
    codes = kernel()(*given, logits)
    want = teacher_forced(parts(), given, codes, torch.float32)
    rounded = relative_error(teacher_forced(parts(), given, codes, torch.bfloat16), want)
    assert relative_error(logits, want) < min(1.2e-2, rounded * 1.1)


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_codes_are_those_of_the_plain_draw_from_these_logits(rows: int, settings: dict[str, float]) -> None:
    differ = 0
    for seed in range(8):
        given = inputs(rows, seed, **settings)
        logits = torch.zeros(15, rows, 2048, device="cuda", dtype=torch.bfloat16)
        codes = kernel()(*given, logits)
        assert torch.equal(codes[:, 0], given[2])
        want = [plain.choose(logits[g - 1], given[3], given[4], g, *given[5:]) for g in range(1, 16)]
        differ += int((codes[:, 1:] != torch.stack(want, 1)).sum())
    assert differ <= 1  # of 8 x 15 x rows: sums in another order may put a draw on the other side of a step


def test_rows_do_not_depend_on_their_neighbours() -> None:
    given = inputs(16)
    logits = torch.zeros(15, 16, 2048, device="cuda", dtype=torch.bfloat16)
    whole = kernel()(*given, logits)
    for rows in (2, 3, 5, 7, 8, 9, 12, 15):
        some = torch.zeros(15, rows, 2048, device="cuda", dtype=torch.bfloat16)
        assert torch.equal(kernel()(*(x[:rows] for x in given), some), whole[:rows])
        assert torch.equal(some, logits[:, :rows])


@pytest.mark.parametrize("rows", [1, 8, 16])
def test_bits_repeat_while_warps_are_delayed_at_random(rows: int) -> None:
    given = inputs(rows)
    logits = torch.zeros(15, rows, 2048, device="cuda", dtype=torch.bfloat16)
    codes, first = kernel()(*given, logits), logits.clone()
    delayed, bad = kernel(hold=0x3FFF), torch.zeros((), device="cuda", dtype=torch.int64)
    for _ in range(150):
        logits.zero_()
        again = delayed(*given, logits)
        bad += (again != codes).any() | (logits != first).any()
    assert int(bad) == 0


@pytest.mark.parametrize("rows", [1, 8, 16])
def test_a_captured_frame_is_an_eager_one(rows: int) -> None:
    given = inputs(rows)
    want = kernel()(*given)
    made, graph = captured(lambda: kernel()(*given))
    for _ in range(3):
        made.zero_()
        graph.replay()
        assert torch.equal(made, want)


def test_a_sum_out_of_range_is_an_error() -> None:
    made = fuse_predictor(parts(scale=20_000.0))
    assert made is not None
    made.check()
    made(*inputs(1))
    torch.cuda.synchronize()
    with pytest.raises(DeviceError, match="exceed the range"):
        made.check()


def test_other_shapes_are_left_to_the_other_kernels() -> None:
    whole, choose = parts(), tables.card("triton nvrtc").fuse_predictor
    assert choose(replace(whole, layers=whole.layers[:4])) is None
    assert choose(replace(whole, eps=1e-5)) is None
    assert choose(replace(whole, norm=whole.norm.float())) is None


def test_a_grid_that_does_not_fit_falls_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda, "PROGRAMS", 1024)
    assert fuse_predictor(parts()) is None


def test_two_streams_and_other_work_beside() -> None:
    """Two of these kernels never run at once, and neither waits for ever."""
    given = inputs(1), inputs(8)
    want = [kernel()(*x) for x in given]
    other = fuse_predictor(parts())
    assert other is not None
    streams = [torch.cuda.Stream() for _ in range(3)]
    busy = torch.randn(4096, 4096, device="cuda").bfloat16()
    torch.cuda.synchronize()
    made: list[Tensor] = []
    for _ in range(50):
        with torch.cuda.stream(streams[0]):
            made.append(kernel()(*given[0]))
        with torch.cuda.stream(streams[1]):
            made.append(other(*given[1]))
        with torch.cuda.stream(streams[2]):
            busy = (busy @ busy).clamp(-1, 1)
    torch.cuda.synchronize()
    assert all(torch.equal(found, want[i % 2]) for i, found in enumerate(made))


def test_two_processes_share_the_card() -> None:
    command = [sys.executable, "-c", BESIDE, str(Path(__file__))]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    both = [subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    answers = [process.communicate(timeout=120)[0].strip() for process in both]
    assert answers[0] == answers[1] == str(kernel()(*inputs(8)).sum().item())


BESIDE = """
import runpy, sys
here = runpy.run_path(sys.argv[1])
made = [here["kernel"]()(*here["inputs"](8)).sum().item() for _ in range(300)]
assert len(set(made)) == 1
print(made[0])
"""
