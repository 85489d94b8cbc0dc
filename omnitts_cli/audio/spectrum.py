"""The spectrum of a voice: its mean level in bands of a third of an octave, and a filter that changes it."""

from itertools import pairwise

import numpy as np

EDGES_HZ = 1000 * 2 ** (np.arange(-11, 11) / 3)  # 79 Hz to 10 kHz
BANDS = EDGES_HZ.size - 1
WINDOW_S = 0.0427  # 1,024 samples at 24 kHz
VOICED = 10**-2.5
"""Frames whose power is below this share of that of the loud ones are pauses and noise."""
NOTHING_DB = -80.0  # a band below this level holds no sound
LOUD_PEAK = 0.5  # a peak up to here is left alone
TAPS = 256
FOLDED = 2048  # size of the Fourier transform from which the filter is made


def levels(sound: np.ndarray, rate: int) -> np.ndarray:
    """sound [n] -> [BANDS], the level of each band in dB relative to the power of the frame, averaged over voiced
    frames. Loud frames do not count more than quiet ones."""
    size = round(WINDOW_S * rate)
    if sound.size < size:
        sound = np.pad(sound, (0, size - sound.size))
    frames = np.lib.stride_tricks.sliding_window_view(sound, size)[:: size // 4]
    power = np.square(np.abs(np.fft.rfft(frames * np.hanning(size)))) + 1e-12  # [frames, bins]
    whole = power.sum(1)
    power = power[whole >= np.percentile(whole, 95) * VOICED]
    power /= power.sum(1, keepdims=True)
    hertz = np.fft.rfftfreq(size, 1 / rate)
    places = [np.flatnonzero((hertz >= low) & (hertz < high)) for low, high in pairwise(EDGES_HZ)]
    found = np.stack([power[:, place].mean(1) if place.size else np.full(len(power), 1e-9) for place in places], 1)
    return 10 * np.log10(found + 1e-9).mean(0)


def gains_between(has: np.ndarray, wanted: np.ndarray, most: float) -> np.ndarray:
    """The gains [BANDS] in dB that turn the levels `has` into those `wanted`, none beyond `most`. Bands in which
    `wanted` has no sound keep their level, such as those above the range of a telephone."""
    heard, change = wanted > NOTHING_DB, wanted - has
    middle = np.median(change[heard]) if heard.any() else 0.0
    return np.where(heard, np.clip(change - middle, -most, most), 0.0)


def as_loud(gains: np.ndarray, sound: np.ndarray, rate: int) -> np.ndarray:
    """The gains, all shifted by the same amount so that filtering `sound` makes it neither louder nor its peaks much
    higher."""
    made = Equaliser(gains, rate, rate // 10).feed(np.pad(sound, (0, -sound.size % (rate // 10))))
    power, peak = np.mean(np.square(sound)), max(np.abs(sound).max(initial=0.0), LOUD_PEAK)
    louder = np.sqrt(np.mean(np.square(made)) * made.size / sound.size / power) if power else 1.0
    return gains - 20 * np.log10(max(louder, np.abs(made).max(initial=0.0) / peak))


def filter_of(gains: np.ndarray, rate: int) -> np.ndarray:
    """The impulse response [TAPS], of minimum phase, so that nothing is delayed."""
    hertz = np.fft.rfftfreq(FOLDED, 1 / rate)
    centres = np.sqrt(EDGES_HZ[1:] * EDGES_HZ[:-1])
    logs = np.interp(np.log(np.maximum(hertz, 1.0)), np.log(centres), gains) * np.log(10) / 20
    cepstrum = np.fft.irfft(logs)
    cepstrum[1 : FOLDED // 2] *= 2
    cepstrum[FOLDED // 2 + 1 :] = 0
    fade = np.concatenate([np.ones(TAPS // 2), 0.5 + 0.5 * np.cos(np.linspace(0, np.pi, TAPS // 2))])
    return np.fft.irfft(np.exp(np.fft.rfft(cepstrum)))[:TAPS] * fade


class Equaliser:
    """Changes the level of each band by `gains` [BANDS] dB. It works in blocks of `block` samples: whole blocks, fed
    together or one by one, give the same samples, without a delay.
    """

    def __init__(self, gains: np.ndarray, rate: int, block: int) -> None:
        self._block, self._size = block, 1 << (block + TAPS - 2).bit_length()
        self._response = np.fft.rfft(filter_of(gains, rate), self._size)
        self._tail = np.zeros(TAPS - 1)  # what the blocks so far add to the next one

    def feed(self, sound: np.ndarray) -> np.ndarray:
        """[n] float32, n whole blocks -> the same, filtered."""
        made = np.empty(sound.shape, np.float32)
        for at in range(0, sound.size, self._block):
            block = np.fft.irfft(np.fft.rfft(sound[at : at + self._block], self._size) * self._response, self._size)
            block[: TAPS - 1] += self._tail
            made[at : at + self._block] = block[: self._block]
            self._tail = block[self._block : self._block + TAPS - 1]
        return made
