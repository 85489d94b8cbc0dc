"""Engines: the variants, the modes, and what a model cannot do. On the toy."""

from typing import Any

import numpy as np
import pytest

from omnitts_cli.bench import engines
from omnitts_cli.bench.engines import OpenedEngine
from omnitts_cli.errors import UsageError, VoiceError
from omnitts_cli.families.toy import toy
from omnitts_cli.request import Request
from omnitts_cli.settings.engine import EngineSettings
from omnitts_cli.voices import Cloned, Designed, Named

SETTINGS = EngineSettings(device="cpu", threads=1, slots=4, seconds=10.0, offline=True)


@pytest.fixture(scope="module")
def opened() -> OpenedEngine:
    return engines.open_engine("random:toy", SETTINGS, "custom_voice")


def codes(opened: OpenedEngine, **fields: Any) -> np.ndarray:
    return opened.engine.clip(Request("hello", Named("ann"), max_frames=5, ignore_end=True, **fields)).codes


def test_opening_is_timed(opened: OpenedEngine) -> None:
    assert opened.load_s > 0
    assert opened.start_s > 0
    assert opened.engine.plan.slots == 4


def test_without_buckets_every_batch_is_padded_and_the_codes_are_the_same(opened: OpenedEngine) -> None:
    padded = engines.other("nobuckets", opened, "random:toy", SETTINGS, "custom_voice")
    assert padded.engine.plan.buckets == (4,)
    assert padded.engine.model is opened.engine.model
    assert np.array_equal(codes(padded, seed=3), codes(opened, seed=3))


@pytest.mark.parametrize("variant", ["eager", "cpu"])
def test_a_variant_that_is_the_same_thing_is_refused(opened: OpenedEngine, variant: str) -> None:
    with pytest.raises(UsageError, match=f"--vs {variant}"):
        engines.other(variant, opened, "random:toy", SETTINGS, "custom_voice")


@pytest.mark.parametrize(
    ("mode", "kind"), [("voice", Named), ("clone", Cloned), ("design", Designed)], ids=["voice", "clone", "design"]
)
def test_every_mode_speaks(opened: OpenedEngine, mode: str, kind: type) -> None:
    model = opened.engine.model
    for transcript in (None, "hello."):
        encode = engines.clip_encoder(model, None, transcript)
        voice = engines.voice_for(mode, model, None, "a calm voice", encode)
        assert isinstance(voice, kind)
        assert engines.mode_of_voice(voice) == mode
        if isinstance(voice, Cloned):
            assert (voice.codes is None) == (transcript is None)
        clip = opened.engine.clip(Request("hello", voice, max_frames=4, ignore_end=True))
        assert len(clip.codes) == 4


def test_a_clip_of_the_user_is_used(opened: OpenedEngine) -> None:
    model = opened.engine.model
    quiet = engines.clip_encoder(model, 0.01 * engines.tones(model.facts.sample_rate), None)()
    loud = engines.clip_encoder(model, None, None)()
    assert isinstance(quiet, Cloned) and isinstance(loud, Cloned)
    assert not np.array_equal(quiet.embedding, loud.embedding)


def test_the_first_mode_is_what_the_model_can() -> None:
    assert engines.mode_of(toy()) == "voice"
    assert engines.mode_of(toy(kinds=["designed"])) == "design"
    with pytest.raises(VoiceError, match="does not support --mode voice") as caught:
        engines.voice_for("voice", toy(kinds=["designed"]), None, None, None)
    assert caught.value.hint == "--mode design"


def test_a_voice_that_the_model_lacks_is_named(opened: OpenedEngine) -> None:
    with pytest.raises(VoiceError, match="voice 'zoe' not found"):
        engines.voice_for("voice", opened.engine.model, "zoe", None, None)
    assert engines.voice_for("voice", opened.engine.model, "ANN", None, None) == Named("ANN")
