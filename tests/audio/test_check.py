"""--check: a warning with figures for each problem, and none for a good clip."""

import numpy as np
import pytest
from sounds import Clip, speech

from omnitts_cli.audio.check import check_clip, check_transcript, measure
from omnitts_cli.audio.read import Recording, read_clip
from omnitts_cli.errors import InputError


def recording(sound: np.ndarray) -> Recording:
    return Recording(sound.astype(np.float32), 24000, "me.wav", 24000, 1, sound.size / 24000)


def noise(seconds: float, level: float) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(round(seconds * 24000)) * level


def test_a_good_clip_has_no_warnings() -> None:
    assert check_clip(recording(speech(6.0))) == []


@pytest.mark.parametrize("sound", [np.zeros(120_000), noise(5.0, 10 ** (-70 / 20))])
def test_silence_and_hiss_are_refused_with_the_peak(sound: np.ndarray) -> None:
    with pytest.raises(InputError, match=r"me\.wav is silent \(.* over 5\.0 s\)") as caught:
        check_clip(recording(sound))
    assert caught.value.exit_code == 3 and "--ref-start" in (caught.value.hint or "")


@pytest.mark.parametrize(("name", "words"), [
    ("tone", "steady tone (100 %"), ("noise", "level is almost constant"), ("music", "level is almost constant"),
    ("clipped", "% of its samples are clipped)"), ("quiet", "very quiet (speech at −"),
    ("front", "begins with 10.0 s of silence; --ref-start 10.0"), ("short", "lasts 2.0 s; 3-30 s"),
])  # fmt: skip
def test_doubts_come_with_figures(name: str, words: str) -> None:
    t = np.arange(120_000) / 24000
    sounds = {
        "tone": 0.3 * np.sin(2 * np.pi * 440 * t),
        "noise": noise(5.0, 0.1),
        "music": sum(0.1 * np.sin(2 * np.pi * f * t) for f in (220, 277, 330, 523, 880)),
        "clipped": np.clip(speech(5.0) * 6, -1, 1),
        "quiet": speech(5.0) * 0.01,
        "front": np.concatenate([np.zeros(240_000), speech(6.0)]),
        "short": speech(2.0),
    }
    found = check_clip(recording(sounds[name]))
    assert any(words in sentence for sentence in found), found


def test_silence_in_front_is_found_to_the_block() -> None:
    figures = measure(np.concatenate([np.zeros(48_000, np.float32), speech(4.0)]), 24000)
    assert figures.front_s == pytest.approx(2.0, abs=0.05)
    assert 0.3 < figures.empty < 0.9


@pytest.mark.parametrize(("columns", "words"), [(0, "empty"), (10, "seems incomplete"), (2000, "too long")])
def test_transcripts_that_cannot_belong(columns: int, words: str) -> None:
    (warning,) = check_transcript(columns, 10.0)
    assert words in warning


def test_transcripts_that_can() -> None:
    assert check_transcript(150, 10.0) == [] == check_transcript(100, 10.0)


@pytest.mark.parametrize("size", [0, 1, 5, 480])
def test_very_short_sounds_are_measured_without_a_crash(size: int) -> None:
    assert measure(np.full(size, 0.5, np.float32), 24000).seconds == size / 24000


@pytest.mark.parametrize("rate", [16_000, 22_050, 24_000, 44_100, 48_000])
def test_clipping_is_seen_at_the_rate_of_the_file(rate: int, clip: Clip) -> None:
    loud = np.clip(speech(5.0, rate) * 6, -1, 1)
    doubts = check_clip(read_clip(clip("loud.wav", loud, rate)))
    assert any("% of its samples are clipped)" in doubt for doubt in doubts)
    assert check_clip(read_clip(clip("good.wav", speech(5.0, rate), rate))) == []


def test_two_channels_and_a_part_of_a_clip(clip: Clip) -> None:
    loud = np.clip(speech(6.0, 44_100) * 6, -1, 1)
    path = clip("stereo.wav", np.stack([loud * 0.2, loud], axis=1), 44_100)
    doubts = check_clip(read_clip(path, start=1.0, end=5.0))
    assert any("% of its samples are clipped)" in doubt for doubt in doubts)


def test_a_short_vowel_is_not_a_steady_tone() -> None:
    t = np.arange(round(0.8 * 24_000)) / 24_000
    voice = np.sin(2 * np.pi * np.cumsum(170 + 12 * np.sin(2 * np.pi * 1.5 * t)) / 24_000)  # an "oo", nearly one line
    noise = np.random.default_rng(1).standard_normal(t.size) * 0.003
    sound = (voice * 0.3 * np.hanning(t.size) + noise).astype(np.float32)
    assert not any("steady tone" in sentence for sentence in check_clip(recording(sound)))
    steady = (0.3 * np.sin(2 * np.pi * 170 * t) + noise).astype(np.float32)
    assert any("steady tone" in sentence for sentence in check_clip(recording(steady)))
