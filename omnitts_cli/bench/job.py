"""BenchJob: from the options to a finished report. Opens the target and runs the campaign; writes no files."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

from omnitts_cli.audio.resample import resample
from omnitts_cli.bench import engines, workload
from omnitts_cli.bench.campaign import MAIN, Shape, campaign
from omnitts_cli.bench.keep import Keeper
from omnitts_cli.bench.local import EngineTarget
from omnitts_cli.bench.record import Result
from omnitts_cli.bench.report import Report, ratios
from omnitts_cli.bench.server import Asking, ServerTarget, first_listed
from omnitts_cli.bench.target import BenchTarget
from omnitts_cli.bench.workload import BenchText, Workload
from omnitts_cli.devices.fingerprint import of_exact
from omnitts_cli.errors import UsageError
from omnitts_cli.settings.engine import EngineSettings
from omnitts_cli.speech.servers import Address
from omnitts_cli.speech.voices import refuse_foreign
from omnitts_cli.voices import Named
from omnitts_cli.weights.fetch import Report as Fetched

if TYPE_CHECKING:
    import numpy as np


PACKAGES = ("omnitts-cli", "torch", "triton", "numpy")
SLOT_S = 120.0
SPARE_S = 2.0
FRAMES_PER_S = 12.5
BESIDE = "engine"
"""--vs engine: compares a server with the engine of this process."""
LANGUAGE_OF_SERVERS = "english"
"""The language for servers, which do not list theirs; all of them speak English."""


@dataclass(frozen=True)
class BenchVoice:
    """The voice. Without a mode, the first that the model supports: named voice, clone, design."""

    mode: str | None = None
    voice: str | None = None
    words: str | None = None  # a style; in the mode "design" a description
    clip: np.ndarray | None = None  # [samples] float32
    clip_rate: int = 24_000
    transcript: str | None = None
    fresh: bool = False  # the clip is encoded for every request

    @property
    def reference_s(self) -> float:
        """Seconds of the clip that the codec decodes before each request."""
        if self.mode != "clone" or self.transcript is None:
            return 0.0
        return engines.MADE_UP_S if self.clip is None else self.clip.size / self.clip_rate

    def sound(self, rate: int) -> np.ndarray | None:
        """The clip at the model's sample rate."""
        if self.clip is None:
            return None

        return resample(self.clip, self.clip_rate, rate)


@dataclass(frozen=True)
class BenchTexts:
    """What is spoken: texts from a file, or built-in texts of some length and languages."""

    given: tuple[BenchText, ...] = ()
    length: workload.Length = "mix"
    language: str | None = None

    def chosen(self, spoken: Mapping[str, Any] | tuple[str, ...] | list[str]) -> list[BenchText]:
        """The texts for a model that speaks `spoken` languages."""
        if self.given:
            return list(self.given)
        wanted = [self.language] if self.language else [name for name in workload.languages() if name in spoken]
        texts = workload.sample_texts(wanted, self.length)
        if not texts:
            raise UsageError("there are no sample texts in a language of this model", hint="--texts FILE")
        return texts


@dataclass(frozen=True)
class BenchJob:
    """One run of the command."""

    model: str
    settings: EngineSettings
    shape: Shape
    speaker: BenchVoice
    texts: BenchTexts
    command: str
    frames: int | None = None
    versus: str | None = None
    url: str | None = None
    asking: Asking | None = None
    keeper: Keeper | None = None
    fetched: Fetched | None = None

    def run(self, on_request: Callable[[Result], None], on_level: Callable[[Report], None]) -> Report:
        """Runs all levels. Calls `on_request` after each request, and `on_level` with the report after each level."""
        with self.opened() as bench:
            report = bench.report(self)
            kept = None if self.keeper is None else self.keeper.keep
            for level in campaign(bench.targets, bench.load.works, self.shape, on_request, kept):
                report.levels.append(level)
                report.ratios = ratios(report.levels)
                on_level(report)
            return report

    @contextmanager
    def opened(self) -> Iterator[Bench]:
        """Opens the targets."""
        with ExitStack() as closing:
            bench = self._server() if self.url is not None else self._engines()
            for target in bench.targets.values():
                closing.enter_context(target)
            yield bench

    @property
    def keeps(self) -> bool:
        return self.keeper is not None

    def _server(self) -> Bench:
        assert self.url is not None and self.asking is not None
        address, asking = Address.of(self.url), self.asking
        model = asking.model or first_listed(address, "models", asking.api_key) or "tts-1"
        voice = asking.voice or first_listed(address, "voices", asking.api_key)
        target = ServerTarget(address, replace(asking, model=model, voice=voice), keep=self.keeps)
        if self.versus == BESIDE:  # the same work, in this process
            bench = replace(self, url=None, versus=None)._engines()
            return replace(bench, targets={MAIN: target, BESIDE: bench.targets[MAIN]})
        texts = self.texts.chosen((LANGUAGE_OF_SERVERS,))
        load = Workload(texts, Named(), None, self.speaker.words, self.shape.seed, self.frames)
        return Bench({MAIN: target}, load, model)

    def _engines(self) -> Bench:
        _, variant = engines.KINDS[self.speaker.mode or "voice"]
        main = engines.open_engine(self.model, self.settings, variant, self.fetched)
        opened = {MAIN: main}
        if self.versus is not None:
            opened[self.versus] = engines.other(self.versus, main, self.model, self.settings, variant)
        model, bits = main.engine.model, of_exact(main.engine.device)
        exact = {"exact": bits} if bits else {}
        targets = {name: EngineTarget(one.engine, keep=self.keeps) for name, one in opened.items()}
        return Bench(
            targets,
            self._load(model),
            self.model,
            model.sha256,
            f"{main.engine.device.name}, {main.engine.device.card}",
            model.precision,
            {"load_s": main.load_s, "start_s": main.start_s},
            {name: getattr(main.engine.plan, name) for name in ("slots", "capture")} | exact,
        )

    def _load(self, model: Any) -> Workload:
        if self.texts.language is not None:
            refuse_foreign(self.texts.language, model)
        texts = workload.requests(self.texts.chosen(model.languages), model)
        mode = self.speaker.mode or engines.mode_of(model)
        sound, transcript = self.speaker.sound(model.facts.sample_rate), self.speaker.transcript
        encode = engines.clip_encoder(model, sound, transcript) if mode == "clone" else None
        voice = engines.voice_for(mode, model, self.speaker.voice, self.speaker.words, encode)
        style = self.speaker.words if mode != "design" else None
        fresh = encode if self.speaker.fresh else None
        return Workload(texts, voice, fresh, style, self.shape.seed, self.frames)


@dataclass(frozen=True)
class Bench:
    """Open targets, their workload, and what is known about them."""

    targets: Mapping[str, BenchTarget]
    load: Workload
    model: str
    sha256: str | None = None
    device: str | None = None
    dtype: str | None = None
    start: dict[str, float | None] = field(default_factory=dict)
    plan: dict[str, Any] = field(default_factory=dict)

    def report(self, job: BenchJob) -> Report:
        """The report without levels."""
        shape = job.shape
        about = {
            "loop": "closed" if shape.rate is None else "open",
            **({"arrivals": "apart"} if shape.apart else {}),
            "target": job.url or "engine",
            "mode": job.speaker.mode or engines.mode_of_voice(self.load.voice),
            "transcript": job.speaker.transcript is not None,
            "reference": "fresh" if job.speaker.fresh else "cached",
            "length": "file" if job.texts.given else job.texts.length,
            "warmup": "one round, at least 2" if shape.warmup is None else shape.warmup,
            "requests": shape.requests,
            "duration_s": shape.duration_s,
            **self.plan,
            **self.load.about(),
        }
        return Report(
            created=datetime.now(UTC).isoformat(timespec="seconds"),
            command=job.command,
            model=self.model,
            model_sha256=self.sha256,
            device=self.device,
            dtype=self.dtype,
            versions={"python": platform.python_version(), **versions(local=job.url is None)},
            seed=shape.seed,
            workload=about,
            levels=[],
            start=self.start,
        )


def versions(local: bool) -> dict[str, str]:
    """Versions that the results depend on; those of a server are unknown."""
    found = {}
    for name in PACKAGES if local else PACKAGES[:1]:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def slot_seconds(frames: int | None, reference_s: float = 0.0) -> float:
    """The slot length: a fixed number of frames needs only that many."""
    return reference_s + (SLOT_S if frames is None else max(10.0, frames / FRAMES_PER_S + SPARE_S))
