"""The audio tower: silence, the shortest clip, its size. Official answers: engine/test_answer_loop_text.py."""

from pathlib import Path

import numpy as np
import pytest

from omnitts_cli.errors import InputError
from omnitts_cli.families.qwen3_omni.thinker import made_up_thinker_config, tower_part
from omnitts_cli.models.audio_tower import Sound


def test_silence_and_the_shortest_clip() -> None:
    assert np.allclose(Sound.of(np.zeros(16_000, np.float32)).mel, -1.5)
    assert Sound.of(np.zeros(1600, np.float32)).tokens == 2
    with pytest.raises(InputError, match=r"lasts 0\.099 s; at least 0\.1 s is needed"):
        Sound.of(np.zeros(1584, np.float32))


def test_the_released_tower_has_the_released_size() -> None:
    part = tower_part(made_up_thinker_config(Path("random:omni-thinker")), "omni")
    assert round(sum(weight.numel() for weight in part.module.parameters()) / 1e5) == 6479  # 647.9 M
