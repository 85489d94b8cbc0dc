"""Engines: the model under test in this process, and the variant with which it is compared."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from omnitts_cli.audio.read import Recording
from omnitts_cli.errors import UsageError, VoiceError
from omnitts_cli.speech import reference, voices
from omnitts_cli.voices import Designed, Named, Voice

if TYPE_CHECKING:
    import numpy as np

    from omnitts_cli.engine.engine import Engine
    from omnitts_cli.models.roles import SpeechModel
    from omnitts_cli.settings.engine import EngineSettings
    from omnitts_cli.weights.fetch import Report

VARIANTS = ("eager", "cpu", "nobuckets")
"""Without graphs; on the CPU; every batch padded to all slots."""

KINDS = {"voice": ("named", "custom_voice"), "clone": ("cloned", "base"), "design": ("designed", "voice_design")}
"""For each mode, the kind of voice it needs and the released variant that has it."""

MADE_UP_S = 6.0


@dataclass
class OpenedEngine:
    """An engine, the seconds to load its model, and the seconds to start it, graph capture included."""

    engine: Engine
    load_s: float
    start_s: float


def open_engine(name: str, settings: EngineSettings, variant: str, report: Report | None = None) -> OpenedEngine:
    """An engine for the model called `name`; `variant` completes a bare size."""
    from omnitts_cli.speech import load as build

    began = time.perf_counter()
    device = build.device_for(name, settings)
    model = build.load_model(name, device, variant=variant, settings=settings, report=report)
    device.synchronize()
    loaded = time.perf_counter()
    return started(model, device, build.plan_for(model, device, settings), loaded - began)


def started(model: SpeechModel, device: Any, plan: Any, load_s: float = 0.0) -> OpenedEngine:
    from omnitts_cli.engine.engine import Engine

    began = time.perf_counter()
    engine = Engine(model, device, plan)
    return OpenedEngine(engine, load_s, time.perf_counter() - began)


def other(variant: str, opened: OpenedEngine, name: str, settings: EngineSettings, kind: str) -> OpenedEngine:
    """The variant to compare with `opened`. Weights are shared if the device is the same."""
    engine = opened.engine
    if variant == "cpu":
        if engine.device.torch_device.type == "cpu":
            raise UsageError("--vs cpu: the benchmark already runs on the CPU", hint="--vs nobuckets")
        return open_engine(name, replace(settings, device="cpu", dtype="auto"), kind)
    if variant == "eager":
        if not engine.plan.capture:
            raise UsageError(f"--vs eager: {engine.device.name} does not capture graphs", hint="--vs nobuckets")
        return started(engine.model, engine.device, replace(engine.plan, capture=False))
    plan = replace(engine.plan, buckets=(engine.plan.slots,), sound_rows=(engine.plan.slots,))
    return started(engine.model, engine.device, plan)


def mode_of(model: SpeechModel) -> str:
    """The first mode that the model supports."""
    return next(mode for mode, (kind, _) in KINDS.items() if kind in model.kinds)


def mode_of_voice(voice: Voice) -> str:
    return "voice" if isinstance(voice, Named) else "design" if isinstance(voice, Designed) else "clone"


def voice_for(
    mode: str, model: SpeechModel, name: str | None, description: str | None, encode: Callable[[], Voice] | None
) -> Voice:
    """The voice for a mode; an error if the model does not support it."""
    kind, _ = KINDS[mode]
    if kind not in model.kinds:
        able = [mode for mode, (its, _) in KINDS.items() if its in model.kinds]
        raise VoiceError(f"{model.name} does not support --mode {mode}", hint=f"--mode {able[0]}" if able else None)
    if mode == "clone":
        assert encode is not None
        return encode()
    return Designed(description or "") if mode == "design" else voices.named_voice(name, model).identity


def clip_encoder(model: SpeechModel, sound: np.ndarray | None, transcript: str | None) -> Callable[[], Voice]:
    """Encodes a clip, once per call. Without a clip, six seconds of tones: the work is the same."""
    rate = model.facts.sample_rate
    clip = Recording(tones(rate) if sound is None else sound, rate, "the clip", rate, 1, None)
    return lambda: reference.cloned(reference.Reference(clip, transcript), model).identity


def tones(rate: int) -> np.ndarray:
    """Synthetic sound with the loudness of speech."""
    import numpy as np

    time_s = np.arange(round(MADE_UP_S * rate)) / rate
    swell = 0.6 + 0.4 * np.sin(2 * np.pi * 3 * time_s)
    waves = sum(0.1 * np.sin(2 * np.pi * pitch * time_s) for pitch in (140, 420, 980, 2300))
    return np.asarray(swell * waves, np.float32)
