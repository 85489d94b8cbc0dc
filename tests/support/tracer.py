"""Run one `omnitts say` under a line tracer, and list the project's files that were entered before the first frame.

    python tests/support/tracer.py [ROOT]

ROOT is the folder that holds `omnitts_cli`, this checkout if it is not given. A file counts when one of its functions
was called, in any thread, between `main` and the first call of `engine/frame.py:frame`. Its lines are the distinct
lines that ran inside functions. What runs while a module is imported (definitions, class bodies) does not count, nor
does the thread that draws the progress line: how often it runs depends on how busy the machine is.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

FUNCTION = 1  # the code flag CO_OPTIMIZED: a function's body, unlike that of a class or a module


def trace(root: Path, done: Callable[[dict[str, int]], None]) -> None:
    """Calls `done` with the lines that ran in each file of the package, when the first frame begins."""
    package = f"{root / 'omnitts_cli'}{os.sep}"
    lines: dict[str, set[int]] = {}

    def entered(frame: FrameType, event: str, argument: Any) -> Any:
        code = frame.f_code
        if not code.co_filename.startswith(package) or not code.co_flags & FUNCTION:
            return None
        file = code.co_filename.removeprefix(package)
        if (file, code.co_name) == ("engine/frame.py", "frame"):
            sys.settrace(None)
            done({name: len(ran) for name, ran in sorted(lines.items())})
        ran = lines.setdefault(file, set())

        def line(frame: FrameType, event: str, argument: Any) -> Any:
            if event == "line":
                ran.add(frame.f_lineno)
            return line

        return line

    def entered_in_a_thread(frame: FrameType, event: str, argument: Any) -> Any:
        drawing = threading.current_thread().name == "omnitts progress"
        return None if drawing else entered(frame, event, argument)

    threading.settrace(entered_in_a_thread)
    sys.settrace(entered)


def main() -> None:
    root = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parents[2]).resolve()
    sys.path.insert(0, str(root))

    def done(lines: dict[str, int]) -> None:
        os.write(report, json.dumps(lines).encode())
        os._exit(0)

    report = os.dup(1)  # the command keeps descriptor 1 for sound
    with tempfile.TemporaryDirectory() as folder:
        sys.argv = ["omnitts", "say", "Hello", "-o", f"{folder}/a.wav"]
        from omnitts_cli.__main__ import main

        trace(root, done)
        main()


if __name__ == "__main__":
    main()
