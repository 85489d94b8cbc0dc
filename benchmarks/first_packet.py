"""Where the time of a first packet goes: the stages of a request over HTTP, in the client, the server and the engine.

    python benchmarks/first_packet.py -m random:1.7b-customvoice --rates 1,20
    python benchmarks/first_packet.py -m random:toy -d cpu --slots 4 --rates 2 --seconds 5

Takes the options of serve.py. All three processes read the same clock, so each stage is the time since the client began
to send. Each row: a stage, how many requests passed it first at that time, and milliseconds (p50 / p95).
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import numpy as np
import rig
import serve
import served_engine

FILE = "FIRST_PACKET_FILE"  # where the process of the engines writes
STAGES = {
    "called": "the server has read the headers and the body",
    "submitted": "checked, split, and on its way to the engine",
    "arrived": "with the engine",
    "opened": "the engine opens it",
    "prompted": "its prompt is launched",
    "framed": "its first frame is launched",
    "decoding": "its first sound is launched",
    "decoded": "the sound is on the host",
    "left": "on its way to the server",
    "returned": "back at the server",
    "sent": "encoded, and sent",
    "received": "the client has the first sample",
}
Marks = dict[str, dict[str, float]]


def before(owner: Any, method: str, mark: Callable[..., None]) -> None:
    """Calls `mark` with the arguments before the method."""
    plain = getattr(owner, method)

    @wraps(plain)
    def marked(*given: Any, **more: Any) -> Any:
        mark(*given, **more)
        return plain(*given, **more)

    setattr(owner, method, marked)


def after(owner: Any, method: str, mark: Callable[..., None]) -> None:
    """Calls `mark` with the result and the arguments after the method."""
    plain = getattr(owner, method)

    @wraps(plain)
    def marked(*given: Any, **more: Any) -> Any:
        found = plain(*given, **more)
        mark(found, *given)
        return found

    setattr(owner, method, marked)


def note(marks: Marks, name: str, stage: str) -> None:
    """The first time that a request gets so far."""
    marks.setdefault(name, {}).setdefault(stage, time.perf_counter())


# ---- the process of the engines


def load(source: str, **settings: Any) -> Any:
    """The opener of serve.py, of an engine that writes when its requests got how far."""
    from omnitts_cli.engine.admission import Admission
    from omnitts_cli.engine.codec_jobs import CodecJobs
    from omnitts_cli.engine.engine import Engine

    opened = served_engine.load(source, **{**settings, "levels": []})
    marks: Marks = {}
    out = open(os.environ[FILE], "a", encoding="utf-8")

    def framed(launched: bool, engine: Any) -> None:
        for record in engine._admitted:
            if record.launched == 1:
                note(marks, record.id, "framed")

    def decoding(launched: bool, jobs: Any, records: Any, *more: Any) -> None:
        for record in records:
            if record.decoding and record.first_sound is None:
                note(marks, record.id, "decoding")

    def left(news: list[Any], engine: Any) -> None:
        for one in news:
            found = marks.setdefault(one.request, {})
            if "left" not in found:
                note(marks, one.request, "left")
                out.write(json.dumps([one.request, found]) + "\n")
                out.flush()

    before(Engine, "submit", lambda engine, request, **more: note(marks, request.id, "arrived"))
    before(Engine, "_open", lambda engine, record: note(marks, record.id, "opened"))
    after(Admission, "advance", lambda ready, room, records: [note(marks, record.id, "prompted") for record in records])
    after(Engine, "_launch_frame", framed)
    after(CodecJobs, "launch", decoding)
    before(Engine, "_deliver", lambda engine, decoded: note(marks, decoded.record.id, "decoded"))
    after(Engine, "step", left)
    return opened


# ---- the server


class Traced(serve.Bench):
    """The server of serve.py, which knows when its requests got how far."""

    def __init__(self, options: Any) -> None:
        from omnitts_cli.server import speak, speech
        from omnitts_cli.server.engines import ProcessEngine

        self.marks: Marks = {}
        self.calls: dict[str, str] = {}  # by the engine's name of a request
        self.seeds: dict[str, int] = {}
        current: list[Any] = []

        def opening(state: Any, call: Any, asked: Any, *more: Any) -> None:
            current[:] = [call.id]
            self.seeds[call.id] = asked.speech.seed
            self.marks[call.id] = {"called": call.began}

        def submitting(*given: Any, **more: Any) -> None:
            if current:  # else a model warms up
                note(self.marks, current[0], "submitted")

        def submitted(name: str, *given: Any) -> None:
            if current:
                self.calls[name] = current.pop()

        def returned(engine: Any, kind: str, *given: Any) -> None:
            for one in given[1] if kind == "news" else ():
                if one.request in self.calls:
                    note(self.marks, self.calls[one.request], "returned")

        before(speak, "open_stream", opening)
        before(ProcessEngine, "submit", submitting)
        after(ProcessEngine, "submit", submitted)
        before(ProcessEngine, "_take", returned)
        before(speech, "deliver", lambda call, *given, **more: note(self.marks, call.id, "sent"))
        super().__init__(options)

    def stages(self, asked: list[tuple[int, float, float]], file: Path) -> list[dict[str, float]]:
        """Milliseconds since each request was sent, by stage."""
        engine = dict(json.loads(line) for line in file.read_text().splitlines())
        calls = {call: name for name, call in self.calls.items()}
        sent = {seed: (began, first) for seed, began, first in asked}
        rows = []
        for call, seed in self.seeds.items():
            began, first = sent.get(seed, (np.inf, 0.0))
            marks = {**self.marks[call], **engine.get(calls.get(call), {}), "received": first}
            if began <= marks["called"] <= first:  # the warm-up has the same seeds
                rows.append({stage: 1000 * (at - began) for stage, at in marks.items()})
        return rows


# ---- the client


class Client(serve.Client):
    """The client of serve.py, which also returns when each request was sent and answered."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.asked: list[tuple[int, float, float]] = []
        self.seeds = itertools.count(1)

    async def one(self, task: dict[str, Any]) -> None:
        began, seed = time.perf_counter(), next(self.seeds)
        await super().one({**task, "seed": seed})
        self.asked.append((seed, began, began + self.rows[-1][0]))

    async def poisson(self, *given: Any) -> dict[str, Any]:
        self.asked.clear()
        return {**await super().poisson(*given), "asked": self.asked}


def main() -> None:
    options = serve.arguments()
    if options.client:
        serve.Client = Client  # type: ignore[misc]
        print(json.dumps(asyncio.run(serve.client(json.loads(options.client)))))
        return
    # clients are this script, and the process of the engines opens models with the `load` of this module
    serve.__file__, load.__module__ = __file__, "first_packet"
    sys.modules["first_packet"] = serve.served_engine = sys.modules["__main__"]
    options.others = ""
    with tempfile.TemporaryDirectory() as folder:
        os.environ[FILE] = str(file := Path(folder) / "engine.jsonl")
        bench = Traced(options)
        for rate in map(float, options.rates.split(",")):
            found = bench.ask(kind="poisson", rate=rate, seconds=options.seconds, tasks=[{}])
            rows = bench.stages(found.pop("asked"), file)
            bench.row({"what": "first packet", **found})
            rig.table(["stage", "reached by", "p50", "p95 ms"], summary(rows))
        bench.close()


def summary(rows: list[dict[str, float]]) -> list[list[object]]:
    """The time of each stage, in order."""
    found: list[list[object]] = []
    for stage, about in STAGES.items():
        times = [row[stage] for row in rows if stage in row]
        found.append([about, len(times), *(float(np.percentile(times, p)) for p in (50, 95) if times)])
    return found


if __name__ == "__main__":
    main()
