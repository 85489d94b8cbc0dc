"""Readings are cut at pauses, and what is quiet for long is left out."""

from pathlib import Path

import numpy as np
import pytest

from omnitts_cli.errors import InputError
from omnitts_cli.training import librispeech, recordings
from omnitts_cli.training.librispeech import QUIET, RATE

soundfile = pytest.importorskip("soundfile")
AROUND = 2 * QUIET
SPEAKERS = ";ID  |SEX| SUBSET\n19   | F | train-clean-100\n8    | M | train-clean-100\n"


def sound(*seconds: float) -> np.ndarray:
    """Voice and pauses of these lengths, in turn, with some noise."""
    draw = np.random.default_rng(1)
    made = [
        np.sin(np.arange(round(length * RATE)) * 0.1) * (0.3 if number % 2 == 0 else 0)
        for number, length in enumerate(seconds)
    ]
    voice = np.concatenate(made)
    return np.round((voice + draw.normal(0, 1e-4, len(voice))) * 32767).astype(np.int16)


def lengths(*seconds: float) -> list[float]:
    return [round(len(part) / RATE, 2) for part in librispeech.parts(sound(*seconds))]


def test_a_pause_ends_a_part_and_a_gap_does_not() -> None:
    assert lengths(2.5, 0.6, 2.2, 0.2, 1.0) == pytest.approx([2.5 + QUIET, 3.4 + QUIET], abs=0.03)
    assert lengths(0.1, 0.6, 2.5, 0.6, 0.7, 0.6, 0.1) == pytest.approx([2.5 + AROUND], abs=0.03)


def test_a_long_phrase_is_cut_at_its_widest_gap_or_left_out() -> None:
    assert lengths(4.0, 0.1, 2.5, 0.25, 4.0, 1.0, 0.1) == pytest.approx([6.6 + QUIET, 4.0 + AROUND], abs=0.03)
    assert lengths(9.0) == []


def test_a_click_is_no_speech() -> None:
    assert lengths(0.02, 0.2, 3.0, 0.2, 0.02) == pytest.approx([3.0 + 2 * QUIET], abs=0.03)


@pytest.mark.parametrize("seconds", [(1.0, 0.2), (1.0, 0.4, 1.0)])
def test_a_part_with_a_quiet_end_or_a_long_pause_is_dropped(seconds: tuple[float, ...]) -> None:
    assert not librispeech.is_even(sound(*seconds))
    assert librispeech.is_even(sound(1.0, 0.1, 1.0, 0.25, 1.0))


def test_a_folder_of_readings_becomes_a_folder_of_recordings(tmp_path: Path) -> None:
    readings = {"19/2/19-2-0001.flac": (2.5, 0.6, 2.5), "19/2/19-2-0000.flac": (2.9, 0.6), "8/1/8-1-0000.flac": (1.0,)}
    for name, seconds in readings.items():
        (tmp_path / "speech" / name).parent.mkdir(parents=True, exist_ok=True)
        soundfile.write(tmp_path / "speech" / name, sound(*seconds), RATE)
    with pytest.raises(InputError, match=r"SPEAKERS\.TXT cannot be read"):
        librispeech.cut(tmp_path / "speech", tmp_path / "out", tmp_path)
    (tmp_path / "speech" / "SPEAKERS.TXT").write_text(SPEAKERS)
    librispeech.cut(tmp_path / "speech", tmp_path / "out", tmp_path)
    found = recordings.parts(tmp_path / "out")
    assert [(part.file, part.reader, part.sex, part.words) for part in found] == [("19.flac", "19", "f", "")] * 3
    assert [part.end - part.start for part in found] == pytest.approx([2.9 + QUIET, 2.5 + QUIET, 2.5 + QUIET], abs=0.03)
    assert len(soundfile.read(tmp_path / "out" / "19.flac")[0]) == round(found[-1].end * RATE)
    assert not (tmp_path / "out" / "8.flac").exists()
