"""A recogniser that the teacher's labels teach, and its distances as losses."""

from pathlib import Path

import numpy as np
import pytest
import torch
from training_kit import Steps

from omnitts_cli.devices.cpu import CPUDevice
from omnitts_cli.training import perceptual_loss
from omnitts_cli.training.perceptual_loss import DISTANCES, PerceptualLoss, distances, spectra_apart
from omnitts_cli.training.pool import UNNAMED, SoundPool, TeacherUtterance
from omnitts_cli.training.recogniser import INPUTS, PhoneRecogniser
from omnitts_cli.training.teacher import FACTS, HALF, PHONES, SAMPLE_RATE, STYLE, Facts
from omnitts_cli.tuning.journal import Journal

TONES = (300.0, 900.0, 2700.0)  # Hz, one for each of three phones


def tones(seed: int, high: bool) -> TeacherUtterance:
    """Phones of 40 ms as tones; one of two speakers has a second tone far above."""
    draw = np.random.default_rng(seed)
    phones = draw.integers(1, 1 + len(TONES), (20, 2)).astype(np.uint8)
    time = np.arange(phones.size * HALF) / SAMPLE_RATE
    sound = np.sin(2 * np.pi * np.repeat(np.array(TONES)[phones.ravel() - 1], HALF) * time)
    sound += high * np.sin(2 * np.pi * 6000 * time)
    facts = Facts(float(high), 0.0, 150.0, 4.5, (2.0 * high - 1,) * STYLE)
    return TeacherUtterance(0, UNNAMED, (6000 * sound).astype(np.int16), phones, facts, 1)


def test_it_learns_which_phone_is_where_and_who_speaks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    torch.manual_seed(0)
    monkeypatch.setattr(perceptual_loss, "Budget", Steps)
    for name, value in {"BATCH": 4, "FRAMES": 8, "RATE": 3e-3, "WARM_UP": 5, "WRITE_EVERY": 5}.items():
        monkeypatch.setattr(perceptual_loss, name, value)
    pool = SoundPool(0.01, torch.device("cpu"))
    pool.add([tones(seed, high=seed % 2 == 0) for seed in range(8)])
    taught = PerceptualLoss(24, pool, CPUDevice(1))
    right = taught.train(0.5, lambda step, keeps=False: step, Journal(tmp_path / "curves.jsonl", "polish", echo=False))
    assert right > 0.7
    taught.freeze()
    true, places = pool.draw_whole(4, 8)
    apart = taught.measure(true.requires_grad_(), true.detach(), places)
    *none, misheard, misheard_true = (float(value.detach()) for value in apart)
    assert none == [0.0] * len(DISTANCES) and misheard == misheard_true < 0.3


def test_each_half_of_a_frame_gets_an_answer() -> None:
    model = PhoneRecogniser(8).eval()
    spectra = model.spectra(0.1 * torch.randn(2, 12 * HALF))
    assert spectra.shape == (2, INPUTS, 48)
    found = model(spectra)
    assert found.phones.shape == (2, 12, len(PHONES)) and found.who.shape == (2, 12, FACTS)


def test_distances_teach_the_decoded_sound_alone() -> None:
    model = PhoneRecogniser(8).eval()
    made, true = (torch.randn(2, 12 * HALF).requires_grad_() for _ in range(2))
    one, other = model.spectra(made), model.spectra(true)
    (sum(distances(model(one), model(other))) + spectra_apart(one, other)).backward()
    assert made.grad is not None and bool(made.grad.any()) and true.grad is None
