"""Every kernel compiles for cards that are not here, and fits into their shared memory."""

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(find_spec("triton") is None, reason="needs the package triton, but no card")

SCRIPT = Path(__file__).parents[2] / "support" / "triton_cards.py"
HOUSE = Path(__file__).parents[3]
SHARED = {75: 65_536, 80: 166_912, 86: 101_376, 89: 101_376, 120: 101_376}
"""Bytes that a program may use, by compute capability."""
HOPPER = {90: 232_448}


def check(sm: int, rows: str, prompts: str, chunks: str, model: str = "0.6b-customvoice", *more: str) -> int:
    """The number of kernels, of which each fits."""
    most = (SHARED | HOPPER)[sm]
    line = [sys.executable, SCRIPT, str(sm), str(most), rows, prompts, chunks, model, *more]
    paths = [str(HOUSE), *filter(None, [os.environ.get("PYTHONPATH")])]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "TRITON_INTERPRET": "0"}
    done = subprocess.run(line, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout)
    assert not {name: about["wrong"] for name, about in found.items() if about["wrong"]}
    assert not {name: about["shared"] for name, about in found.items() if about["shared"] > most}
    return len(found)


@pytest.mark.parametrize("sm", [86, 120])
def test_a_frame_of_one_row(sm: int) -> None:
    assert check(sm, "1", "", "") >= 8


def test_a_frame_of_one_row_in_8_bits() -> None:
    assert check(86, "1", "", "", "0.6b-customvoice", "q8") >= 5


@pytest.mark.parametrize("sm", [80, 86, *HOPPER])
def test_steps_of_learning(sm: int) -> None:
    assert check(sm, "", "", "", "1.7b-base", "learn") == 9


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("sm", SHARED)
@pytest.mark.parametrize("model", ["0.6b-customvoice", "1.7b-customvoice"])
def test_frames_and_prompts_in_8_bits(sm: int, model: str) -> None:
    assert check(sm, "1,2,3,16,17,64", "16,64,128", "", model, "q8") >= 9


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("sm", sorted(SHARED.keys() - {75}))
def test_frames_prompts_and_the_codec(sm: int) -> None:
    """Not for sm_75: it runs the plain operations, and `_unit` would take 98,304 bytes there."""
    assert check(sm, "1,2,8,16,32,64", "16,64,128", "1x1,1x4,4x4,16x4") >= 15


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("sm", [75, 86])
def test_frames_of_the_larger_model(sm: int) -> None:
    assert check(sm, "1,8", "64", "", "1.7b-customvoice") >= 8
