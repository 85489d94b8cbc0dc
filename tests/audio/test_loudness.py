"""Loudness against values of pyloudnorm 0.2.0 and ffmpeg 5.1's ebur128, made once from these very sounds."""

from pathlib import Path

import numpy as np
import pytest

import omnitts_cli
from omnitts_cli.audio.encode import SoundFormat
from omnitts_cli.audio.loudness import LoudnessSink, Meter, lufs
from omnitts_cli.audio.sinks import FileSink, MemorySink

soundfile = pytest.importorskip("soundfile")


def curve(sound: np.ndarray) -> np.ndarray:
    """The curve through the samples at 16 times their rate, by a transform of the whole, unlike the limiter."""
    padded = np.pad(sound, 64)
    return np.abs(np.fft.irfft(np.fft.rfft(padded), padded.size * 16)) * 16


def made(kind: str, rate: int) -> np.ndarray:
    t = np.arange(rate * 6) / rate
    if kind == "tone":
        return (0.1 * np.sin(2 * np.pi * 997 * t)).astype(np.float32)
    if kind == "noise":
        return (0.05 * np.random.default_rng(3).standard_normal(rate * 6)).astype(np.float32)
    return (0.3 * np.sin(2 * np.pi * 180 * t) * (np.sin(2 * np.pi * 0.5 * t) > 0)).astype(np.float32)


PINNED = [  # kind, rate, pyloudnorm, ffmpeg
    ("tone", 16000, -23.08, -23.0), ("tone", 24000, -23.06, -23.0), ("tone", 48000, -23.05, -23.0),
    ("noise", 16000, -23.36, -23.2), ("noise", 24000, -23.15, -23.1), ("noise", 48000, -22.93, -22.9),
    ("gated", 16000, -15.55, -15.4), ("gated", 24000, -15.55, -15.5), ("gated", 48000, -15.55, -15.5),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "rate", "pyloudnorm", "ffmpeg"), PINNED)
def test_it_agrees_with_two_others(kind: str, rate: int, pyloudnorm: float, ffmpeg: float) -> None:
    measured = lufs(made(kind, rate), rate)
    assert measured == pytest.approx(pyloudnorm, abs=0.15)  # it draws its filters a little differently
    assert measured == pytest.approx(ffmpeg, abs=0.1)


def test_the_reference_tone_of_the_standard() -> None:
    """A 997 Hz sine at full scale measures -3.01 LUFS."""
    t = np.arange(48000 * 5) / 48000
    assert lufs(np.sin(2 * np.pi * 997 * t).astype(np.float32), 48000) == pytest.approx(-3.01, abs=0.02)


def test_fed_in_blocks_is_fed_at_once() -> None:
    sound, meter = made("gated", 24000), Meter(24000)
    for start in range(0, sound.size, 777):
        meter.feed(sound[start : start + 777])
    assert meter.lufs() == pytest.approx(lufs(sound, 24000), abs=1e-9)


def test_silence_and_very_short_sounds_have_no_loudness() -> None:
    assert lufs(np.zeros(24000, np.float32), 24000) == -np.inf
    assert lufs(made("tone", 24000)[:5000], 24000) == -np.inf


@pytest.mark.parametrize("target", [-16.0, -23.0])
def test_a_sink_brings_the_whole_to_its_target(target: float) -> None:
    inner = MemorySink()
    sink = LoudnessSink(inner, target)
    for block in np.array_split(made("noise", 24000), 17):
        sink.write(block)
        sink.sentence_done()
    assert inner.sound.size == 0
    sink.finish()
    assert inner.finished and lufs(inner.sound, 24000) == pytest.approx(target, abs=0.05)


def spoken(seed: int) -> np.ndarray:
    """Sound with the peaks of speech: short loud onsets over a quieter rest, 20 dB apart."""
    random = np.random.default_rng(seed)
    t = np.arange(24000 * 4) / 24000
    voice = 0.05 * np.sin(2 * np.pi * 140 * t) * (1 + np.sin(2 * np.pi * 2.5 * t)) + 0.01 * random.standard_normal(
        t.size
    )
    for at in random.integers(0, t.size - 600, 12):
        voice[at : at + 600] += 0.5 * np.hanning(600) * np.sin(2 * np.pi * 1900 * t[:600] + seed)
    return voice.astype(np.float32)


def levelled(sound: np.ndarray, target: float, block: int) -> tuple[np.ndarray, LoudnessSink]:
    inner = MemorySink()
    sink = LoudnessSink(inner, target)
    for start in range(0, sound.size, block):
        sink.write(sound[start : start + block])
    sink.finish()
    return inner.sound, sink


@pytest.mark.parametrize("seed", range(3))
def test_peaks_are_limited_so_that_the_target_is_reached(seed: int) -> None:
    sound = spoken(seed)
    assert lufs(sound, 24000) < -20 and np.abs(sound).max() > 0.45  # gain alone would clip
    found, sink = levelled(sound, -16.0, 24000)
    assert found.size == sound.size and not sink.notices
    assert lufs(found, 24000) == pytest.approx(-16.0, abs=0.1)
    assert curve(found).max() <= 10 ** (-1 / 20)
    assert sink.reached is not None and sink.reached.lufs == pytest.approx(lufs(found, 24000), abs=0.02)
    assert sink.reached.peak == pytest.approx(float(np.abs(found).max()), rel=1e-4)


def test_the_blocks_in_which_it_arrives_make_no_difference() -> None:
    sound = spoken(5)
    assert np.array_equal(levelled(sound, -14.0, 777)[0], levelled(sound, -14.0, sound.size)[0])


def test_no_peak_is_turned_down_without_end_and_the_user_is_told() -> None:
    sound = made("tone", 24000) * 0.03
    sound[::5000] = 0.9
    found, sink = levelled(sound.astype(np.float32), -5.0, 24000)
    assert curve(found).max() <= 10 ** (-1 / 20)
    assert any("instead of -5" in notice for notice in sink.notices)


def test_sound_that_has_room_is_only_multiplied() -> None:
    sound = made("noise", 24000)
    found, sink = levelled(sound, -30.0, 5000)
    assert sink.reached is not None
    assert np.allclose(found, sound * 10 ** (sink.reached.gain_db / 20), rtol=1e-6, atol=0)


def test_what_the_embedded_model_says_reaches_its_target() -> None:
    """Gain alone left this line at -20 to -17 LUFS, as it did 19 others in all voices."""
    with omnitts_cli.load("tiny", device="cpu", threads=1, slots=1) as tts:
        clip = tts.speak("Peter Piper picked a peck of pickled peppers.", voice="finn", seed=7, loudness=-16)
    assert lufs(clip.samples, clip.sample_rate) == pytest.approx(-16.0, abs=0.5)
    assert curve(clip.samples).max() <= 10 ** (-1 / 20)


def test_an_interrupted_one_keeps_its_finished_sentences(tmp_path: Path) -> None:
    sink = LoudnessSink(FileSink(tmp_path / "a.wav", SoundFormat()), -20.0)
    sink.write(made("noise", 24000))
    sink.sentence_done()
    kept = sink.interrupt()
    assert kept == tmp_path / "a.partial.wav"
    assert lufs(soundfile.read(kept, dtype="float32")[0], 24000) == pytest.approx(-20.0, abs=0.05)
