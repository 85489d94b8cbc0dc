"""Samples: float32 to the bytes of a sample format, checks for NaN, gain, levels. No dither."""

import math
from typing import Literal

import numpy as np

from omnitts_cli.errors import GuardError

Subtype = Literal["pcm16", "pcm24", "float"]
SUBTYPES: tuple[Subtype, ...] = ("pcm16", "pcm24", "float")
BYTES_PER_SAMPLE: dict[Subtype, int] = {"pcm16": 2, "pcm24": 3, "float": 4}

BLOCK_S = 1.0
"""No block longer than this goes into an encoder: one write of five minutes of Vorbis ends the process."""


def require_finite(samples: np.ndarray) -> None:
    """Refuses sound with NaN or Inf in it. One such number ends the process inside the MP3 encoder."""
    if math.isfinite(samples.sum()):  # cheaper than a check of each sample; an overflowing sum is examined below
        return
    finite = np.isfinite(samples)
    if not finite.all():
        bad = int(finite.size - finite.sum())
        raise GuardError(
            f"the model produced NaN or infinite samples ({bad} of {finite.size})",
            cause="they would be noise, or crash the encoder",
            hint="try another --seed or --dtype fp32; omnitts doctor checks the device",
        )


def to_bytes(samples: np.ndarray, subtype: Subtype) -> bytes:
    """float32 in -1..1 -> little-endian bytes. Values outside are held at the limit, never wrapped."""
    if subtype == "float":
        return samples.astype("<f4", copy=False).tobytes()
    if subtype == "pcm16":
        return to_int16(samples).tobytes()
    return to_int24(samples).view(np.uint8).reshape(-1, 4)[:, :3].tobytes()


def to_int16(samples: np.ndarray) -> np.ndarray:
    """float32 -> int16. 32768 steps per unit, as readers divide by it: reading and writing again changes nothing."""
    scaled = samples * np.float32(32768.0)
    np.rint(scaled, out=scaled)
    return np.clip(scaled, -32768, 32767, out=scaled).astype("<i2")  # [samples]


def to_int24(samples: np.ndarray) -> np.ndarray:
    """float32 -> 24-bit numbers in int32."""
    return np.clip(np.rint(samples.astype(np.float64) * 2**23), -(2**23), 2**23 - 1).astype("<i4")  # [samples]


def silence(seconds: float, rate: int) -> np.ndarray:
    """Digital silence of this length."""
    return np.zeros(round(seconds * rate), np.float32)


def gain(db: float) -> np.float32:
    """The factor of a change in level given in dB."""
    return np.float32(10.0 ** (db / 20.0))


def dbfs(level: float) -> float:
    """A level in 0..1 as dB below full scale; -inf for nothing."""
    return 20.0 * math.log10(level) if level > 0.0 else -math.inf


def peak_dbfs(samples: np.ndarray) -> float:
    """The loudest sample in dB below full scale."""
    return dbfs(float(np.max(np.abs(samples)))) if samples.size else -math.inf


def clipped_share(sound: np.ndarray) -> float:
    """The share of samples inside runs of three or more at one same extreme value."""
    peak = float(np.max(np.abs(sound), initial=0.0))
    if peak < 0.5:
        return 0.0
    flat = np.abs(sound) >= 0.999 * peak
    inside = flat[:-2] & flat[1:-1] & flat[2:]
    return float(np.count_nonzero(inside)) / max(1, sound.size)
