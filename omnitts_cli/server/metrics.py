"""Metrics of the server, in the text format of Prometheus."""

from functools import partial
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest

TIMES = (0.005, 0.01, 0.015, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.25, 0.5, 1, 2.5, 5, 10, 30)
FACTORS = (0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.2, 0.3, 0.5, 0.75, 1, 2, 5)


class Metrics:
    """One registry for each server."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        counter, gauge = partial(Counter, registry=registry), partial(Gauge, registry=registry)
        timer = partial(Histogram, buckets=TIMES, registry=registry)
        self.requests = counter("omnitts_requests", "Requests for speech.", ["model", "task", "outcome"])
        self.queue_depth = gauge("omnitts_queue_depth", "Requests that wait for a slot.")
        self.slots = gauge("omnitts_slots", "Slots of the loaded models.", ["state"])
        self.audio = counter("omnitts_audio_seconds", "Seconds of speech generated.")
        self.queue = timer("omnitts_queue_seconds", "Seconds from the request to its slot.")
        self.first_sound = timer("omnitts_first_sound_seconds", "Seconds from the request to its first sound.")
        self.rtf = timer("omnitts_rtf", "Time of a request divided by the length of its speech.", buckets=FACTORS)
        self.guard_hits = counter("omnitts_guard_hits", "Sentences that never ended or stayed silent.")
        self.cancelled = counter("omnitts_cancelled", "Requests cancelled before their end.", ["why"])
        self.buffer_bytes = gauge("omnitts_buffer_bytes", "Bytes of sound that clients have not read yet.")
        self.model_loaded = gauge("omnitts_model_loaded", "1 if the model is loaded.", ["model"])

    def text(self, state: Any) -> bytes:
        """The metrics, with gauges read now."""
        engines = [model.tts.engine for model in state.models.loaded if model.tts]
        slots = sum(engine.plan.slots for engine in engines)
        live = sum(min(engine.running, engine.plan.slots) for engine in engines)
        paused = sum(call.paused for call in state.calls)
        self.queue_depth.set(sum(engine.queued for engine in engines))
        self.slots.labels("live").set(max(0, live - paused))
        self.slots.labels("paused").set(paused)
        self.slots.labels("free").set(max(0, slots - live))
        for model in state.models.all:
            self.model_loaded.labels(model.name).set(float(model.state == "ready"))
        return generate_latest(self.registry)
