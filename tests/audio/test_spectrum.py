"""The spectrum of a voice, and the filter that changes it."""

from itertools import pairwise

import numpy as np
import pytest

from omnitts_cli.audio.spectrum import BANDS, EDGES_HZ, Equaliser, as_loud, gains_between, levels

RATE, BLOCK = 24_000, 1920
CENTRES = np.sqrt(EDGES_HZ[1:] * EDGES_HZ[:-1])


def noise(seconds: float = 4.0, seed: int = 0) -> np.ndarray:
    return (0.1 * np.random.default_rng(seed).standard_normal(round(seconds * RATE))).astype(np.float32)


def speech_like() -> np.ndarray:
    """Noise with pauses and a falling spectrum."""
    sound = np.convolve(noise(), [0.3, 0.25, 0.2, 0.15, 0.1], "same")
    sound *= np.repeat(np.tile([1.0, 1.0, 0.001], 200)[: sound.size // 480], 480)[: sound.size]
    return sound.astype(np.float32)


def test_whole_blocks_give_the_same_samples_however_they_are_fed() -> None:
    sound, gains = noise()[: 20 * BLOCK], np.linspace(-9, 9, BANDS)
    whole = Equaliser(gains, RATE, BLOCK).feed(sound)
    for sizes in ([1] * 20, [1, 2, 4, 8, 5], [19, 1]):
        streamed, parts, at = Equaliser(gains, RATE, BLOCK), [], 0
        for size in sizes:
            parts.append(streamed.feed(sound[at : at + size * BLOCK]))
            at += size * BLOCK
        assert np.array_equal(np.concatenate(parts), whole)


@pytest.mark.parametrize("gains", [np.linspace(-9, 9, BANDS), 8 * np.sin(np.arange(BANDS) / 3), np.full(BANDS, -12.0)])
def test_each_band_changes_by_its_gain(gains: np.ndarray) -> None:
    sound = noise(8.0)[: 100 * BLOCK]
    made = Equaliser(gains, RATE, BLOCK).feed(sound)
    power = [np.square(np.abs(np.fft.rfft(one))) for one in (sound, made)]
    hertz = np.fft.rfftfreq(sound.size, 1 / RATE)
    inside = [(hertz >= low) & (hertz < high) for low, high in pairwise(EDGES_HZ)]
    changed = [10 * np.log10(power[1][band].sum() / power[0][band].sum()) for band in inside]
    assert np.abs(np.array(changed) - gains)[CENTRES > 300].max() < 1.0  # a filter of 11 ms is blunt below
    assert np.abs(np.array(changed) - gains).max() < 4.0


def test_no_gains_change_nothing_and_nothing_is_delayed() -> None:
    sound = noise()[: 10 * BLOCK]
    assert np.abs(Equaliser(np.zeros(BANDS), RATE, BLOCK).feed(sound) - sound).max() < 1e-6
    click = np.zeros(4 * BLOCK, np.float32)
    click[3000] = 1.0
    made = Equaliser(np.linspace(6, -6, BANDS), RATE, BLOCK).feed(click)
    assert np.abs(made[:3000]).max() < 1e-4 and np.abs(made).argmax() - 3000 < 5


def test_levels_do_not_depend_on_loudness_or_pauses() -> None:
    sound = speech_like()
    found = levels(sound, RATE)
    assert found.shape == (BANDS,)
    assert np.abs(levels(sound * 0.05, RATE) - found).max() < 0.2
    assert np.abs(levels(np.concatenate([sound, np.zeros(RATE, np.float32)]), RATE) - found).max() < 0.2
    brighter = np.concatenate([[0], np.diff(sound)]).astype(np.float32)  # 6 dB an octave
    assert levels(brighter, RATE)[-3:].mean() > found[-3:].mean() + 6


@pytest.mark.parametrize("sound", [np.zeros(RATE, np.float32), np.zeros(0, np.float32), np.ones(10, np.float32)])
def test_levels_of_silence_and_of_next_to_nothing_are_finite(sound: np.ndarray) -> None:
    assert np.isfinite(levels(sound, RATE)).all()


def test_a_voice_stays_as_loud() -> None:
    sound = speech_like()
    gains = gains_between(levels(sound, RATE), levels(sound, RATE) + np.linspace(-10, 10, BANDS), 12.0)
    gains = as_loud(gains, sound, RATE)
    assert np.allclose(np.diff(gains), 1.0)
    made = Equaliser(gains, RATE, BLOCK).feed(sound[: 40 * BLOCK])
    assert abs(10 * np.log10(np.square(made).mean() / np.square(sound[: 40 * BLOCK]).mean())) < 0.5
    assert np.abs(made).max() < 0.8
    assert np.array_equal(as_loud(gains, np.zeros(RATE, np.float32), RATE), gains)


def test_gains_bring_one_spectrum_to_another_and_are_limited() -> None:
    has = levels(speech_like(), RATE)
    gains = gains_between(has, has + 30 * np.sin(np.arange(BANDS)), 12.0)
    assert np.ptp(gains) == pytest.approx(24.0)
    assert np.allclose(gains_between(has, has, 12.0), 0) and np.allclose(gains_between(has, has - 20, 12.0), 0)


def test_bands_above_a_telephones_stay() -> None:
    sound = speech_like()
    spectrum = np.fft.rfft(sound)
    spectrum[np.fft.rfftfreq(sound.size, 1 / RATE) > 3700] = 0
    narrow = np.fft.irfft(spectrum, sound.size).astype(np.float32)
    gains = gains_between(levels(sound, RATE), levels(narrow, RATE), 12.0)
    assert np.ptp(gains[CENTRES < 3000]) < 1.0 and np.ptp(gains[CENTRES > 5000]) < 0.1
    assert abs(gains[CENTRES > 5000].mean() - gains[CENTRES < 3000].mean()) < 1.0
