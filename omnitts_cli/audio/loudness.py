"""Loudness by ITU-R BS.1770-4: integrated LUFS of mono sound, as it arrives, and sound brought to a target."""

import math
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from omnitts_cli.audio.limiter import CEILING, Limiter
from omnitts_cli.audio.pcm import dbfs, gain, require_finite
from omnitts_cli.audio.sinks import Sink

BLOCK_S, STEP_S = 0.4, 0.1
ABSOLUTE_GATE = -70.0
RELATIVE_GATE = -10.0
OFFSET = -0.691
MOST_LIMITED_DB = 15.0  # more is heard as distortion
MOST_TRIES = 5
FLATTEST = 0.25  # the least loudness that a decibel of gain is expected to add
CLOSE_LU, NEAR_LU = 0.05, 0.1  # when to stop trying, and when to say nothing
HIGHEST_CURVE = 2.0  # the true peak over the highest sample; more occurs only in made-up sound
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
        self.rate, self._step = rate, round(STEP_S * rate)
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


def level(samples: np.ndarray, rate: int, target_lufs: float) -> tuple[np.ndarray, list[str]]:
    """Returns a whole sound at a target loudness, and notices for a person."""
    from omnitts_cli.audio.sinks import MemorySink

    inner = MemorySink()
    sink = LoudnessSink(inner, target_lufs, rate)
    sink.write(samples)
    sink.finish()
    return inner.sound, sink.notices


@dataclass(frozen=True)
class Level:
    """The gain before the limiter, and what comes out of it."""

    gain_db: float
    lufs: float  # -inf if it is too short or too quiet to be measured
    peak: float  # the highest sample

    def of(self, blocks: Iterable[np.ndarray], rate: int) -> Iterator[np.ndarray]:
        """The sound at this level."""
        return limited(blocks, rate, self.gain_db) if math.isfinite(self.lufs) else iter(blocks)


def level_for(meter: Meter, target_lufs: float, again: Callable[[], Iterable[np.ndarray]], notices: list[str]) -> Level:
    """How measured sound gets to a target loudness. `again` gives the sound once more, for each try with the limiter.

    The limiter takes away loudness, which more gain before it restores. `notices` gets why the target is missed.
    """
    measured = meter.lufs()
    if not math.isfinite(measured):
        notices.append("too short or too quiet for --loudness; the level is unchanged")
        return Level(0.0, measured, meter.peak)
    most_db = MOST_LIMITED_DB - dbfs(meter.peak / CEILING)
    found = tried(meter, min(target_lufs - measured, most_db), again)
    slope = 1.0  # loudness gained by a decibel
    for _ in range(MOST_TRIES):
        missing = target_lufs - found.lufs
        if abs(missing) <= CLOSE_LU or (missing > 0 and found.gain_db == most_db):
            break
        before, found = found, tried(meter, min(found.gain_db + missing / slope, most_db), again)
        slope = min(1.0, max(FLATTEST, (found.lufs - before.lufs) / (found.gain_db - before.gain_db)))
    if abs(missing) > NEAR_LU:
        notices.append(
            f"loudness is {found.lufs:.1f} LUFS instead of {target_lufs:g}: for more, peaks would have to be "
            f"turned down by more than {MOST_LIMITED_DB:g} dB"
        )
    return found


def tried(meter: Meter, gain_db: float, again: Callable[[], Iterable[np.ndarray]]) -> Level:
    """What comes out with this gain."""
    peak = meter.peak * float(gain(gain_db))
    if peak * HIGHEST_CURVE <= CEILING:  # nothing to limit
        return Level(gain_db, meter.lufs() + gain_db, peak)
    out = Meter(meter.rate)
    for samples in limited(again(), meter.rate, gain_db):
        out.feed(samples)
    return Level(gain_db, out.lufs(), out.peak)


def limited(blocks: Iterable[np.ndarray], rate: int, gain_db: float) -> Iterator[np.ndarray]:
    """Sound with a gain and the limiter."""
    limiter = Limiter(rate, float(gain(gain_db)))
    for samples in blocks:
        yield limiter.feed(samples)
    yield limiter.flush()


class LoudnessSink(Sink):
    """Brings a sound to a target loudness before another sink. Passes nothing on until all of it has arrived."""

    def __init__(self, inner: Sink, target_lufs: float, rate: int = 24_000) -> None:
        super().__init__()
        self._inner, self._target = inner, target_lufs
        self._meter = Meter(rate)
        self._spool = tempfile.SpooledTemporaryFile(max_size=SPOOL_SAMPLES * 4)
        self.reached: Level | None = None  # once everything is passed on

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
        self.reached = level_for(self._meter, self._target, self._blocks, self.notices)
        for samples in self.reached.of(self._blocks(), self._meter.rate):
            self._inner.write(samples)
        self._spool.close()

    def _blocks(self) -> Iterator[np.ndarray]:
        self._spool.seek(0)
        while data := self._spool.read(COPY_SAMPLES * 4):
            yield np.frombuffer(data, "<f4")

    def interrupt(self) -> Path | None:
        if self.sentences and self.reached is None:  # else it has begun to be passed on
            self._copy()
        return self._inner.interrupt()

    def discard(self) -> None:
        self._spool.close()
        self._inner.discard()
