"""Loudness by ITU-R BS.1770-4: integrated LUFS of mono sound, as it arrives, and sound brought to a target."""

from __future__ import annotations

import math
import tempfile
from functools import lru_cache
from pathlib import Path

import numpy as np

from omnitts_cli.audio.pcm import gain, require_finite
from omnitts_cli.audio.sinks import BaseSink, Sink

BLOCK_S, STEP_S = 0.4, 0.1
ABSOLUTE_GATE = -70.0
RELATIVE_GATE = -10.0
OFFSET = -0.691
HIGHEST_PEAK = 10.0 ** (-1.0 / 20.0)
SPOOL_SAMPLES = 24_000 * 60
COPY_SAMPLES = 24_000
MOST_STEPS = 11  # filtered at a time; at 24 kHz the transform then has 32,768 values, which fit in the cache


def k_weighting(rate: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """The two filters of the ear, (b, a) each: a shelf for the head and a high pass, from their analogue form."""
    shelf_db, shelf_q, shelf_hz = 3.999843853973347, 0.7071752369554196, 1681.974450955533
    pass_q, pass_hz = 0.5003270373238773, 38.13547087602444
    k = math.tan(math.pi * shelf_hz / rate)
    high, band = 10.0 ** (shelf_db / 20.0), (10.0 ** (shelf_db / 20.0)) ** 0.4996667741545416
    low = 1.0 + k / shelf_q + k * k
    b = np.array([high + band * k / shelf_q + k * k, 2.0 * (k * k - high), high - band * k / shelf_q + k * k]) / low
    a = np.array([1.0, 2.0 * (k * k - 1.0) / low, (1.0 - k / shelf_q + k * k) / low])
    k = math.tan(math.pi * pass_hz / rate)
    low = 1.0 + k / pass_q + k * k
    return [
        (b, a),
        (np.array([1.0, -2.0, 1.0]), np.array([1.0, 2.0 * (k * k - 1.0) / low, (1.0 - k / pass_q + k * k) / low])),
    ]


class Meter:
    """Measures as it is fed. The filters run as one response in the frequency domain, over as much as there is."""

    def __init__(self, rate: int) -> None:
        self._step = round(STEP_S * rate)
        self._response = impulse_response(rate)
        self._tail = np.zeros(self._response.size, np.float64)  # of earlier sound, reaching into what comes next
        self._rest = np.zeros(0, np.float32)
        self._powers: list[float] = []  # mean square of each 0.1 s step, after the filters
        self.peak = 0.0

    def feed(self, samples: np.ndarray) -> None:
        self.peak = max(self.peak, float(np.max(np.abs(samples), initial=0.0)))
        sound = np.concatenate([self._rest, samples])
        whole = sound.size // self._step * self._step
        for start in range(0, whole, MOST_STEPS * self._step):
            self._measure(sound[start : min(whole, start + MOST_STEPS * self._step)])
        self._rest = sound[whole:]

    def _measure(self, samples: np.ndarray) -> None:
        """Adds the powers of a whole number of steps."""
        size = 1 << (samples.size + self._response.size - 1).bit_length()
        out = np.fft.irfft(
            np.fft.rfft(samples.astype(np.float64), size) * spectrum(self._response.tobytes(), size), size
        )
        out[: self._tail.size] += self._tail
        self._tail = out[samples.size : samples.size + self._response.size].copy()
        steps = out[: samples.size].reshape(-1, self._step)
        self._powers.extend(np.mean(np.square(steps), axis=1).tolist())

    def lufs(self) -> float:
        """The integrated loudness so far; -inf for silence or less than 0.4 s."""
        steps = np.array(self._powers)  # [steps]
        width = round(BLOCK_S / STEP_S)
        if steps.size < width:
            return -math.inf
        blocks = np.convolve(steps, np.full(width, 1.0 / width), "valid")  # [blocks] mean square of 0.4 s
        loud = blocks[blocks > power_of(ABSOLUTE_GATE)]
        if not loud.size:
            return -math.inf
        loud = loud[loud > power_of(loudness_of(float(loud.mean())) + RELATIVE_GATE)]
        return loudness_of(float(loud.mean()))


def loudness_of(power: float) -> float:
    return OFFSET + 10.0 * math.log10(power)


def power_of(lufs: float) -> float:
    return 10.0 ** ((lufs - OFFSET) / 10.0)


@lru_cache(8)
def spectrum(response: bytes, size: int) -> np.ndarray:
    """The response in the frequency domain."""
    return np.fft.rfft(np.frombuffer(response, np.float64), size)


@lru_cache(8)
def impulse_response(rate: int) -> np.ndarray:
    """The impulse response of both filters together, cut at 0.2 s, where the ringing of the high pass at 38 Hz has
    decayed."""
    sound = np.zeros(round(0.2 * rate))
    sound[0] = 1.0
    for b, a in k_weighting(rate):
        sound = filtered(sound, b, a)
    return sound


def filtered(x: np.ndarray, b: np.ndarray, a: np.ndarray) -> np.ndarray:
    """A second-order filter, sample by sample."""
    y = np.zeros_like(x)
    first = second = 0.0
    for n, value in enumerate(x.tolist()):
        out = b[0] * value + first
        first = b[1] * value - a[1] * out + second
        second = b[2] * value - a[2] * out
        y[n] = out
    return y


def lufs(samples: np.ndarray, rate: int) -> float:
    """The integrated loudness of a whole sound."""
    meter = Meter(rate)
    meter.feed(samples)
    return meter.lufs()


def level(samples: np.ndarray, rate: int, target_lufs: float) -> tuple[np.ndarray, float, list[str]]:
    """Returns a whole sound at a target loudness, the decibels added, and notices for a person."""
    from omnitts_cli.audio.sinks import MemorySink

    inner = MemorySink()
    sink = LoudnessSink(inner, target_lufs, rate)
    sink.write(samples)
    sink.finish()
    return inner.sound, sink.applied_db, sink.notices


def factor_for(meter: Meter, target_lufs: float, notices: list[str]) -> np.float32:
    """The factor that brings measured sound to a target loudness; `notices` gets why it is another one."""
    measured = meter.lufs()
    if not math.isfinite(measured):
        notices.append("too short or too quiet for --loudness; the level is unchanged")
        return np.float32(1.0)
    factor = gain(target_lufs - measured)
    if meter.peak * factor > HIGHEST_PEAK:
        factor = np.float32(HIGHEST_PEAK / meter.peak)
        reached = measured + 20.0 * math.log10(float(factor))
        notices.append(f"loudness is {reached:.1f} LUFS instead of {target_lufs:g}: more gain would exceed -1 dBFS")
    return factor


class LoudnessSink(BaseSink):
    """Brings a sound to a target loudness before another sink. Passes nothing on until all of it has arrived."""

    def __init__(self, inner: Sink, target_lufs: float, rate: int = 24_000) -> None:
        super().__init__()
        self._inner, self._target = inner, target_lufs
        self._meter = Meter(rate)
        self._spool = tempfile.SpooledTemporaryFile(max_size=SPOOL_SAMPLES * 4)
        self.applied_db = 0.0

    @property
    def unwritten(self) -> Path | None:
        return self._inner.unwritten

    def write(self, samples: np.ndarray) -> None:
        require_finite(samples)
        self._meter.feed(samples)
        self._spool.write(samples.astype("<f4").tobytes())

    def sentence_done(self) -> None:
        super().sentence_done()
        self._inner.sentence_done()

    def finish(self) -> None:
        self._copy()
        self._inner.finish()
        self.notices.extend(self._inner.notices)

    def _copy(self) -> None:
        factor = self._factor()
        self.applied_db = 20.0 * math.log10(float(factor))
        self._spool.seek(0)
        while data := self._spool.read(COPY_SAMPLES * 4):
            self._inner.write(np.frombuffer(data, "<f4") * factor)
        self._spool.close()

    def _factor(self) -> np.float32:
        return factor_for(self._meter, self._target, self.notices)

    def interrupt(self) -> Path | None:
        if self.sentences:
            self._copy()
        return self._inner.interrupt()

    def discard(self) -> None:
        self._spool.close()
        self._inner.discard()
