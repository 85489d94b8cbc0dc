"""Metrics of the server, in the text format of Prometheus."""

from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest

TIMES = (0.005, 0.01, 0.015, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.25, 0.5, 1, 2.5, 5, 10, 30)
FACTORS = (0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.2, 0.3, 0.5, 0.75, 1, 2, 5)


class Metrics:
    """One registry for each server."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        self.requests = Counter(
            "omnitts_requests", "Requests for speech.", ["model", "task", "outcome"], registry=registry
        )
        self.queue_depth = Gauge("omnitts_queue_depth", "Requests that wait for a slot.", registry=registry)
        self.slots = Gauge("omnitts_slots", "Slots of the loaded models.", ["state"], registry=registry)
        self.audio = Counter("omnitts_audio_seconds", "Seconds of speech generated.", registry=registry)
        self.queue = Histogram(
            "omnitts_queue_seconds", "Seconds from the request to its slot.", buckets=TIMES, registry=registry
        )
        self.first_sound = Histogram(
            "omnitts_first_sound_seconds",
            "Seconds from the request to its first sound.",
            buckets=TIMES,
            registry=registry,
        )
        self.rtf = Histogram(
            "omnitts_rtf", "Time of a request divided by the length of its speech.", buckets=FACTORS, registry=registry
        )
        self.guard_hits = Counter(
            "omnitts_guard_hits", "Sentences that never ended or stayed silent.", registry=registry
        )
        self.cancelled = Counter(
            "omnitts_cancelled", "Requests cancelled before their end.", ["why"], registry=registry
        )
        self.buffer_bytes = Gauge(
            "omnitts_buffer_bytes", "Bytes of sound that clients have not read yet.", registry=registry
        )
        self.model_loaded = Gauge("omnitts_model_loaded", "1 if the model is loaded.", ["model"], registry=registry)

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
