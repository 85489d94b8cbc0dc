"""Cloner: codes and vector of the official package, one clip at a time, and clips that are none."""

import numpy as np
import pytest
import torch
from golden_cases import CASES
from golden_set import case
from tiny_models import near, tiny_model

from omnitts_cli.errors import InputError

CLONES = [name for name in CASES if name.startswith("base")]


@pytest.mark.parametrize("name", CLONES)
def test_official_clones(name: str) -> None:
    golden, cloner = case(name), tiny_model(name.split("/")[0]).cloner
    for index, reference in enumerate(golden.meta["reference"]):
        if reference["sample_rate"] != 24_000:
            continue  # resampling is done before a clip comes here
        sound = golden.tensors[f"ref.{index}.audio"].numpy()
        assert near(torch.from_numpy(cloner.embedding(sound)), golden.tensors[f"ref.{index}.speaker_embedding"])
        if reference["icl"]:
            codes = cloner.codes(sound)
            assert codes.dtype == np.int64 and codes.shape[0] == -(-len(sound) // 1920)
            assert np.array_equal(codes, golden.tensors[f"ref.{index}.codes"].numpy())


@pytest.mark.parametrize(
    ("sound", "says"),
    [
        (np.zeros(0, np.float32), "one channel"),
        (np.zeros((2, 24_000), np.float32), "one channel"),
        (np.full(24_000, np.nan, np.float32), "not finite"),
        (np.r_[np.zeros(24_000), np.inf].astype(np.float32), "not finite"),
    ],
)
def test_what_is_no_clip(sound: np.ndarray, says: str) -> None:
    cloner = tiny_model("base").cloner
    for encode in (cloner.codes, cloner.embedding):
        with pytest.raises(InputError, match=says):
            encode(sound)


def test_a_clip_too_short_to_hear_a_voice_in() -> None:
    with pytest.raises(InputError, match="too short"):
        tiny_model("base").cloner.embedding(np.zeros(300, np.float32))


@pytest.mark.parametrize("samples", [1, 1919, 1920, 1921])
def test_every_started_frame_counts(samples: int) -> None:
    sound = np.linspace(-0.5, 0.5, samples, dtype=np.float32)
    codes = tiny_model("base").cloner.codes(sound)
    assert codes.shape == (-(-samples // 1920), 16)
    assert 0 <= codes.min() and codes.max() < 64


def test_the_callers_sound_is_left_alone() -> None:
    sound = np.random.default_rng(0).standard_normal(9_600).astype(np.float32)[::2]  # not contiguous
    before = sound.copy()
    cloner = tiny_model("base").cloner
    assert np.array_equal(cloner.codes(sound), cloner.codes(sound.astype(np.float64)))
    cloner.embedding(sound)
    assert np.array_equal(sound, before)
