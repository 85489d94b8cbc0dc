"""What 8 bits change in the embedded voice, which is real speech: it says the codes that it spoke in float32, and the
distributions that codes are drawn from are compared.
"""

import pytest
import tables
import torch
from embedded_pins import PINS, clips_of, distances, each_voice

from omnitts_cli.devices.cpu import CPUDevice
from omnitts_cli.engine.engine import Engine
from omnitts_cli.settings.engine import EngineSettings
from omnitts_cli.speech.load import load_model, plan_for
from omnitts_cli.weights.find import TINY

LIMITS = PINS["divergence_of_eight_bits"]


@pytest.mark.parametrize(
    ("count", "frames", "margin"), [(3, 12, 1.5), pytest.param(24, 60, 1, marks=pytest.mark.slow)], ids=["some", "all"]
)
def test_tiny_in_8_bits_draws_from_nearly_the_same_distributions(
    count: int, frames: int, margin: float, tmp_path: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables.compiled()
    monkeypatch.setattr("omnitts_cli.weights.eight_files.folder", lambda: tmp_path)
    device = CPUDevice(1)
    plain = load_model(str(TINY), device)
    eight = load_model(str(TINY), device, settings=EngineSettings(dtype="q8"))
    assert eight.precision == "q8" and eight.talker.head.dtype == torch.uint8
    asked = each_voice(count)
    codes = [clip.codes for clip in clips_of(Engine(plain, device, plan_for(plain, device).with_slots(4)), asked)]
    talker, predictor = distances(plain, eight, asked, codes, frames)
    print(f"\ntalker {talker}, predictor {predictor}")  # noqa: T201
    assert talker[0] <= LIMITS["talker"] * margin and talker[1] >= 100 - margin
    assert predictor[0] <= LIMITS["predictor"] * margin and predictor[1] >= 100 - 12 * margin
