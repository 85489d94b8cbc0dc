"""Run one `omnitts say` under a line tracer, and tell what a reader of the code has to walk through.

    python tests/support/tracer.py [ROOT]

ROOT is the folder that holds `omnitts_cli`, this checkout if it is not given. The command speaks one word with the
embedded voice on a CPU, in every other way as by default, with the C library. There are two walks:

- *open*: from the model's name to an engine, which is everything that runs between the call of `speech/tts.py:load` and
  its return, in any thread;
- *say*: everything else, from `main` until the sink has written the first sound.

For each walk it prints as JSON, by file, how many of its lines ran: distinct lines inside functions. A switch is a call
from a line in one file to a function in another, counted once however often it is made; calls through other packages
and the start of a thread count too. What runs while a module is imported (definitions, class bodies, the functions that
they call) does not count, nor does the thread that draws the progress line: how often it runs depends on how busy the
machine is.

Seed, clock and threads are the same in every run, or the counts would be a matter of chance: the clock advances by 1 ms
whenever a thread reads it, and the engine goes on only when the command waits for the next chunk.
"""

import json
import os
import secrets
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

FUNCTION = 1  # the code flag CO_OPTIMIZED: a function's body, unlike that of a class or a module
OPENS = ("speech/tts.py", "load")
WRITES = ("audio/sinks.py", "FileSink.write")
WAITS = ("speech/speaking.py", "Stream.complete")
ENGINE, HANDS_OVER = ("speech/loop.py", "Loop._run"), ("speech/loop.py", "Loop._deliver")

Place = tuple[str, int | str]
"""A file, and a line in it or the name of a function."""


@dataclass
class Walk:
    """The lines that ran in each file, and the calls from file to file."""

    lines: dict[str, set[int]] = field(default_factory=dict)
    switches: set[tuple[Place, Place]] = field(default_factory=set)

    def shown(self) -> dict[str, Any]:
        """Returns plain values for JSON."""
        return {
            "lines": {file: len(ran) for file, ran in sorted(self.lines.items())},
            "switches": sorted((caller[0], called[0]) for caller, called in self.switches),
        }


class Tracer:
    """Traces all threads. `done` gets both walks when the first sound is written."""

    def __init__(self, root: Path, done: Callable[[dict[str, Any]], None]) -> None:
        self._package = f"{root / 'omnitts_cli'}{os.sep}"
        self._done = done
        self._walks = {"say": Walk(), "open": Walk()}
        self._walk = self._walks["say"]
        self._thread = threading.local()
        self._waits = threading.Semaphore(0)
        self._at_entry = {OPENS: lambda: self._walk_on("open"), WAITS: self._waits.release, ENGINE: self._waits.acquire}
        self._at_return = {OPENS: lambda: self._walk_on("say"), HANDS_OVER: self._waits.acquire, WRITES: self._finish}

    def start(self) -> None:
        """From now on, in this thread and in new ones."""
        time.perf_counter = self._now
        secrets.randbits = lambda bits: 1
        threading.settrace(self._entered_in_a_thread)
        sys.settrace(self._entered)

    def _entered_in_a_thread(self, frame: FrameType, event: str, argument: Any) -> Any:
        drawing = threading.current_thread().name == "omnitts progress"
        return None if drawing else self._entered(frame, event, argument)

    def _now(self) -> float:
        self._thread.now = getattr(self._thread, "now", 0.0) + 0.001
        return self._thread.now

    def _entered(self, frame: FrameType, event: str, argument: Any) -> Any:
        code = frame.f_code
        if not code.co_filename.startswith(self._package):
            return None
        if not code.co_flags & FUNCTION:
            return self._import(frame) if code.co_name == "<module>" else None
        if getattr(self._thread, "importing", 0):
            return None
        file = code.co_filename.removeprefix(self._package)
        place = (file, code.co_qualname)
        self._at_entry.get(place, int)()
        caller = self._caller(frame)
        if caller[0] != file:
            self._walk.switches.add((caller, place))
        self._walk.lines.setdefault(file, set())

        def line(frame: FrameType, event: str, argument: Any) -> Any:
            if event == "line":
                self._walk.lines.setdefault(file, set()).add(frame.f_lineno)
            elif event == "return":
                self._at_return.get(place, int)()
            return line

        return line

    def _walk_on(self, name: str) -> None:
        self._walk = self._walks[name]

    def _finish(self) -> None:
        sys.settrace(None)
        self._done({name: walk.shown() for name, walk in self._walks.items()})

    def _import(self, frame: FrameType) -> Any:
        """Nothing counts in this thread until the module has been imported."""
        self._thread.importing = getattr(self._thread, "importing", 0) + 1

        def line(frame: FrameType, event: str, argument: Any) -> Any:
            if event == "return":
                self._thread.importing -= 1
            return line

        frame.f_trace_lines = False
        return line

    def _caller(self, frame: FrameType) -> Place:
        """The nearest line of the package that led here; ("", 0) at the start of a thread."""
        above = frame.f_back
        while above is not None and not above.f_code.co_filename.startswith(self._package):
            above = above.f_back
        return (above.f_code.co_filename.removeprefix(self._package), above.f_lineno) if above else ("", 0)


def main() -> None:
    root = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parents[2]).resolve()
    sys.path.insert(0, str(root))

    def done(walks: dict[str, Any]) -> None:
        os.write(report, json.dumps(walks).encode())
        os._exit(0)

    report = os.dup(1)  # the command keeps descriptor 1 for sound
    with tempfile.TemporaryDirectory() as folder:
        sys.argv = ["omnitts", "say", "Hello", "-d", "cpu", "-o", f"{folder}/a.wav"]
        from omnitts_cli.__main__ import main

        Tracer(root, done).start()
        main()


if __name__ == "__main__":
    main()
