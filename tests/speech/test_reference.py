"""A voice that `tiny` clones has the spectrum of its clip: spoken alone, beside others, streamed, and once saved."""

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import omnitts_cli as omnitts
from omnitts_cli.audio.spectrum import BANDS, Equaliser, levels
from omnitts_cli.speech import voice_files
from omnitts_cli.speech.clip import Clip
from omnitts_cli.speech.tts import MOST_DB
from omnitts_cli.speech.voices import Voice

TEXT = "The wide road shimmered in the hot sun."
DARKER = np.linspace(4, -8, BANDS)  # dB


@pytest.fixture(scope="module")
def tts() -> Iterator[omnitts.TTS]:
    with omnitts.load("tiny", device="cpu", threads=1) as opened:
        yield opened


@pytest.fixture(scope="module")
def clips(tts: omnitts.TTS) -> dict[str, Clip]:
    """The same speech as it is, and darker."""
    said = tts.speak("Printing, in the only sense with which we are concerned.", voice="clara", seed=1)
    block = tts.engine.model.facts.samples_per_frame  # type: ignore[attr-defined]
    whole = said.samples[: said.samples.size // block * block]
    return {
        "plain": said,
        "darker": Clip(Equaliser(DARKER, tts.sample_rate, block).feed(whole), tts.sample_rate, seed=0),
    }


def spoken(tts: omnitts.TTS, voice: Voice) -> np.ndarray:
    return tts.speak(TEXT, voice=voice, seed=3).samples


def test_a_darker_clip_makes_a_darker_clone(tts: omnitts.TTS, clips: dict[str, Clip]) -> None:
    clones = {name: tts.clone(clip) for name, clip in clips.items()}
    gains = {name: np.asarray(voice.identity.gains) for name, voice in clones.items()}  # type: ignore[union-attr]
    assert all(one.shape == (BANDS,) and np.abs(one).max() <= 2 * MOST_DB for one in gains.values())
    found = {name: levels(spoken(tts, voice), tts.sample_rate) for name, voice in clones.items()}
    wanted = {name: levels(clip.samples, tts.sample_rate) for name, clip in clips.items()}
    for name, voice in clones.items():
        without = dataclasses.replace(voice.identity, gains=None)  # type: ignore[type-var]
        plain = levels(spoken(tts, dataclasses.replace(voice, identity=without)), tts.sample_rate)
        near, far = (np.sqrt(np.mean((one - wanted[name]) ** 2)) for one in (found[name], plain))
        assert near < far or near < 3.0, name
    tilt = [found[name][-5:].mean() - found[name][3:8].mean() for name in ("darker", "plain")]
    assert tilt[0] < tilt[1] - 3


def test_streamed_is_whole_and_together_is_alone(tts: omnitts.TTS, clips: dict[str, Clip]) -> None:
    voice = tts.clone(clips["darker"])
    alone = spoken(tts, voice)
    assert np.array_equal(np.concatenate([chunk.samples for chunk in tts.stream(TEXT, voice=voice, seed=3)]), alone)
    together = tts.speak_all([TEXT, "Another line, spoken beside it."], voice=voice, seed=3)
    assert np.array_equal(together[0].samples, alone)


def test_a_saved_clone_sounds_the_same(tts: omnitts.TTS, clips: dict[str, Clip], tmp_path: Path) -> None:
    voice = tts.clone(clips["darker"])
    voice_files.write(voice_files.SavedVoice("dark", voice.identity, dict(voice.about)), tmp_path / "dark.voice")  # type: ignore[arg-type]
    assert np.array_equal(tts.speak(TEXT, voice=tmp_path / "dark.voice", seed=3).samples, spoken(tts, voice))
