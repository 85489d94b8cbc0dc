"""Proofs about the whole engine on the fake NPU: codes as on the CPU, captured as eager, slips are seen.

Run by test_equal.py.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

sys.path.insert(0, str(Path(__file__).parent))

import fake_npu
import fake_operators
from fake_graphs import Hazard

torch_npu = fake_npu.install(os.environ["FAKE_NPU_VERSION"])

from omnitts_cli.audio.chunk import Clip  # noqa: E402
from omnitts_cli.devices import accelerator  # noqa: E402
from omnitts_cli.devices.cpu import CPUDevice  # noqa: E402
from omnitts_cli.devices.npu import operators  # noqa: E402
from omnitts_cli.devices.npu.device import NPUDevice  # noqa: E402
from omnitts_cli.engine.engine import Engine  # noqa: E402
from omnitts_cli.engine.plan import Plan  # noqa: E402
from omnitts_cli.families.toy import toy  # noqa: E402
from omnitts_cli.kernels.ops import Normed  # noqa: E402
from omnitts_cli.models.roles import SpeechModel  # noqa: E402
from omnitts_cli.request import Failed, Request, Sampling  # noqa: E402
from omnitts_cli.voices import Cloned, Designed, Named  # noqa: E402

PLAN = Plan(
    slots=3,
    positions=140,
    frames=50,
    buckets=(1, 3),
    chunks=(1, 2),
    sound_rows=(1, 3),
    prefill_rows=(16, 48),
    admissions=2,
    text_rows=8,
)
SIZES = {"groups": 3, "codes": 24, "hidden": 32, "predictor_hidden": 16}


@pytest.fixture(autouse=True)
def calm() -> Iterator[None]:
    torch.set_num_threads(1)
    yield
    fake_operators.strict = True
    fake_npu.waits.mode = 0
    fake_npu.graphs.capturing = None


@pytest.fixture(scope="module")
def requests() -> list[Request]:
    """Every kind of voice, sampled and greedy, more than there are slots; one text is longer than its ring."""
    rng = np.random.default_rng(0)
    vector, heard = rng.standard_normal(32).astype(np.float32), rng.integers(0, 24, (4, 3))
    voices = [Named("ann"), Cloned(vector, heard, "a clip"), Designed("deep"), Cloned(vector), Named("ben")]
    greedy = Sampling(temperature=0.0, predictor_temperature=0.0)
    tastes = [Sampling(), greedy, Sampling(temperature=1.2, top_k=7, top_p=0.8), Sampling(top_k=0), Sampling()]
    return [
        Request(
            "good morning, and so on " if i == 1 else "hello",
            voice,
            seed=7919 * i,
            id=str(i),
            sampling=taste,
            max_frames=7 + i,
            ignore_end=i % 2 == 0,
            text_mode="streamed" if i % 2 else "whole",
        )
        for i, (voice, taste) in enumerate(zip(voices, tastes, strict=True))
    ]


def model_on(device: Any, dtype: torch.dtype = torch.float32) -> SpeechModel:
    return toy(**SIZES, device=device.torch_device, dtype=dtype, place=device.to_device, ops=device.ops())


def engine_on(device: Any, dtype: torch.dtype = torch.float32, **more: Any) -> Engine:
    return Engine(model_on(device, dtype), device, replace(PLAN, **more))


def clips(engine: Engine, requests: list[Request]) -> dict[str, Clip]:
    chunks: dict[str, list[Any]] = {}
    for news in engine.speak(requests):
        assert not isinstance(news, Failed), news
        chunks.setdefault(news.request, []).append(news)
    assert not engine.busy
    return {name: Clip.join(parts) for name, parts in chunks.items()}


def same(ours: dict[str, Clip], theirs: dict[str, Clip], loose: float = 2e-5) -> None:
    assert ours.keys() == theirs.keys()
    for name, clip in theirs.items():
        np.testing.assert_array_equal(ours[name].codes, clip.codes)
        assert ours[name].stopped == clip.stopped
        np.testing.assert_allclose(ours[name].pcm, clip.pcm, rtol=0, atol=loose)


@pytest.fixture(scope="module")
def on_the_cpu(requests: list[Request]) -> dict[str, Clip]:
    return clips(engine_on(CPUDevice(1)), requests)


@pytest.fixture
def exact(monkeypatch: pytest.MonkeyPatch) -> None:
    """The vendor's attention in float32 and at the toy's depth, so that codes must be equal."""
    fake_operators.strict = False
    monkeypatch.setattr(operators, "fused", lambda dtype, depth: True)


def calls_of(name: str) -> int:
    """How often a captured operator stands in the graphs."""
    return sum(name in str(op.func) for graph in fake_npu.graphs.all for op in graph.ops)


def test_codes_are_those_of_the_cpu_captured_and_replayed_twice(
    exact: None, requests: list[Request], on_the_cpu: dict[str, Clip]
) -> None:
    before = len(fake_npu.graphs.all)
    engine = engine_on(NPUDevice())
    made = fake_npu.graphs.all[before:]
    # frames per bucket, prompts per (rows, batch), codec chunks per (frames, rows)
    assert len(made) == 2 + 4 + 4
    for name in ("fused_infer_attention", "rms_norm", "swiglu", "rotary_mul", "scatter_nd_update", "top_k_top_p"):
        assert calls_of(f"npu_{name}"), name
    for _ in range(2):  # a graph's memory is used again by the second run
        same(clips(engine, requests), on_the_cpu)
    assert sum(graph.replays for graph in made) > 40
    assert not any(op.measured for graph in made for op in graph.ops), "no length of the host is baked in"


def test_eager_codes_are_those_of_the_cpu_too(
    exact: None, requests: list[Request], on_the_cpu: dict[str, Clip]
) -> None:
    before = len(fake_npu.graphs.all)
    same(clips(engine_on(NPUDevice(), capture=False), requests), on_the_cpu)
    assert len(fake_npu.graphs.all) == before


def test_the_plain_way_gives_the_same_codes(requests: list[Request], on_the_cpu: dict[str, Clip]) -> None:
    same(clips(engine_on(NPUDevice()), requests), on_the_cpu)


def test_captured_is_eager_in_the_cards_own_type(monkeypatch: pytest.MonkeyPatch, requests: list[Request]) -> None:
    """bfloat16 with the vendor's attention; only the depth of the toy's heads is less than the vendor takes."""
    monkeypatch.setattr(operators, "fused", lambda dtype, depth: dtype in operators.HALVES)
    fake_operators.strict = False
    device = NPUDevice()
    assert device.dtype == torch.bfloat16
    eager = clips(engine_on(device, torch.bfloat16, capture=False), requests)
    same(clips(engine_on(device, torch.bfloat16), requests), eager)


def test_no_host_waits_inside_the_loop(requests: list[Request]) -> None:
    engine = engine_on(NPUDevice())
    clips(engine, requests)
    for request in requests:
        engine.submit(request)
    with engine.device.no_sync():  # raises where the host waits other than through a fetch
        heard = sum(news.codes.shape[0] for _ in iter(lambda: engine.busy, False) for news in engine.step())
    assert heard >= 7 + 9 + 11


# ---- slips in the engine's dealings with a device, each of which must be seen


def test_a_fetch_that_keeps_the_devices_memory_is_seen(
    monkeypatch: pytest.MonkeyPatch, requests: list[Request], on_the_cpu: dict[str, Clip]
) -> None:
    class Lazy:
        """Copies when it is asked, and by then the next frames have written over it."""

        def __init__(self, api: object, tensors: tuple[torch.Tensor, ...]) -> None:
            self._views = [tensor.detach() for tensor in tensors]

        def done(self) -> bool:
            return True

        def wait(self) -> list[np.ndarray]:
            return [view.cpu().numpy() for view in self._views]

    monkeypatch.setattr(accelerator, "PinnedFetch", Lazy)
    with pytest.raises(Hazard, match="overwritten"):
        clips(engine_on(NPUDevice()), requests)


def test_a_table_that_is_replaced_instead_of_written_is_seen(requests: list[Request]) -> None:
    engine = engine_on(NPUDevice())
    frames = engine._frames
    frames._slots = {size: slots.clone() for size, slots in frames._slots.items()}
    with pytest.raises(Hazard, match="moved or is gone"):
        clips(engine, requests)


def test_a_host_that_looks_into_a_frame_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    real = operators.OPS.norm

    def looking(x: Normed) -> torch.Tensor:
        assert x.rows.isfinite().all()
        return real(x)

    monkeypatch.setattr(operators, "OPS", replace(operators.OPS, norm=looking))
    with pytest.raises(Hazard, match="waits for the device inside a capture"):
        engine_on(NPUDevice())


def test_a_wrong_mask_is_heard(
    exact: None, monkeypatch: pytest.MonkeyPatch, requests: list[Request], on_the_cpu: dict[str, Clip]
) -> None:
    real = torch_npu.npu_fused_infer_attention_score
    monkeypatch.setattr(
        torch_npu,
        "npu_fused_infer_attention_score",
        lambda *args, atten_mask, **rest: real(*args, atten_mask=~atten_mask, **rest),
    )
    with pytest.raises(AssertionError, match="Arrays are not equal"):
        same(clips(engine_on(NPUDevice()), requests), on_the_cpu)
