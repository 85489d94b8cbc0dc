"""`omnitts batch` in a process that dies or fails at the n-th operation on a file or an object.

batch_child.py LOG PLAN arguments ...   where PLAN is JSON: {"at": 7, "op": "fsync"|"any", "how": "kill"|"half"|"EIO"}
With "op": "object", only operations on objects of a store count.
Every finished row is added to LOG, so that a test can count how often rows were made.
"""

import errno
import json
import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from omnitts_cli.fleet import disk
from omnitts_cli.fleet.bucket import Bucket
from omnitts_cli.fleet.speaker import RowSpeaker
from omnitts_cli.fleet.store import Made

OPERATIONS = ("open_file", "write", "fsync", "rename")
OBJECTS = ("put", "put_new", "put_files", "get", "sizes", "remove")
NUMBERS = {"EIO": errno.EIO, "ENOSPC": errno.ENOSPC}


class Fault:
    """Counts operations and strikes at one of them."""

    def __init__(self, at: int, op: str, how: str) -> None:
        self.at, self.op, self.how, self.count = at, op, how, 0
        self._lock = threading.Lock()

    def over(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def called(*arguments: Any) -> Any:
            with self._lock:
                counts = self.op in ("any", name) or (self.op == "object" and name in OBJECTS)
                self.count += counts
                strikes = counts and self.count == self.at
            if strikes and self.how == "half" and name in ("write", "put_files", "remove"):
                real(arguments[0], arguments[1][: len(arguments[1]) // 2])
            if strikes and self.how in ("kill", "half"):
                os.kill(os.getpid(), signal.SIGKILL)
            if strikes:
                raise OSError(NUMBERS[self.how], os.strerror(NUMBERS[self.how]), "a file")
            return real(*arguments)

        return called


def count_rows(log: Path) -> None:
    """Adds the id of every finished row to the log."""
    finished = RowSpeaker._finished

    def noted(self: RowSpeaker, made: Made, *rest: Any) -> Made:
        descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.write(descriptor, f"{made.id}\n".encode())
        os.close(descriptor)
        return finished(self, made, *rest)

    RowSpeaker._finished = noted  # type: ignore[method-assign]


def main() -> None:
    log, plan, *arguments = sys.argv[1:]
    count_rows(Path(log))
    wanted = json.loads(plan)
    if wanted:
        fault = Fault(**wanted)
        for name in OPERATIONS:
            setattr(disk, name, fault.over(name, getattr(disk, name)))
        for name in OBJECTS:
            setattr(Bucket, name, fault.over(name, getattr(Bucket, name)))
    from omnitts_cli.cli.app import run
    from omnitts_cli.settings import environment

    environment.before_torch()
    raise SystemExit(run(arguments))


if __name__ == "__main__":
    main()
