"""Models: which are served, which of them are loaded, and the one that speaks a request."""

import asyncio
import gc
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

import numpy as np

from omnitts_cli.errors import DeviceError, Notice, OmniError
from omnitts_cli.server.engines import Engines
from omnitts_cli.server.hub import Hub
from omnitts_cli.server.problems import Problem, busy, unknown
from omnitts_cli.settings.table import Speech, TextIn
from omnitts_cli.speech import servers
from omnitts_cli.speech.script import Written
from omnitts_cli.speech.tts import TTS
from omnitts_cli.speech.voices import Voice
from omnitts_cli.text.piece import Piece
from omnitts_cli.voices import Cloned, Designed, Named
from omnitts_cli.weights.released import SIZES

RANDOM = "random:"
VARIANTS = {"custom_voice": "named", "base": "cloned", "voice_design": "designed"}
WITHOUT_DESIGN = "0.6b"
OPENAI = ("tts-1", "tts-1-hd", "gpt-4o-mini-tts")
"""Model names of plain clients; they stand for ours."""
ELEVENLABS = "eleven_"
"""How ElevenLabs' names of models begin. They stand for ours, too."""
WARM_UP_FRAMES = 6
STUCK_S = 10.0

State = Literal["unloaded", "loading", "ready", "failed"]


@dataclass(eq=False)
class ServedModel:
    """One checkpoint. `kinds` are known before it is loaded if its name has them. `voice`: the tuned voice that is
    merged into it.
    """

    name: str
    source: str  # as open_engine takes it
    variant: str
    group: str  # the value of -m
    kinds: frozenset[str] | None = None
    voice: Voice | None = None
    state: State = "unloaded"
    tts: TTS | None = None
    card: dict[str, Any] | None = None  # what `--via` asks
    error: OmniError | None = None
    active: int = 0  # requests that use it
    used: float = field(default_factory=time.monotonic)
    loading: asyncio.Task[TTS] | None = None
    live: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(1))
    """Limits utterances whose text is still arriving: they may hold a slot for minutes, so one is left to others."""

    @property
    def voice_sum(self) -> str | None:
        """The checksum of the adapter that was merged."""
        return None if self.voice is None or self.voice.adapter is None else self.voice.adapter.sha256

    @property
    def speech(self) -> Any:
        """The SpeechModel of a loaded one."""
        assert self.tts is not None
        return self.tts.engine.model


def planned(names: Iterable[str]) -> list[ServedModel]:
    """The models of -m. A bare size stands for its variants."""
    found: list[ServedModel] = []
    for name in dict.fromkeys(names):
        prefix, size = (RANDOM, name.removeprefix(RANDOM)) if name.startswith(RANDOM) else ("", name)
        if size.lower() not in SIZES:
            found.append(ServedModel(name, name, "custom_voice", name))
            continue
        for variant, kind in VARIANTS.items():
            if (size.lower(), variant) != (WITHOUT_DESIGN, "voice_design"):
                full = f"{prefix}{size.lower()}-{variant.replace('_', '')}"
                found.append(ServedModel(full, full, variant, name, frozenset({kind})))
    return found


class Models:
    """All models of the server. Its methods run on the event loop; loading runs in a thread."""

    def __init__(
        self,
        models: list[ServedModel],
        hub: Hub,
        load: Callable[[ServedModel], TTS],
        tell: Callable[[str], None] = lambda line: None,
        most_tuned: int = 2,
    ) -> None:
        self.all, self._hub, self._load, self._tell = models, hub, load, tell
        self.tuned: list[ServedModel] = []  # with a tuned voice each; only those that are loaded or loading
        self._most_tuned = most_tuned
        self.warm = False  # the models of --preload are ready
        self._opening = asyncio.Lock()  # one at a time: each is fitted into the memory that is free

    @property
    def loaded(self) -> list[ServedModel]:
        """The models that are ready."""
        return [model for model in (*self.all, *self.tuned) if model.state == "ready"]

    @property
    def healthy(self) -> bool:
        """Whether no engine thread is dead or stuck."""
        return all(
            model.tts is None or (model.tts.engine.broken is None and model.tts.engine.stuck_s() < STUCK_S)
            for model in (*self.all, *self.tuned)
        )

    def named(self, name: str | None) -> list[ServedModel]:
        """The models that a request's `model` field means."""
        if name is None or name in OPENAI or name.startswith(ELEVENLABS):
            return self.all
        found = [model for model in self.all if name in (model.name, model.group)]
        if not found:
            known = [*dict.fromkeys(one for model in self.all for one in (model.name, model.group)), *OPENAI]
            raise unknown(404, "model", name, known)
        return found

    async def of_kind(self, name: str | None, kind: str, prefer: str | None = None) -> ServedModel:
        """A ready model that speaks with this kind of voice, `prefer` if it is among them; loads it if necessary."""

        def rank(model: ServedModel) -> tuple[bool, bool, bool]:
            return prefer not in (model.name, model.group), model.kinds is None, model.state != "ready"

        for model in sorted(self.named(name), key=rank):
            if model.kinds is None:
                await self.ready(model)
            if kind in (model.kinds or ()):
                await self.ready(model)
                return model
        can = {"named": "speak with voices of its own", "cloned": "clone", "designed": "design voices"}[kind]
        what = f"model '{name}' cannot" if name else "none of the models can"
        served = ", ".join(model.name for model in self.all)
        raise Problem(400, f"{what} {can}", code="unsupported_task", param="model" if name else "task_type",
                      hint=f"served: {served}")  # fmt: skip

    async def of_tuned(self, name: str | None, voice: Voice) -> ServedModel:
        """A ready model into which a tuned voice is merged. If as many as `--tuned-voices` are loaded, it replaces
        the one that was idle longest."""
        made = voice.about.get("model")
        base = next((model for model in self.named(name) if made in (model.name, model.source)), None)
        if base is None or not self._most_tuned or voice.adapter is None:
            why = f"is tuned for {made}, which is not served" if self._most_tuned else "is tuned; none is served"
            hint = f"omnitts serve -m {made}" if self._most_tuned else "omnitts serve --tuned-voices 2"
            raise Problem(400, f"voice '{voice.name}' {why}", code="unsupported_task", param="voice", hint=hint)
        wanted = (base.source, voice.adapter.sha256)
        found = next((one for one in self.tuned if (one.source, one.voice_sum) == wanted), None)
        if found is None:
            self._make_room(voice)
            found = ServedModel(f"{base.name} with {voice.name}", base.source, base.variant, base.group,
                                frozenset({"cloned"}), voice)  # fmt: skip
            self.tuned.append(found)
        found.active += 1  # so that no other replaces it while it is loaded
        try:
            await self.ready(found)
        finally:
            found.active -= 1
            if found.state == "failed":
                self.tuned.remove(found)
        return found

    def _make_room(self, voice: Voice) -> None:
        """Room for one more tuned voice, or 503."""
        while len(self.tuned) >= self._most_tuned:
            idle = min((one for one in self.tuned if not one.active), key=lambda model: model.used, default=None)
            if idle is None:
                raise busy(f"{len(self.tuned)} other tuned voices are in use", "model_busy", 5)
            self._tell(f"unloading {idle.name} to make room for {voice.name}")
            self.close(idle)

    async def ready(self, model: ServedModel) -> TTS:
        """The open model. Several requests for one that is not loaded wait for one loading, which goes on when they
        leave: its thread cannot be stopped.
        """
        tts = model.tts
        if tts is not None and model.state == "ready" and tts.engine.broken is None:
            return tts
        loading = model.loading
        if loading is None:
            loading = model.loading = asyncio.create_task(self._opened(model))
            loading.add_done_callback(partial(forget, model))
        await asyncio.wait({loading})
        return loading.result()

    async def preload(self, which: str) -> None:
        """Loads none of the models, the first, or all."""
        for model in {"none": [], "first": self.all[:1], "all": self.all}[which]:
            await self.ready(model)
        self.warm = True

    async def _opened(self, model: ServedModel) -> TTS:
        if model.tts is not None:
            self.close(model)  # a new engine, once the old one's requests have failed
            self.tuned += [model] if model.voice is not None else []
        async with self._opening:
            return await self._open(model)

    async def _open(self, model: ServedModel) -> TTS:
        model.state, model.error = "loading", None
        while True:
            try:
                model.tts = await asyncio.to_thread(self._load_and_warm, model)
                break
            except DeviceError as error:
                idle = self._idlest(model)
                if idle is None:
                    model.state, model.error = "failed", error
                    if self.loaded:
                        message = f"{model.name} does not fit beside the loaded models, which are busy"
                        raise busy(message, "model_busy", 5) from None
                    raise
                self._tell(f"unloading {idle.name} to make room for {model.name}")
                self.close(idle)
            except OmniError as error:
                model.state, model.error = "failed", error
                raise
            except BaseException:
                model.state = "failed"
                raise
        model.kinds = model.speech.kinds
        model.tts.engine.after_step = self._hub.flush
        model.live = asyncio.Semaphore(max(1, model.tts.engine.plan.slots - 1))
        model.state, model.used = "ready", time.monotonic()
        gc.collect()
        gc.freeze()
        return model.tts

    def _load_and_warm(self, model: ServedModel) -> TTS:
        tts = self._load(model)
        try:
            warm_up(tts)
        except BaseException:
            tts.close()
            raise
        return tts

    def _idlest(self, but: ServedModel) -> ServedModel | None:
        idle = [model for model in self.loaded if model is not but and not model.active]
        return min(idle, key=lambda model: model.used, default=None)

    def unload_idle(self, after_s: float) -> None:
        """Closes models that have not been used for a while."""
        for model in self.loaded:
            if not model.active and not self._opening.locked() and time.monotonic() - model.used > after_s:
                self._tell(f"unloading {model.name}: idle for {after_s:g} s")
                self.close(model)

    def end(self) -> None:
        """Closes all models and stops waiting for those that are being loaded."""
        for model in (*self.all, *self.tuned):
            if model.loading is not None:
                model.loading.cancel()
            if model.tts is not None:
                self.close(model)

    def close(self, model: ServedModel) -> None:
        """Closes one model and gives its memory back."""
        tts, model.tts, model.state = model.tts, None, "unloaded"
        if model in self.tuned:
            self.tuned.remove(model)
        if tts is not None:
            tts.close()
            tts.engine.device.synchronize()
        del tts
        gc.unfreeze()
        gc.collect()


def forget(model: ServedModel, loading: asyncio.Task[TTS]) -> None:
    """Clears a load that has ended. Its error is read here, as asyncio reports errors that no request has read."""
    model.loading = None
    if not loading.cancelled():
        loading.exception()


def load(engines: Engines, settings: Mapping[str, Any], tell: Callable[[Notice], None], model: ServedModel) -> TTS:
    """Opens a model in the process of the engines, and notes what `--via` asks about it."""
    found = engines.open(model.source, variant=model.variant, voice=model.voice, tell=tell, **settings)
    introduce(model, found, settings.get("device", "auto"), settings.get("dtype", "auto"))
    return found


def introduce(model: ServedModel, tts: TTS, device: str, dtype: str) -> None:
    """Notes what `--via` asks about an open model, in a thread: the checksums of large weights take seconds, once."""

    def work() -> None:
        try:
            model.card = servers.card(tts, model.source, model.variant, device=device, dtype=dtype)
        except OmniError:  # without it, --via does not use this server
            model.card = None

    threading.Thread(target=work, name="omnitts card", daemon=True).start()


def warm_up(tts: TTS) -> None:
    """Speaks a few frames with each kind of voice, so that the first request does not pay for it."""
    model = tts.engine.model
    identities: dict[str, Named | Cloned | Designed] = {
        "named": Named(next(iter(model.speakers), "")),
        "cloned": Cloned(np.zeros(model.facts.hidden, np.float32)),
        "designed": Designed("warm"),
    }
    quiet: Callable[[Notice], None] = lambda notice: None  # noqa: E731
    for kind in sorted(model.kinds):
        script = Written(iter([Piece("Ready.", 0, 6)]), 6)
        speech = Speech(seed=1, max_frames=WARM_UP_FRAMES, retries=0)
        for _ in tts.open(script, Voice(identities[kind], "warm"), TextIn(), speech, safe=False, tell=quiet):
            pass
