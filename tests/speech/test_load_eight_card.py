"""The path of a model in 8 bits on a card: loaded, spoken, and compared with float32. The operations are the plain
ones, on the CPU.
"""

import numpy as np
import pytest
import torch
from embedded_pins import PINS, clips_of, distances

from omnitts_cli.bench.evaluate import sentences
from omnitts_cli.devices.cpu import CPUDevice
from omnitts_cli.errors import ModelError
from omnitts_cli.kernels import choose
from omnitts_cli.kernels.hardware import Hardware
from omnitts_cli.models.roles import SpeechModel
from omnitts_cli.request import Request
from omnitts_cli.settings.engine import EngineSettings
from omnitts_cli.speech.load import load_model, plan_for, start
from omnitts_cli.voices import Named
from omnitts_cli.weights.find import TINY


class Card(CPUDevice):
    """Answers as a card without Triton."""

    name = "cuda:0"

    def __init__(self, rows: torch.dtype = torch.float32) -> None:
        super().__init__(1)
        self.dtype = rows
        self._ops = choose.ops(Hardware("cuda", "sm_86", (8, 6)))


def opened(dtype: str, rows: torch.dtype = torch.float32) -> SpeechModel:
    return load_model(str(TINY), Card(rows), settings=EngineSettings(dtype=dtype))


def measured(rows: torch.dtype) -> list[tuple[float, float]]:
    """How far 8 bits are from float32: talker and predictor."""
    full, eight = opened("fp32"), opened("q8", rows)
    assert eight.precision == "q8" and eight.talker.head.dtype == torch.uint8
    device, voice = Card(rows), Named(sorted(full.speakers)[0])
    settings = EngineSettings(slots=2, seconds=30.0)
    asked = [
        Request(text, voice, "english", seed=n, id=f"s{n}", max_frames=20) for n, text in enumerate(sentences()[:2])
    ]
    clips = clips_of(start(eight, device, plan_for(eight, device, settings)), asked)
    assert all(np.abs(clip.pcm).max() > 0.01 for clip in clips)
    return distances(full, eight, asked, [clip.codes for clip in clips], 20)


@pytest.mark.parametrize(
    ("rows", "name"), [(torch.float32, "predictor_on_a_card"), (torch.bfloat16, "predictor_on_a_card_bf16")]
)
def test_tiny_draws_from_nearly_the_same_distributions_as_in_float32(rows: torch.dtype, name: str) -> None:
    """Nearer than those of the CPU's library, where rows are in 8 bits too."""
    limits = PINS["divergence_of_eight_bits"]
    talker, predictor = measured(rows)
    assert 0 < talker[0] < limits["talker"] and 0 < predictor[0] < limits[name]


def test_weights_that_do_not_fit_8_bits_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(weight: torch.Tensor, group: int) -> torch.Tensor:
        raise ValueError("holds NaN or infinity")

    monkeypatch.setattr("omnitts_cli.kernels.plain_eight.pack", refuse)
    with pytest.raises(ModelError) as caught:
        opened("q8")
    assert "NaN" in str(caught.value.cause) and caught.value.hint
