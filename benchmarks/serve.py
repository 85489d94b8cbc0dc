"""The server over loopback HTTP beside its own engine, on one load of the model.

    python benchmarks/serve.py -m random:1.7b-customvoice
    python benchmarks/serve.py -m random:toy -d cpu --seconds 5

Each request is 50 frames of raw samples, streamed. `first` is the time from sending a request to the first sample byte
after the headers. The clients are processes of their own with connections that stay open. The engine's own throughput
is measured in its process before the server uses it. Rows go to --append as JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
import served_engine
from served_engine import KEPT, TEXTS

PERCENTILES = (50, 95, 99)
IDLE_S = 3.0


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-m", "--model", default="random:1.7b-customvoice")
    parser.add_argument("--others", default="", help="one that clones, one that designs: for the mixed run")
    parser.add_argument("-d", "--device", default="auto")
    parser.add_argument("--slots", type=int, default=64)
    parser.add_argument("--frames", type=int, default=50)
    parser.add_argument("--rates", default="1,10,20", help="requests a second, arriving at random")
    parser.add_argument("--seconds", type=float, default=60.0, help="of each rate")
    parser.add_argument("--throughput-seconds", type=float, default=10.0)
    parser.add_argument("--until", type=float, default=1e9, help="seconds of this process after which nothing begins")
    parser.add_argument("--append", help="file of rows")
    parser.add_argument("--clients", type=int, default=1, help="processes that share the streams of a closed loop")
    parser.add_argument("--levels", default="64", help="streams of the closed loops")
    parser.add_argument("--one-process", action="store_true", help="engine and HTTP in one process, as before")
    parser.add_argument(
        "--paced", help="FRAME_MS,PREFILL_MS,HOST_MS,CALLS,GATHER: an engine of served_engine.py instead of a model"
    )
    parser.add_argument("--client", help=argparse.SUPPRESS)
    return parser.parse_args()


# ---- the client, a process of its own


class Connection:
    """One HTTP connection that stays open; the least code that reads chunks, so that the client is not what is slow."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, arrived: list[Any]) -> None:
        self.reader, self.writer, self.arrived, self.used = reader, writer, arrived, 0.0

    async def speak(self, body: bytes) -> tuple[float, float, int]:
        """Seconds to the first sample byte, seconds in all, bytes of samples."""
        head = b"POST /v1/audio/speech HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        began = time.perf_counter()
        self.writer.write(head + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        answer = await self.reader.readuntil(b"\r\n\r\n")
        if b" 200 " not in answer.split(b"\r\n", 1)[0]:
            raise RuntimeError((answer + await self.reader.read(1000)).decode(errors="replace"))
        first, count = 0.0, 0
        while size := int(await self.reader.readline(), 16):
            await self.reader.readexactly(1)
            first = first or time.perf_counter() - began
            await self.reader.readexactly(size + 1)
            count += size
            self.arrived.append((time.perf_counter(), size))
        await self.reader.readexactly(2)
        return first, time.perf_counter() - began, count


class Client:
    """Requests to one server."""

    def __init__(self, port: int, frames: int) -> None:
        self._port, self._frames, self._number = port, frames, 0
        self._free: list[Connection] = []
        self.rows: list[tuple[float, float, int]] = []  # seconds to the first byte, seconds in all, bytes
        self.arrived: list[tuple[float, int]] = []  # when, bytes
        self.late: list[float] = []

    def body(self, task: dict[str, Any]) -> bytes:
        self._number += 1
        fields = {
            "input": TEXTS[self._number % len(TEXTS)],
            "language": "English",
            "seed": self._number,
            "response_format": "pcm",
            "stream": True,
            "stream_format": "audio",
            "ignore_eos": True,
            "max_new_tokens": self._frames,
        }
        return json.dumps({**fields, **task}).encode()

    async def one(self, task: dict[str, Any]) -> None:
        if self._free and time.perf_counter() - self._free[-1].used < IDLE_S:
            connection = self._free.pop()
        else:  # the server closes connections that are idle
            connection = Connection(*await asyncio.open_connection("127.0.0.1", self._port), self.arrived)
        row = await connection.speak(self.body(task))
        connection.used = time.perf_counter()
        self._free.append(connection)
        self.rows.append(row)

    async def closed(self, streams: int, seconds: float, tasks: list[dict[str, Any]]) -> dict[str, float]:
        """So many at a time; the sound that arrived in the last 70 % of the time, per second."""
        until = time.perf_counter() + seconds

        async def stream(number: int) -> None:
            while time.perf_counter() < until:
                await self.one(tasks[number % len(tasks)])

        await asyncio.gather(*(stream(number) for number in range(streams)))
        since = until - seconds * KEPT
        kept = sum(size for at, size in self.arrived if since <= at < until)
        return {"requests": len(self.rows), "bytes_per_s": kept / (until - since), "cpu_s": time.process_time()}

    async def poisson(self, rate: float, seconds: float, task: dict[str, Any]) -> dict[str, Any]:
        """An open loop: requests arrive at random, whether or not earlier ones have ended."""
        rng = np.random.default_rng(int(rate * 1000))
        self.rows.clear()
        self.late.clear()
        began, at, running = time.perf_counter(), 0.0, []
        while (at := at + rng.exponential(1 / rate)) < seconds:
            if (wait := began + at - time.perf_counter()) > 0:
                await asyncio.sleep(wait)
            self.late.append(time.perf_counter() - began - at)
            running.append(asyncio.create_task(self.one(task)))
        await asyncio.gather(*running)
        first = [1000 * row[0] for row in self.rows]
        found = {f"first_ms_p{p}": round(float(np.percentile(first, p)), 2) for p in PERCENTILES}
        return {"rate": rate, "seconds": seconds, "requests": len(first), **found,
                "late_ms_p95": round(1000 * float(np.percentile(self.late, 95)), 2)}  # fmt: skip


async def client(order: dict[str, Any]) -> dict[str, Any]:
    """What the measuring process asks for, as JSON on the command line."""
    with_tasks = Client(order["port"], order["frames"])
    await asyncio.sleep(max(0.0, order["begin"] - time.time()))
    kind = order["kind"]
    if kind == "closed":
        return await with_tasks.closed(order["streams"], order["seconds"], order["tasks"])
    await with_tasks.closed(2, 1.0, order["tasks"])  # open connections
    return await with_tasks.poisson(order["rate"], order["seconds"], order["tasks"][0])


# ---- the server


class Bench:
    """A server in a thread, and what is measured of it."""

    def __init__(self, options: argparse.Namespace) -> None:
        from omnitts_cli.server import listen, run, worker
        from omnitts_cli.server.engines import Engines
        from omnitts_cli.server.guard import Guard
        from omnitts_cli.server.models import planned
        from omnitts_cli.settings.commands import Serving

        self.options, self.began = options, time.perf_counter()
        names = [options.model, *filter(None, options.others.split(","))]
        serving = Serving(model=tuple(names), port=0, socket="off", idle_unload="off")
        sockets = [listen.tcp("127.0.0.1", 0)]
        self.port = sockets[0].getsockname()[1]
        ready = threading.Event()

        self.engines, self.own = Engines(), dict[int, dict[str, float]]()
        levels = [int(level) for level in options.levels.split(",")]

        def tell(notice: Any) -> None:
            found = json.loads(str(notice))
            self.own[found["streams"]] = found
            self.row({"what": "engine", **found})

        def load(model: Any) -> Any:
            first = model.name == options.model
            opener = (
                served_engine.load if options.one_process else partial(self.engines.open, opener=served_engine.load)
            )
            return opener(
                model.source, tell=tell, paced=options.paced, slots=options.slots, frames=options.frames,
                levels=levels if first else [], seconds=options.throughput_seconds, variant=model.variant,
                device=options.device,
            )  # fmt: skip

        guard = Guard.of(serving, {})
        self.server = run.HttpServer(serving, guard, planned(names), load, sockets, ready.set, self.log)
        self.loop: Any = None

        def target() -> None:
            sys.setswitchinterval(worker.SWITCH_S)
            self.loop = (run.loop_factory() or asyncio.new_event_loop)()
            asyncio.set_event_loop(self.loop)
            self.loop.run_until_complete(self.server.serve())

        self.thread = threading.Thread(target=target, name="http", daemon=True)
        self.thread.start()
        while not ready.wait(0.2):
            assert self.thread.is_alive(), "the server has not started"
        self.row({"what": "loaded", "seconds": round(time.perf_counter() - self.began, 1)})

    def log(self, line: str) -> None:
        """Failures only: a line for each request costs time."""
        if " 200 " not in line:
            print(line, file=sys.stderr)

    def row(self, values: dict[str, Any]) -> None:
        rows = {"model": self.options.model, "at_s": round(time.perf_counter() - self.began, 1), **values}
        print(json.dumps(rows), flush=True)
        if self.options.append:
            with open(self.options.append, "a", encoding="utf-8") as file:
                file.write(json.dumps(rows) + "\n")

    def left(self) -> float:
        """Seconds in which something may still begin."""
        return self.options.until - (time.perf_counter() - self.began)

    def asks(self, clients: int, streams: int = 0, **order: Any) -> list[dict[str, Any]]:
        """The results of client processes, which share the streams and begin together."""
        begin = time.time() + 0.4 + 0.1 * clients
        running = []
        for number in range(clients):
            share = streams // clients + (number < streams % clients)
            given = {"port": self.port, "frames": self.options.frames, "begin": begin, "streams": share, **order}
            command = [sys.executable, __file__, "--client", json.dumps(given)]
            running.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
        found = []
        for one in running:
            out, errors = one.communicate()
            if one.returncode:
                raise RuntimeError(errors[-2000:])
            found.append(json.loads(out))
        return found

    def ask(self, **order: Any) -> dict[str, Any]:
        """The result of one client process."""
        return self.asks(1, **order)[0]

    def http(self, streams: int, seconds: float, tasks: list[dict[str, Any]]) -> float:
        """The same over HTTP."""
        tts = self.server.state.models.all[0].tts
        assert tts is not None
        before = self.processor_s()
        parts = self.asks(
            min(self.options.clients, streams), kind="closed", streams=streams, seconds=seconds, tasks=tasks
        )
        self.busy = {
            name: round((now - before.get(name, 0.0)) / seconds, 3) for name, now in self.processor_s().items()
        }
        self.busy["clients"] = round(sum(part["cpu_s"] for part in parts) / seconds, 3)
        return sum(float(part["bytes_per_s"]) for part in parts) / 2 / tts.sample_rate

    def processor_s(self) -> dict[str, float]:
        """Processor time so far of the threads of this process, by name, and of the engines' process, by number."""
        found: dict[str, float] = {}
        for thread in threading.enumerate():
            if thread.ident is not None and thread is not threading.main_thread():
                used = time.clock_gettime(time.pthread_getcpuclockid(thread.ident))
                found[thread.name] = found.get(thread.name, 0.0) + used
        if self.engines.pid is not None:
            for number, task in enumerate(sorted(Path(f"/proc/{self.engines.pid}/task").iterdir())):
                fields = (task / "stat").read_text().rpartition(")")[2].split()
                found[f"engines {number}"] = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        return found

    def close(self) -> None:
        self.loop.call_soon_threadsafe(self.server.stop)
        self.thread.join(20)
        self.engines.close()


def main() -> None:
    options = arguments()
    if options.client:
        print(json.dumps(asyncio.run(client(json.loads(options.client)))))
        return
    bench = Bench(options)
    plain: list[dict[str, Any]] = [{}]
    seconds = options.throughput_seconds
    for streams, own in bench.own.items():
        bench.http(streams, 2.0, plain)  # not counted
        over = bench.http(streams, seconds, plain)
        bench.row({"what": "throughput", **own, "http_audio_s_per_s": round(over, 1), "processor": bench.busy,
                   "share": round(over / own["engine_audio_s_per_s"], 3),
                   "share_of_all_at_once": round(over / own["all_at_once_audio_s_per_s"], 3),
                   "one_process": options.one_process, "clients": min(options.clients, streams)})  # fmt: skip
    rates = [float(rate) for rate in options.rates.split(",")]
    for rate in [rate for rate in rates if rate > 1]:
        arrivals(bench, rate)
    mixed(bench, min(16, options.slots), seconds)
    for rate in [rate for rate in rates if rate <= 1]:
        arrivals(bench, rate)
    bench.close()


def arrivals(bench: Bench, rate: float) -> None:
    """The first packet at so many requests a second; shorter if the time is running out."""
    seconds = min(bench.options.seconds, bench.left())
    if seconds >= 5:
        bench.row({"what": "first packet", **bench.ask(kind="poisson", rate=rate, seconds=seconds, tasks=[{}])})


def mixed(bench: Bench, streams: int, seconds: float) -> None:
    """One model, then all of them with a task each, then one again while the others are loaded."""
    models = bench.server.state.models.all
    if len(models) < 2 or bench.left() < 3 * seconds:
        return
    tasks: list[dict[str, Any]] = [{"model": models[0].name}]
    alone = bench.http(streams, seconds, tasks)
    kinds = ({"task_type": "Base", "voice": "benchmark"}, {"task_type": "VoiceDesign", "instructions": "a calm voice"})
    tasks += [{"model": model.name, **kind} for model, kind in zip(models[1:], kinds, strict=False)]
    saved_vector(bench, "benchmark")
    bench.http(len(tasks), 0.5, tasks)  # loads them
    bench.row({"what": "three models loaded"})
    together = bench.http(streams, seconds, tasks)
    again = bench.http(streams, seconds, tasks[:1])
    bench.row({"what": "mixed", "streams": streams, "models": len(models), "one_audio_s_per_s": round(alone, 1),
               "mixed_audio_s_per_s": round(together, 1), "one_again_audio_s_per_s": round(again, 1),
               "share": round(together / alone, 3)})  # fmt: skip


def saved_vector(bench: Bench, name: str) -> None:
    """A voice of zeros, which any model that clones can speak, in the server's memory."""
    from omnitts_cli.server.voices import Saved
    from omnitts_cli.speech.voices import Voice
    from omnitts_cli.voices import Cloned

    tts = bench.server.state.models.all[0].tts
    assert tts is not None
    voice = Voice(Cloned(np.zeros(tts.engine.model.facts.hidden, np.float32)), name)

    class One(Saved):
        def names(self) -> list[str]:
            return [name]

        def load(self, name: str) -> Voice:
            return voice

    bench.server.state.saved = One()


if __name__ == "__main__":
    main()
