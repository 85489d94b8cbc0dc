"""The engine on a CUDA device: captured equals eager, and the loop never waits for the device."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from omnitts_cli.audio.chunk import Clip
from omnitts_cli.engine.engine import Engine
from omnitts_cli.engine.slots import Plan
from omnitts_cli.families.toy import toy
from omnitts_cli.request import Failed, Request, Sampling
from omnitts_cli.voices import Named

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]
PLAN = Plan(slots=4, positions=300, frames=160, buckets=(1, 2, 4), sound_rows=(1, 4), prefill_rows=(16, 64))


def requests(frames: int = 40) -> list[Request]:
    """Sampled and greedy ones, of different lengths, more than there are slots."""
    return [
        Request(
            "good morning " * (i % 3 + 1),
            Named("ann"),
            seed=7919 * i,
            id=str(i),
            sampling=Sampling(temperature=0.0, predictor_temperature=0.0) if i % 3 == 2 else Sampling(),
            max_frames=frames + i,
            ignore_end=True,
        )
        for i in range(7)
    ]


def engine(plan: Plan, dtype: torch.dtype = torch.float32) -> Engine:
    from omnitts_cli.devices.cuda import CUDADevice

    device = CUDADevice()
    model = toy(device=device.torch_device, dtype=dtype, place=device.to_device, ops=device.ops())
    return Engine(model, device, plan)


def clips(made: Engine, asked: list[Request]) -> dict[str, Clip]:
    chunks: dict[str, list] = {}
    for news in made.speak(asked):
        assert not isinstance(news, Failed), news
        chunks.setdefault(news.request, []).append(news)
    return {name: Clip.join(parts) for name, parts in chunks.items()}


@pytest.mark.parametrize(
    ("dtype", "plan"),
    [(torch.float32, PLAN), (torch.bfloat16, replace(PLAN, buckets=(4,), prefill_rows=(64,)))],
    ids=["float32", "bfloat16"],
)
def test_captured_is_eager_twice_and_interleaved(dtype: torch.dtype, plan: Plan) -> None:
    """With one size of batch in bfloat16: who shares a frame with those that wait for a slot depends on the clock,
    products of other sizes round otherwise, and 8 bits of mantissa are few enough to change a draw.
    """
    eager = clips(engine(replace(plan, capture=False), dtype), requests())
    captured = engine(plan, dtype)
    for _ in range(2):  # a graph's buffers are used again by the second run
        again = clips(captured, requests())
        assert again.keys() == eager.keys()
        for name, clip in eager.items():
            assert (again[name].codes == clip.codes).all()
            # chunks depend on the clock, and products of other sizes add up in another order
            assert abs(again[name].pcm - clip.pcm).max() < 1e-2
            assert np.square(again[name].pcm - clip.pcm).mean() ** 0.5 < 1e-3


def test_no_host_waits_inside_the_loop() -> None:
    made = engine(PLAN)
    clips(made, requests())  # first uses of libraries may wait
    for request in requests(60):
        made.submit(request)
    frames = 0
    with made.device.count_syncs() as waits:
        while made.busy:
            frames += sum(news.codes.shape[0] for news in made.step())
    assert waits() == 0
    assert frames == sum(60 + i for i in range(7))


def test_what_a_captured_step_keeps_is_not_overwritten_by_an_older_graph() -> None:
    """An optimiser makes its moments in its first step, after the step that computes gradients has been captured."""
    from omnitts_cli.devices.cuda import CUDADevice

    stream = CUDADevice().stream()
    x, sums, kept = torch.ones(1 << 20, device="cuda"), torch.zeros((), device="cuda"), list[torch.Tensor]()

    def gradients() -> None:
        sums.copy_((x * 3 + x * 5 + x * 7).sum())

    def update() -> None:
        if not kept:
            kept.extend(torch.zeros_like(x) for _ in range(4))
        for one in kept:
            one.add_(1)

    first, second = stream.capture(gradients, True), stream.capture(update, True)
    for one in kept:
        one.zero_()
    for _ in range(3):
        first()
        second()
    torch.cuda.synchronize()
    assert [one.unique().tolist() for one in kept] == [[3.0]] * 4
    assert sums.item() == 15 * (1 << 20)


def test_an_absent_device_is_refused_by_name() -> None:
    from omnitts_cli.devices.cuda import CUDADevice
    from omnitts_cli.errors import DeviceError

    with pytest.raises(DeviceError, match="cuda:63 does not exist"):
        CUDADevice(63)


def test_waits_are_counted() -> None:
    from omnitts_cli.devices.cuda import CUDADevice

    device = CUDADevice(0)
    tensor = torch.ones(3, device=device.torch_device)
    with device.count_syncs() as waits:
        assert waits() == 0
        tensor.sum().item()
        tensor.cpu()
        assert waits() == 2
        device.stream().fetch(tensor).result()
    assert waits() == 2
    tensor.sum().item()
    assert waits() == 2
