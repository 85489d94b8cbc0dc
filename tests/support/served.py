"""Servers for tests: on a thread of this process, with limits of their own, or the command in a process of its own."""

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from patience import LONG_S
from serving import start

from omnitts_cli.server import body, protocol, run
from omnitts_cli.server.guard import digest
from omnitts_cli.speech import voice_files

MODEL = "random:toy"
FOLDERS: list[Path] = []
"""The folders of voices of the servers in this process: there is one for all, that of the first."""
LIMITS = {
    "header_s": (protocol, "HEADER_S"), "sweep_s": (protocol, "SWEEP_S"), "body_s": (body, "BODY_S"),
    "connections": (protocol, "MOST_CONNECTIONS"), "of_a_peer": (protocol, "MOST_OF_A_PEER"),
}  # fmt: skip
"""Limits that are no options, and where they are kept."""


@dataclass
class Served:
    """A running server, seen from outside."""

    url: str
    voices: Path
    log: Callable[[], str]
    process: int

    @property
    def host(self) -> str:
        """What belongs into the Host header."""
        return urlsplit(self.url).netloc

    @property
    def port(self) -> int:
        return urlsplit(self.url).port or 0

    def files(self) -> list[Path]:
        """Everything in and around the folder of voices."""
        return sorted(path for path in self.voices.parent.rglob("*") if path.is_file() and path.suffix != ".log")

    def descriptors(self) -> int:
        """How many files and sockets its process has open."""
        return len(os.listdir(f"/proc/{self.process}/fd"))

    def threads(self) -> int:
        return len(os.listdir(f"/proc/{self.process}/task"))

    def memory(self) -> int:
        """The resident memory of its process in bytes."""
        pages = int(Path(f"/proc/{self.process}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")


@dataclass
class Inside(Served):
    """A server in this process, whose slots can be counted."""

    server: run.HttpServer

    def engines(self) -> list[Any]:
        return [model.tts.engine.engine for model in self.server.state.models.all if model.tts is not None]

    def live(self) -> int:
        """How many requests the engines hold."""
        return sum(len(engine.snapshot().requests) for engine in self.engines())

    def left(self) -> str:
        """What is under way: the engines, and the calls with what they wait for."""
        calls = [
            f"{call.id}: gone {call.gone}, paused {call.paused}, sending since {call.sending_since}, {call.problem!r}, "
            f"{call.stream and vars(call.stream)}"
            for call in self.server.state.calls
        ]
        return "\n".join([*(str(engine.snapshot()) for engine in self.engines()), *calls])

    def idle(self, limit_s: float = LONG_S) -> bool:
        """Whether no request is left within this time, and all slots are free."""
        end = time.monotonic() + limit_s
        while True:
            free = all(len(engine.snapshot().free) == engine.plan.slots for engine in self.engines())
            if free and not self.live() and not self.server.state.calls:
                return True
            if time.monotonic() >= end:
                return False
            time.sleep(0.01)


@contextmanager
def changed(limits: Mapping[str, float]) -> Iterator[None]:
    """Other values of LIMITS; all servers of this process share them."""
    before = {name: getattr(*LIMITS[name]) for name in limits}
    try:
        for name, value in limits.items():
            setattr(*LIMITS[name], value)
        yield
    finally:
        for name, value in before.items():
            setattr(*LIMITS[name], value)


@contextmanager
def serving(
    folder: Path,
    *,
    model: str = MODEL,
    keys: Mapping[str, str] | None = None,
    limits: Mapping[str, float] | None = None,
    slots: int | None = None,
    **options: Any,
) -> Iterator[Inside]:
    """A server on a thread of this process. `options` are those of `omnitts serve`."""
    voices = next(iter(FOLDERS), folder / "voices")
    FOLDERS.append(voices)
    voices.mkdir(exist_ok=True)
    voice_files.use_folder(str(voices))
    names = {digest(key): name for name, key in (keys or {}).items()}
    engine = {"slots": slots, "patient": True}
    try:
        with (
            changed(limits or {}),
            start((model,), keys=names, engine=engine, voices_dir=str(voices), **options) as running,
        ):
            yield Inside(running.url, voices, lambda: "\n".join(running.lines) + "\n", os.getpid(), running.server)
    finally:
        FOLDERS.pop()
        if not FOLDERS:
            voice_files._chosen.clear()


@contextmanager
def command(folder: Path, *options: str, keys: Mapping[str, str] | None = None) -> Iterator[Served]:
    """`omnitts serve` as a user starts it, in a home of its own. Its log is what it writes to stderr."""
    folder.mkdir(exist_ok=True)
    log, voices = folder / "stderr.log", folder / "voices"
    voices.mkdir(exist_ok=True)
    typed = [sys.executable, "-m", "omnitts_cli", "serve", "-m", MODEL, "--port", "0", "-d", "cpu"]
    typed += ["--voices-dir", str(voices)]
    if keys:
        (folder / "keys.log").write_text("".join(f"{name}:{key}\n" for name, key in keys.items()))
        typed += ["--api-key-file", str(folder / "keys.log")]
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("OMNITTS_", "XDG_"))}
    environment |= {"HOME": str(folder), "OMNITTS_THREADS": "1", "OMP_NUM_THREADS": "1"}
    with log.open("wb") as errors:
        process = subprocess.Popen([*typed, *options], stdout=subprocess.PIPE, stderr=errors, env=environment)
    try:
        assert process.stdout
        line = process.stdout.readline().decode()
        assert re.fullmatch(r"http://\S+\n", line), log.read_text()
        served = Served(line.strip(), voices, lambda: log.read_bytes().decode("utf-8", "surrogateescape"), process.pid)
        end = time.monotonic() + 60
        while "ready" not in served.log():
            assert process.poll() is None and time.monotonic() < end, served.log()
            time.sleep(0.02)
        yield served
    finally:
        process.terminate()
        process.wait(LONG_S)
