"""--check: measures whether a clip is a good voice reference. Refuses silence; warns about everything else."""

from dataclasses import dataclass, replace

import numpy as np

from omnitts_cli.audio.pcm import clipped_share, dbfs, peak_dbfs
from omnitts_cli.audio.read import Recording
from omnitts_cli.errors import InputError

SHORT_S = 3.0
SILENT_PEAK_DB = -55.0
QUIET_DB = -40.0
STEADY_DB = 8.0
CLIPPED_SHARE = 0.001
EMPTY_FRONT_S = 1.5
EMPTY_SHARE = 0.6
TONE_SHARE = 0.95  # a hummed vowel of 0.8 s has up to 0.89
BLOCK_S = 0.02
TONE_BLOCK_S = 0.32
FEWEST_COLUMNS_PER_S, MOST_COLUMNS_PER_S = 2.0, 35.0


@dataclass(frozen=True)
class Figures:
    """What was measured. Levels in dB below full scale."""

    seconds: float
    peak_db: float
    speech_db: float  # the louder tenth of the blocks
    floor_db: float  # the quieter tenth
    clipped: float  # share of samples in flat tops
    front_s: float  # silence before the first sound
    empty: float  # share of blocks that are silent
    tone: float  # share of the power in one narrow band


def check_clip(recording: Recording) -> list[str]:
    """Warnings for the user, with figures; InputError for a silent clip."""
    figures = measure(recording.sound, recording.rate)
    if recording.clipped is not None:  # resampling rings, and rounds the flat tops off
        figures = replace(figures, clipped=recording.clipped)
    if figures.peak_db < SILENT_PEAK_DB:
        raise InputError(
            f"reference clip {recording.name} is silent ({peak(figures.peak_db)} over {figures.seconds:.1f} s)",
            hint="check the microphone and record it again, or choose another part: --ref-start S --ref-end S",
        )
    return warnings(figures)


def warnings(figures: Figures) -> list[str]:
    """One warning for each problem."""
    found = []
    if figures.seconds < SHORT_S:
        found.append(f"the clip lasts {figures.seconds:.1f} s; {SHORT_S:g}-30 s give a better voice")
    if figures.speech_db < QUIET_DB:
        found.append(f"the clip is very quiet (speech at {shown(figures.speech_db)})")
    if figures.clipped > CLIPPED_SHARE:
        found.append(f"the clip is distorted ({100 * figures.clipped:.1f} % of its samples are clipped)")
    if figures.tone > TONE_SHARE:
        found.append(
            f"the clip is a steady tone ({100 * figures.tone:.0f} % of its power is in one narrow band), not speech"
        )
    elif figures.speech_db - figures.floor_db < STEADY_DB:
        found.append(
            f"the clip's level is almost constant ({figures.speech_db - figures.floor_db:.0f} dB between loud and quiet"
            " parts): it may be noise, music or very noisy speech"
        )
    if figures.front_s > EMPTY_FRONT_S:
        found.append(
            f"the clip begins with {figures.front_s:.1f} s of silence; --ref-start {figures.front_s:.1f} leaves it out"
        )
    if figures.empty > EMPTY_SHARE:
        found.append(f"{100 * figures.empty:.0f} % of the clip is silence")
    return found


def measure(sound: np.ndarray, rate: int) -> Figures:
    """The figures of a mono clip."""
    block = max(1, round(BLOCK_S * rate))
    count = max(1, sound.size // block)
    blocks = np.resize(sound, count * block).reshape(count, block).astype(np.float64)  # [blocks, block]
    levels = np.array([dbfs(float(level)) for level in np.sqrt(np.mean(np.square(blocks), axis=1))])  # [blocks] dB
    levels = np.maximum(levels, -120.0)
    speech, floor = float(np.percentile(levels, 90)), float(np.percentile(levels, 10))
    loud = np.nonzero(levels > max(speech - 35.0, -70.0))[0]  # [blocks that are not silent]
    front_s = float(loud[0] * block / rate) if loud.size else sound.size / rate
    return Figures(
        sound.size / rate, peak_dbfs(sound), speech, floor, clipped_share(sound), front_s,
        1.0 - loud.size / count, tone_share(sound, rate),
    )  # fmt: skip


def tone_share(sound: np.ndarray, rate: int) -> float:
    """The share of the whole power that lies in the strongest band of 15 Hz. A voice moves; a tone stays."""
    block = min(max(1, round(TONE_BLOCK_S * rate)), max(1, sound.size))
    blocks = np.resize(sound, max(1, sound.size // block) * block).reshape(-1, block).astype(np.float64)
    power = np.mean(np.square(np.abs(np.fft.rfft(blocks * np.hanning(block), axis=1))), axis=0)  # [bands]
    total = float(power.sum())
    if total <= 0.0:
        return 0.0
    best = int(np.argmax(power))
    return float(power[max(0, best - 2) : best + 3].sum()) / total


def check_transcript(columns: int, seconds: float) -> list[str]:
    """Whether a transcript can belong to a clip: `columns` is its width, a CJK character counting two."""
    pace = columns / seconds if seconds > 0 else 0.0
    if columns == 0:
        return ["the transcript is empty"]
    if pace > MOST_COLUMNS_PER_S:
        return [
            f"the transcript is too long for the clip ({pace:.0f} letters per second): does it belong to another clip?"
        ]
    if pace < FEWEST_COLUMNS_PER_S:
        return [
            f"the transcript seems incomplete ({pace:.1f} letters per second); it must contain every word of the clip"
        ]
    return []


def shown(db: float) -> str:
    """-91.2 -> `−91 dBFS`."""
    return "no signal at all" if db == -np.inf else f"{db:.0f} dBFS".replace("-", "−")


def peak(db: float) -> str:
    return shown(db) if db == -np.inf else f"peak {shown(db)}"
