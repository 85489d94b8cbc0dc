"""`omnitts bench --quality`: how much weights in 8 bits change what a model says, measured with the user's own weights.

The model speaks sentences in float32. Then it is made to say the same codes in float32 and in 8 bits, and the
distributions that each code would be drawn from are compared.
"""

import gc
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from omnitts_cli.audio.chunk import Clip
from omnitts_cli.bench import workload
from omnitts_cli.errors import Notice, UsageError
from omnitts_cli.models.forced import divergence, forced
from omnitts_cli.request import Failed, Request
from omnitts_cli.settings.engine import EngineSettings
from omnitts_cli.speech import load
from omnitts_cli.voices import Designed, Named, Voice

FRAMES = 40  # of a sentence
VOICE = "a calm, low voice"  # for a model that has no named ones


@dataclass(frozen=True)
class Divergence:
    """Of the distributions of one network."""

    kl_nats: float
    same_top_percent: float


@dataclass(frozen=True)
class Quality:
    """8 bits against float32. The talker draws the first code of a frame, the predictor the others."""

    model: str
    sentences: int
    frames: int
    talker: Divergence
    predictor: Divergence

    def lines(self) -> list[str]:
        """For people."""
        spoken = f"{self.sentences} sentence{'s' * (self.sentences != 1)}, {self.frames} frames"
        about = f"{self.model} in 8 bits against float32: {spoken}"
        return [
            about,
            *(
                f"{name}: KL {change.kl_nats:.4f} nats, the same likeliest code in {change.same_top_percent:.1f} %"
                for name, change in (("talker", self.talker), ("predictor", self.predictor))
            ),
        ]

    def record(self) -> dict[str, Any]:
        """For a file."""
        return {"schema": 1, "benchmark": "quality", **asdict(self)}


def voice_of(model: Any) -> Voice:
    """A voice that the model has without a clip."""
    if model.speakers:
        return Named(sorted(model.speakers)[0])
    if "designed" in model.kinds:
        return Designed(VOICE)
    raise UsageError(f"{model.name} speaks with cloned voices only", hint="-m 0.6b   or   -m 1.7b")


def requests(model: Any, count: int, seed: int) -> list[Request]:
    """Texts in the languages that the model speaks, one language after the other; then again with other seeds."""
    spoken = sorted(set(workload.languages()) & set(model.languages), key=lambda name: name != "english")
    texts = workload.requests(workload.sample_texts(spoken, "mix"), model)
    voice = voice_of(model)
    chosen = (texts[number % len(texts)] for number in range(count))
    return [
        Request(text.words, voice, text.language, seed=seed + number, max_frames=FRAMES, id=f"s{number}")
        for number, text in enumerate(chosen)
    ]


def measured(
    name: str,
    count: int,
    seed: int,
    machine: Mapping[str, Any],
    report: Callable[[float, str], None] = lambda done, words: None,
    tell: Callable[[Notice], None] = lambda notice: None,
) -> Quality:
    """Loads the model twice, in float32 and in 8 bits, one after the other. `machine`: fields of EngineSettings."""
    import torch

    where = machine.get("device", "auto")
    known = {**machine, "device": "cpu" if where == "auto" else where, "exact": False}
    full, eight = (EngineSettings.of({**known, "dtype": dtype}, "bench") for dtype in ("fp32", "q8"))
    load.known_before(name, variant="custom_voice", **{**known, "dtype": "q8"})  # refuses what cannot run in 8 bits
    report(0.0, "speaking in float32")
    device = load.device_for(name, full)
    model = load.load_model(name, device, variant="custom_voice", settings=full, tell=tell)
    engine = load.start(model, device, load.plan_for(model, device, full))
    asked = requests(engine.model, count, seed)
    codes = [torch.from_numpy(one.astype("int64")) for one in spoken(engine, asked)]
    report(0.5, "comparing")
    found = [[forced(engine.model, *pair) for pair in zip(asked, codes, strict=True)]]
    title = model.name
    del engine, model
    gc.collect()
    model = load.load_model(name, device, variant="custom_voice", settings=eight, tell=tell)
    found.append([forced(model, *pair) for pair in zip(asked, codes, strict=True)])
    parts = ([torch.cat([one[part] for one in logits]) for logits in found] for part in (0, 1))
    talker, predictor = (Divergence(*divergence(*pair)) for pair in parts)
    return Quality(title, len(asked), sum(map(len, codes)), talker, predictor)


def spoken(engine: Any, asked: list[Request]) -> list[Any]:
    """The codes of each request."""
    chunks: dict[str, list[Any]] = {request.id or "": [] for request in asked}
    for news in engine.speak(asked):
        if isinstance(news, Failed):
            raise news.error
        chunks[news.request].append(news)
    return [Clip.join(chunks[request.id or ""]).codes for request in asked]
