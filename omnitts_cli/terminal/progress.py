"""Progress on stderr: a bar on a terminal, a line every few seconds elsewhere, JSON, or nothing."""

import json
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from types import TracebackType
from typing import Any, Literal

from omnitts_cli.terminal.console import console

Style = Literal["bar", "plain", "json", "none"]

PLAIN_EVERY_S = 10.0
BAR_EVERY_S = 0.1
JSON_EVERY_S = 0.5
LONGEST_BAR = 24


def style(wanted: str) -> Style:
    """The progress style for `--progress`. An explicit choice is kept, except a bar where none can be drawn."""
    if wanted in ("json", "none"):
        return "json" if wanted == "json" else "none"
    if console.quiet or (console.json and wanted == "auto"):
        return "none"
    return "bar" if wanted != "plain" and console.animates() else "plain"


@contextmanager
def ticking(look: Callable[[], None]) -> Iterator[None]:
    """Calls `look` several times a second from its own thread, so that the line moves while the work waits."""
    ended = threading.Event()

    def tick() -> None:
        while not ended.wait(BAR_EVERY_S):
            with suppress(OSError, ValueError):  # stderr is closed, or its reader has gone
                look()

    ticker = threading.Thread(target=tick, name="omnitts progress", daemon=True)
    ticker.start()
    try:
        yield
    finally:
        ended.set()
        ticker.join()


class Progress(AbstractContextManager["Progress"]):
    """One progress line. `update` is rate-limited and may be called from any thread."""

    def __init__(self, title: str, wanted: str, clock: Any = time.monotonic) -> None:
        self.title, self.style, self._clock = title, style(wanted), clock
        self.began = self._told = clock()
        self._drawn = False
        self._lock = threading.Lock()
        if self.style == "bar":
            self._told -= BAR_EVERY_S  # the first line at once

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.clear()

    def update(self, share: float | None, words: str, **numbers: Any) -> None:
        """`share` is 0..1, or None if the total is unknown; `words` are displayed, `numbers` go into JSON."""
        every = {"bar": BAR_EVERY_S, "plain": PLAIN_EVERY_S, "json": JSON_EVERY_S, "none": float("inf")}[self.style]
        with self._lock:
            now = self._clock()
            if now - self._told < every:
                return
            self._told = now
            self._show(share, words, numbers)

    def _show(self, share: float | None, words: str, numbers: dict[str, Any]) -> None:
        if self.style == "json":
            console.event(json.dumps({"event": "progress", "title": self.title, "share": share, **numbers}))
        elif self.style == "plain":
            console.event(" ".join([self.title, *([f"{share:.0%}"] if share is not None else []), words]))
        else:
            console.redraw(self._line(share, words))
            self._drawn = True

    def _line(self, share: float | None, words: str) -> str:
        from rich.cells import cell_len

        width = shutil.get_terminal_size().columns - 1
        head, tail = f"{self.title} ", f" {words}"
        if share is None:
            return fitting(head + words, width)
        tail = f" {share:4.0%} {words}"
        room = min(LONGEST_BAR, width - cell_len(head + tail))
        if room < 8:
            return fitting(head + tail.strip(), width)
        full = int(share * room)
        return head + "━" * full + "─" * (room - full) + tail

    def draw(self, line: str, strong: str = "", rest: str = "") -> None:
        """A line of another kind, of which a part is strong. For the style `bar`."""
        with self._lock:
            width = shutil.get_terminal_size().columns - 1
            console.redraw(
                line[:width], strong[: max(width - len(line), 0)], rest[: max(width - len(line + strong), 0)]
            )
            self._drawn = True

    def clear(self) -> None:
        """Removes the line."""
        if self._drawn:
            console.redraw("")
            self._drawn = False


def fitting(text: str, width: int) -> str:
    """As much of the text as fits into so many columns of a terminal."""
    from rich.cells import cell_len, set_cell_size

    return set_cell_size(text, min(cell_len(text), width)).rstrip()


def duration(seconds: float) -> str:
    """1:05 or 2:03:04."""
    whole = max(0, round(seconds))
    minutes, rest = divmod(whole, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def estimate(seconds: float) -> str:
    """about 1:05; a shorter time than a second is about 0:01."""
    return f"about {duration(max(seconds, 1.0))}"
