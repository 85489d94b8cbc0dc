"""Tape: samples inside a piece do not change, joins make no click, and the position counts what was returned."""

import numpy as np
import pytest

from omnitts_cli.audio.tape import Tape, joined

RATE = 8000


def piece(level: float, samples: int = 800) -> np.ndarray:
    return np.full(samples, level, np.float32)


def sound(*parts: np.ndarray) -> np.ndarray:
    return np.concatenate(parts)


def test_a_single_piece_leaves_as_it_was_made() -> None:
    made = np.random.default_rng(0).standard_normal(1000).astype(np.float32)
    tape = Tape(RATE)
    parts = [tape.pause(0.0), *(tape.write(made[start : start + 300]) for start in range(0, 1000, 300))]
    assert np.array_equal(sound(*parts, tape.end_piece()), made)
    assert tape.seconds == 1000 / RATE


@pytest.mark.parametrize("gap_s", [0.0, 0.25])
def test_a_join_has_no_step(gap_s: float) -> None:
    tape = Tape(RATE)
    whole = sound(
        *(p for level in (0.8, -0.7) for p in (tape.pause(gap_s if level < 0 else 0.0), tape.write(piece(level)),
                                               tape.end_piece()))
    )  # fmt: skip
    assert np.abs(np.diff(whole[1:-1])).max() < 0.05
    assert whole.size == 1600 + int(gap_s * RATE)
    assert np.array_equal(whole[:800], piece(0.8))


def test_everything_of_a_piece_has_left_when_it_ends() -> None:
    """No sample waits for what comes next: a pipe's first line is played to its end."""
    tape = Tape(RATE)
    assert sound(tape.write(piece(0.5)), tape.end_piece()).size == 800


def test_a_join_longer_than_the_block() -> None:
    assert joined(np.float32(1.0), piece(0.0, 3), RATE)[0] == 1.0


def test_speed_and_volume() -> None:
    tape = Tape(RATE, speed=2.0, volume_db=-6.0206)
    whole = sound(tape.write(piece(0.5, 8000)), tape.end_piece())
    assert whole.size == 4000
    assert np.abs(whole).max() == pytest.approx(0.25, abs=1e-3)
