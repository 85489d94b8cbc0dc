"""The engine on the fake NPU, as a process of its own: codes as on the CPU, captured and not, and no host waits.

python engine_run.py VERSION CHECKPOINT; run by test_device.py. It fails with an assertion or the fake's own errors.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import fake_npu
import fake_operators

torch_npu = fake_npu.install(sys.argv[1])

import numpy as np  # noqa: E402
import torch  # noqa: E402

from omnitts_cli.audio.chunk import Clip  # noqa: E402
from omnitts_cli.devices.choose import choose  # noqa: E402
from omnitts_cli.devices.cpu import CPUDevice  # noqa: E402
from omnitts_cli.devices.npu import operators  # noqa: E402
from omnitts_cli.devices.npu.device import NPUDevice  # noqa: E402
from omnitts_cli.engine.engine import Engine  # noqa: E402
from omnitts_cli.engine.slots import Plan  # noqa: E402
from omnitts_cli.families.toy import toy  # noqa: E402
from omnitts_cli.request import Failed, Request, Sampling  # noqa: E402
from omnitts_cli.speech.load import open_engine  # noqa: E402
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


def requests() -> list[Request]:
    """Every kind of voice, sampled and greedy, more than there are slots; one text is longer than its ring."""
    rng = np.random.default_rng(0)
    vector, clip = rng.standard_normal(32).astype(np.float32), rng.integers(0, 24, (4, 3))
    voices = [Named("ann"), Cloned(vector, clip, "a clip"), Designed("deep"), Cloned(vector), Named("ben")]
    greedy = Sampling(temperature=0.0, predictor_temperature=0.0)
    tastes = [Sampling(), greedy, Sampling(temperature=1.2, top_k=7, top_p=0.8), Sampling(top_k=0), Sampling()]
    texts = ["good morning, and so on " if i == 1 else "hello" for i in range(5)]
    return [
        Request(
            text,
            voice,
            seed=7919 * i,
            id=str(i),
            sampling=taste,
            max_frames=7 + i,
            ignore_end=i % 2 == 0,
            text_mode="streamed" if i % 2 else "whole",
        )
        for i, (text, voice, taste) in enumerate(zip(texts, voices, tastes, strict=True))
    ]


def engine_on(device: Any, dtype: torch.dtype = torch.float32, capture: bool = True) -> Engine:
    sizes = {"groups": 3, "codes": 24, "hidden": 32, "predictor_hidden": 16}
    model = toy(**sizes, device=device.torch_device, dtype=dtype, place=device.to_device, ops=device.ops())
    return Engine(model, device, replace(PLAN, capture=capture))


def clips(engine: Engine) -> dict[str, Clip]:
    chunks: dict[str, list[Any]] = {}
    with engine.device.no_sync():  # raises where the host waits other than through a fetch
        for news in engine.speak(requests()):
            assert not isinstance(news, Failed), news
            chunks.setdefault(news.request, []).append(news)
    return {name: Clip.join(parts) for name, parts in chunks.items()}


def same(ours: dict[str, Clip], theirs: dict[str, Clip]) -> None:
    assert ours.keys() == theirs.keys()
    for name, clip in theirs.items():
        np.testing.assert_array_equal(ours[name].codes, clip.codes)
        np.testing.assert_allclose(ours[name].pcm, clip.pcm, rtol=0, atol=2e-5)


def the_toy() -> None:
    on_the_cpu = clips(engine_on(CPUDevice(1)))
    same(clips(engine_on(NPUDevice())), on_the_cpu)  # float32 at this depth goes the plain way
    # the vendor's attention in float32 and at the toy's depth, so that codes must be equal
    fake_operators.strict, operators.fused = False, lambda dtype, depth: True
    for capture in (False, True):
        engine = engine_on(NPUDevice(), capture=capture)
        for _ in range(2):  # a graph's memory is used again by the second run
            same(clips(engine), on_the_cpu)
    # bfloat16, the card's own type
    operators.fused = lambda dtype, depth: dtype in operators.HALVES
    assert NPUDevice().dtype == torch.bfloat16
    eager = clips(engine_on(NPUDevice(), torch.bfloat16, capture=False))
    same(clips(engine_on(NPUDevice(), torch.bfloat16)), eager)


def a_released_layout(folder: str) -> None:
    """Loaded by its name, cloned and spoken as on the CPU."""
    assert choose("auto").name == "npu:0"
    sound, codes = np.random.default_rng(0).standard_normal(24_000).astype(np.float32) / 10, []
    for device in ("npu", "cpu"):
        options = {"dtype": "fp32", "slots": 1, "seconds": 2, "chunk": 2, "threads": 1}
        engine = open_engine(folder, device=device, **options)
        cloner = engine.model.cloner
        voice = Cloned(cloner.embedding(sound), cloner.codes(sound), "a word")
        clip = engine.clip(Request("hello there", voice, seed=3, max_frames=6, ignore_end=True))
        codes.append(clip.codes.tolist())
    assert codes[0] == codes[1]


if __name__ == "__main__":
    torch.set_num_threads(1)
    the_toy()
    a_released_layout(sys.argv[2])
    sys.stdout.write("done\n")
